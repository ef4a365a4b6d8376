package tail4go

import "time"

// The life of a file after it was found: it loses its name, ends, is let go of, or begins anew because it was cut off.
// These are the reader's; each takes input.mu for what others look at.

// measured notes a file's size and names. It returns when the file lost its first name, and whether the scans pass it by.
func (in *input) measured(f *file, size int64, links uint64, now time.Time) (left time.Time, passed bool) {
	in.mu.Lock()
	defer in.mu.Unlock()
	f.size, f.links = size, links
	if links == 0 && f.left.IsZero() {
		f.left = now
		in.count.rotated.Add(1)
	}
	if f.left.IsZero() && f.ended {
		f.ended = false // it got its name back
		in.touched = true
	}
	// One scan may pass by a file that is being renamed.
	return f.left, links == 0 || in.round > f.seen+1
}

// end notes that a file that lost its name was read to its end.
func (in *input) end(f *file) {
	in.mu.Lock()
	defer in.mu.Unlock()
	f.ended = true
	in.touched = true
}

// release lets go of a file that is over. It is remembered unless it was deleted: nobody can meet it again then.
func (in *input) release(f *file, now time.Time) {
	in.mu.Lock()
	defer in.mu.Unlock()
	if f.links > 0 {
		e := f.entry(in.Name)
		e.Gone = now.UTC().Truncate(time.Second)
		in.known[f.id] = &e
	}
	_ = f.handle.Close() // was only read
	f.handle = nil
	in.unfollow(f)
	in.log.Info("file was read to its end and is closed", "path", f.path, "now", f.now, "size", f.size)
}

// cutOff begins anew with a file that has become shorter than what was read of it. Its life before stays until the last of
// its lines is answered.
func (in *input) cutOff(f *file, size int64, links uint64) {
	in.mu.Lock()
	defer in.mu.Unlock()
	missed := max(0, f.size-f.pos.at)
	in.count.truncated.Add(1)
	in.count.lost.Add(missed)
	in.log.Warn("file was cut off: it is read from its beginning",
		"path", f.path, "pos", f.pos.at, "size", size, "lost_bytes", missed)
	g := &file{seq: in.nextSeq, path: f.path}
	g.prev = f.prev // f itself has nothing left that could be sent again in between
	in.nextSeq++
	g.sight = f.sight
	g.ended, g.size, g.links, g.head = false, size, links, digest{}
	f.handle, f.ended = nil, true
	in.follow(g)
}

// lastLife waits until the lines of a file that was cut off are answered. Those that failed are gone.
func (in *input) lastLife(f *file, now time.Time) {
	list, unanswered := f.win.failures(retryLines)
	f.due = now.Add(in.cfg.PollInterval)
	if unanswered {
		return
	}
	for _, l := range list {
		in.lose(f, l)
	}
	f.retry = retry{}
	f.quiet = true
	if f.over() {
		in.mu.Lock()
		defer in.mu.Unlock()
		in.unfollow(f)
	}
}
