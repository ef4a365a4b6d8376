package tail4go

// Stats are the numbers of an agent at one moment. Bytes are those of the files, line ends included.
type Stats struct {
	Matched  int   // files found at the last scan
	Open     int   // files held open, renamed and deleted ones among them
	Lines    int64 // records sent since the start, pieces of long lines counted singly
	Read     int64 // bytes read and sent since the start
	Acked    int64 // of them acknowledged, and every line before them
	InFlight int64 // of them not acknowledged yet
	Lag      int64 // bytes of open files that are not acknowledged, unread ones included

	Resent      int64 // lines sent again after a failure
	Rotated     int64 // files that lost their name
	Truncated   int64 // files that became shorter than what was read of them
	Lost        int64 // bytes that vanished before they could be read or sent again
	SaveErrors  int64 // failed tries to store positions
	Files       []FileStats
	Unreadable  []string // files that match and can't be opened, with the cause
	LastFailure string   // of a send, while sending fails; empty: all is well
}

// FileStats are the numbers of one file that is held open.
type FileStats struct {
	Input string
	Path  string // the name under which it was found first
	Now   string // the name it was last seen under; a file that is gone keeps it
	Size  int64
	Read  int64 // position behind the last line sent
	Acked int64 // position that is, or will soon be, stored
	Gone  bool  // renamed or deleted: it is closed when it is read to its end
}

// stats adds an input's numbers.
func (in *input) stats(s *Stats) {
	in.mu.Lock()
	defer in.mu.Unlock()
	s.Matched += in.matched
	for path, cause := range in.problems {
		s.Unreadable = append(s.Unreadable, path+": "+cause)
	}
	for _, f := range in.files {
		sent, acked := f.sent.Load(), f.win.mark().at
		sent = max(sent, acked) // the reader notes it once for some lines
		s.Acked += acked - f.first
		s.InFlight += sent - acked
		if f.handle == nil {
			continue
		}
		size := f.size
		if now, _, err := f.measure(); err == nil {
			size = now
		}
		s.Open++
		s.Lag += max(0, size-acked)
		s.Files = append(s.Files, FileStats{
			Input: in.Name, Path: f.path, Now: f.now, Size: size, Read: sent, Acked: acked, Gone: !f.left.IsZero(),
		})
	}
}
