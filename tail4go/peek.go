package tail4go

import "time"

// watch is what the scanner alone knows of a file, to tell whether its log is busy.
type watch struct {
	size int64
	grew time.Time
}

func (w *watch) look(size int64, now time.Time) {
	if size != w.size || w.grew.IsZero() {
		w.size, w.grew = size, now
	}
}

// isBusy reports whether a file changed lately.
func (in *input) isBusy(w watch, now time.Time) bool {
	return now.Sub(w.grew) <= dormantAfter*in.cfg.PollInterval
}

// busyNames returns the newest files of the names where something happens. A file may be over already: who rotates a log may
// leave its name free for a moment, and what takes the name next must not wait for a scan.
func (in *input) busyNames(now time.Time) []*file {
	in.mu.Lock()
	defer in.mu.Unlock()
	busy := in.busyList[:0]
	for name, f := range in.byName {
		switch {
		case in.isBusy(f.watch, now):
			busy = append(busy, f)
		case f.handle == nil:
			delete(in.byName, name)
		}
	}
	in.busyList = busy
	return busy
}

// peekPause returns how long the names of busy logs may be left alone: a fourth as often as their files are looked at.
func (in *input) peekPause(now time.Time) time.Duration {
	busy := in.busyNames(now)
	if len(busy) == 0 {
		return in.cfg.ScanInterval
	}
	quiet := dormantAfter * in.cfg.PollInterval
	for _, f := range busy {
		quiet = min(quiet, now.Sub(f.watch.grew))
	}
	return min(4*in.between(quiet/4, len(busy)), in.cfg.PollInterval)
}

// peek looks at the names of busy logs, and takes in a file that has taken the place of another. A log that is rotated several
// times between two scans loses nothing so, even if its old files get names that no pattern matches.
func (in *input) peek(now time.Time) {
	for _, f := range in.busyNames(now) {
		s, err := sightingOf(f.path)
		switch {
		case err != nil: // the next scan looks into it
		case s.id == f.id:
			f.watch.look(s.size, now)
		default:
			in.mu.Lock()
			problems := make(map[string]string) // the next scan reports them
			if met, _ := in.admit([]sighting{s}, now, problems); met {
				if f.handle != nil {
					in.checkName(f, s.id, now)
				}
				in.kick()
			}
			in.mu.Unlock()
		}
	}
}
