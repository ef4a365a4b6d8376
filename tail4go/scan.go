package tail4go

import (
	"cmp"
	"context"
	"errors"
	"io/fs"
	"os"
	"slices"
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
		// At most a fiftieth of a core.
		pause := max(in.cfg.ScanInterval, min(50*time.Since(start), 10*in.cfg.ScanInterval))
		timer := time.NewTimer(pause)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return
		}
	}
}

const looks = 4 // in a row, at most

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
			in.saw(f, s)
		} else {
			fresh = append(fresh, s)
		}
	}
	if in.starting {
		fresh = append(fresh, in.findKnown(seen)...)
	}
	// The oldest first: it gets the lowest number.
	slices.SortStableFunc(fresh, func(a, b sighting) int { return a.mtime.Compare(b.mtime) })
	var met []*file
	for _, s := range fresh {
		if f := in.byID[s.id]; f != nil {
			in.saw(f, s)
			continue
		}
		f, err := in.meet(s)
		switch {
		case err == nil:
			in.byID[f.id] = f
			in.saw(f, s)
			met = append(met, f)
		case errors.Is(err, fs.ErrNotExist):
			moving = moving || !s.aside
		case !errors.Is(err, errNotRegular):
			problems[s.path] = err.Error()
		}
	}
	if len(met) > 0 {
		in.follow(met...)
	}
	if in.starting && !moving {
		in.missKnown(now)
		in.starting, in.names = false, nil
	}
	in.checkNames(byPath, now)
	in.report(problems)
	in.kick()
	return moving || len(met) > 0
}

// saw notes that a scan came by a file; in.mu is held.
func (in *input) saw(f *file, s sighting) {
	if s.aside || f.seen == in.round {
		return // another name of it came first
	}
	f.seen = in.round
	in.matched++
	if f.now != s.path {
		f.now = s.path
		in.touched = true
	}
	if s.size != f.size {
		in.stir(f)
		in.news = time.Now()
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
	return slices.ContainsFunc(in.Exclude, func(pattern string) bool {
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

// meet opens a file that isn't followed, and decides where to begin; in.mu is held.
func (in *input) meet(s sighting) (*file, error) {
	h, fi, err := openRegular(s.path)
	if err != nil {
		return nil, err
	}
	f, err := in.recognise(s, h, fi)
	if err != nil {
		return nil, errors.Join(err, h.Close())
	}
	return f, nil
}

// recognise makes a file of what was opened: one that the state knows, or a new one.
func (in *input) recognise(s sighting, h *os.File, fi os.FileInfo) (*file, error) {
	id, links := identify(fi)
	if id != s.id {
		return nil, fs.ErrNotExist // renamed since the scan looked: the next one sorts it out
	}
	f := &file{path: s.path}
	f.sight = sight{handle: h, id: id, born: born(h), links: links, now: s.path, size: fi.Size()}
	if e := in.known[id]; e != nil {
		same, err := in.isSame(e, f)
		if err != nil {
			return nil, err
		}
		delete(in.known, id)
		if same {
			f.seq, f.path, f.pos, f.head, f.ended = e.Seq, string(e.Path), e.position(), e.Head, e.Done
			in.log.Info("file goes on", "path", f.path, "now", s.path, "pos", f.pos.at, "size", f.size)
			return f, nil
		}
		in.log.Info("file has the inode of another one that is gone, or was written anew: it is read from its beginning",
			"path", s.path, "before", string(e.Path), "unsent_bytes", max(0, e.Size-e.Pos))
		in.count.lost.Add(max(0, e.Size-e.Pos))
	}
	if s.aside {
		return nil, fs.ErrNotExist
	}
	return f, in.begin(f)
}

// isSame reports whether a file that has the inode of a known one is that one. An empty file without a birth is told by its
// name.
func (in *input) isSame(e *entry, f *file) (bool, error) {
	switch {
	case e.Born != f.born && e.Born != 0 && f.born != 0:
		return false, nil
	case e.Head.N == 0 && (e.Born == 0 || f.born == 0) && f.now != string(e.Now):
		return false, nil
	}
	return e.isContentOf(f.handle, f.size)
}

// begin decides where to begin in a new file.
func (in *input) begin(f *file) (err error) {
	f.seq = in.nextSeq
	in.nextSeq++
	// A file that took the name of a known one came later than the agent's first start.
	if in.starting && in.Start == End && !in.names[f.path] {
		if f.pos.at, err = lastLine(f.handle, f.size, in.cfg.MaxLine); err != nil {
			return err
		}
	}
	if f.head, err = digestOf(f.handle, 0, headBytes); err != nil {
		return err
	}
	in.log.Info("file found", "path", f.path, "pos", f.pos.at, "size", f.size)
	return nil
}

// checkNames finds out which files have lost their first name; in.mu is held.
func (in *input) checkNames(byPath map[string]fileID, now time.Time) {
	for _, f := range in.files {
		if f.handle == nil {
			continue
		}
		if byPath[f.path] == f.id {
			f.left = time.Time{}
			continue
		}
		if !f.left.IsZero() {
			if in.round > f.seen+1 {
				in.stir(f) // nobody passes by any more: it may be let go of
			}
			continue
		}
		fi, err := os.Stat(f.path)
		if err == nil {
			if id, _ := identify(fi); id == f.id {
				continue
			}
		} else if !errors.Is(err, fs.ErrNotExist) {
			continue // nobody knows
		}
		f.left = now
		in.count.rotated.Add(1)
		in.stir(f)
		in.log.Info("file lost its name: it is read to its end", "path", f.path, "now", f.now, "size", f.size)
	}
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
