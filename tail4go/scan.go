package tail4go

import (
	"cmp"
	"context"
	"errors"
	"io/fs"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/bmatcuk/doublestar/v4"
)

// sighting is a file as a scan saw it.
type sighting struct {
	path  string
	id    fileID
	size  int64
	mtime time.Time
	link  bool // path is a symbolic link
	// aside: the path matches no pattern; it was looked up because the state knows the file.
	aside bool
}

// scanner looks for files until ctx ends. It goes on while the reader waits for the broker, so that a file that is rotated
// away in the meantime is already open.
func (in *input) scanner(ctx context.Context) {
	for {
		start := time.Now()
		// Where something is being rotated, a file can slip through between the look at one name and at the next.
		for range looks {
			if !in.scan(start) {
				break
			}
		}
		end := time.Now()
		// At most a fiftieth of a core.
		next := end.Add(max(in.cfg.ScanInterval, min(50*end.Sub(start), 10*in.cfg.ScanInterval)))
		for now := end; now.Before(next); now = time.Now() {
			if !pause(ctx, min(next.Sub(now), in.peekPause(now))) {
				return
			}
			in.peek(time.Now())
		}
	}
}

const looks = 4 // in a row, at most

// pause waits for d, and reports false if ctx ended.
func pause(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// scan compares what the patterns match with what is followed, and reports whether names changed meanwhile, or lately.
func (in *input) scan(now time.Time) (moving bool) {
	problems := make(map[string]string)
	seen, moving := in.look(problems)

	in.mu.Lock()
	defer in.mu.Unlock()
	in.round++
	in.matched = 0
	var fresh []sighting
	byPath := make(map[string]fileID, len(seen))
	for _, s := range seen {
		byPath[s.path] = s.id
		if f := in.byID[s.id]; f != nil {
			in.saw(f, s, now)
		} else {
			fresh = append(fresh, s)
		}
	}
	if in.starting {
		fresh = append(fresh, in.findKnown(seen)...)
	}
	met, vanished := in.admit(fresh, now, problems)
	if moving = moving || vanished; in.starting && !moving {
		in.missKnown(now)
		in.starting, in.names = false, nil
	}
	for _, f := range in.files {
		if f.handle != nil {
			in.checkName(f, byPath[f.path], now)
		}
	}
	in.report(problems)
	in.kick()
	return moving || met
}

// admit begins to follow files that were seen and are not followed yet. It reports whether it met any, and whether a name
// was gone before its file could be opened; in.mu is held.
func (in *input) admit(fresh []sighting, now time.Time, problems map[string]string) (met, vanished bool) {
	// The oldest first: it gets the lowest number.
	slices.SortStableFunc(fresh, func(a, b sighting) int { return a.mtime.Compare(b.mtime) })
	var files []*file
	for _, s := range fresh {
		if f := in.byID[s.id]; f != nil {
			in.saw(f, s, now)
			continue
		}
		f, err := in.meet(s)
		switch {
		case err == nil:
			in.byID[f.id] = f
			in.saw(f, s, now)
			files = append(files, f)
		case errors.Is(err, fs.ErrNotExist):
			vanished = vanished || !s.aside
		case !errors.Is(err, errNotRegular):
			problems[s.path] = err.Error()
		}
	}
	if len(files) > 0 {
		in.follow(files...)
	}
	return len(files) > 0, vanished
}

// saw notes that a scan came by a file; in.mu is held.
func (in *input) saw(f *file, s sighting, now time.Time) {
	if s.aside || f.seen == in.round {
		return // another name of it came first
	}
	f.watch.look(s.size, now)
	f.seen = in.round
	in.matched++
	if f.now != s.path {
		f.now = s.path
		in.touched = true
	}
	if s.size != f.size {
		in.stir(f)
		in.news = now
	}
}

// look returns the regular files that match, those that are no links first: a file is known by its own name rather than by
// that of a link to it. vanished: a name was gone before its file could be looked at.
func (in *input) look(problems map[string]string) (seen []sighting, vanished bool) {
	had := make(map[string]bool)
	for _, pattern := range in.Patterns {
		base, _ := doublestar.SplitPattern(pattern)
		if d, err := os.Open(base); err == nil {
			_ = d.Close()
		} else {
			problems[base] = err.Error()
		}
		paths, err := doublestar.FilepathGlob(pattern)
		if err != nil {
			problems[pattern] = err.Error()
		}
		for _, path := range paths {
			if had[path] || in.excluded(path) {
				continue
			}
			had[path] = true
			s, err := sightingOf(path)
			switch {
			case err == nil:
				seen = append(seen, s)
			case errors.Is(err, fs.ErrNotExist):
				vanished = vanished || !s.link
			case !errors.Is(err, errNotRegular):
				problems[path] = err.Error()
			}
		}
	}
	slices.SortFunc(seen, func(a, b sighting) int {
		if a.link != b.link {
			return cmp.Compare(bit(a.link), bit(b.link))
		}
		return cmp.Compare(a.path, b.path)
	})
	return seen, vanished
}

func bit(b bool) int {
	if b {
		return 1
	}
	return 0
}

func (in *input) excluded(path string) bool {
	return strings.HasPrefix(path, in.stateDir) || slices.ContainsFunc(in.Exclude, func(pattern string) bool {
		ok, err := doublestar.PathMatch(pattern, path)
		return ok && err == nil
	})
}

func sightingOf(path string) (sighting, error) {
	fi, err := os.Lstat(path)
	if err != nil {
		return sighting{}, err
	}
	link := fi.Mode()&fs.ModeSymlink != 0
	if link {
		if fi, err = os.Stat(path); err != nil {
			return sighting{link: true}, err
		}
	}
	if !fi.Mode().IsRegular() {
		return sighting{}, errNotRegular
	}
	id, _ := identify(fi)
	return sighting{path: path, id: id, size: fi.Size(), mtime: fi.ModTime(), link: link}, nil
}

// checkName finds out whether a file has lost its first name, which a scan saw at the file id; in.mu is held.
func (in *input) checkName(f *file, id fileID, now time.Time) {
	if id == f.id {
		f.left = time.Time{}
		return
	}
	if !f.left.IsZero() {
		if in.round > f.seen+1 {
			in.stir(f) // nobody passes by any more: it may be let go of
		}
		return
	}
	fi, err := os.Stat(f.path)
	if err == nil {
		if id, _ := identify(fi); id == f.id {
			return
		}
	} else if !errors.Is(err, fs.ErrNotExist) {
		return // nobody knows
	}
	f.left = now
	in.count.rotated.Add(1)
	in.stir(f)
	in.log.Info("file lost its name: it is read to its end", "path", f.path, "now", f.now, "size", f.size)
}

// report notes what can't be read and logs what is new in it; in.mu is held.
func (in *input) report(problems map[string]string) {
	for path, cause := range problems {
		if in.problems[path] != cause {
			in.log.Warn("can't be read; trying again at each scan", "path", path, "err", cause)
		}
	}
	for path := range in.problems {
		if problems[path] == "" {
			in.log.Info("can be read again, or is gone", "path", path)
		}
	}
	in.problems = problems
}
