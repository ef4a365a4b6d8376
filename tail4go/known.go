package tail4go

import (
	"os"
	"path/filepath"
	"slices"
	"time"
)

// findKnown looks for files that were followed before the agent was stopped and that no pattern shows: renamed ones in the
// folder where they were, and ones whose device or inode got another number; in.mu is held.
func (in *input) findKnown(seen []sighting) []sighting {
	there := make(map[fileID]bool, len(seen))
	for _, s := range seen {
		there[s.id] = true
	}
	var found []sighting
	folders := make(map[string][]sighting)
	for id, e := range in.known {
		if e.Done || there[id] {
			continue
		}
		dir := filepath.Dir(string(e.Now))
		if _, ok := folders[dir]; !ok {
			folders[dir] = filesIn(dir)
		}
		i := slices.IndexFunc(folders[dir], func(s sighting) bool { return s.id == id })
		if i >= 0 {
			found = append(found, folders[dir][i])
			continue
		}
		in.findMoved(e, seen)
	}
	return found
}

func filesIn(dir string) []sighting {
	list, err := os.ReadDir(dir)
	if err != nil {
		return nil
	}
	var seen []sighting
	for _, d := range list {
		if s, err := sightingOf(filepath.Join(dir, d.Name())); err == nil && !s.link {
			s.aside = true
			seen = append(seen, s)
		}
	}
	return seen
}

// findMoved looks for a known file under another device or inode: a disk was mounted anew, or a folder was restored. Its
// entry is then filed under the new numbers.
func (in *input) findMoved(e *entry, seen []sighting) {
	if e.Pos == 0 {
		return // nothing to tell it by, and nothing to lose
	}
	for _, s := range seen {
		if in.known[s.id] != nil || s.path != string(e.Now) && s.id.ino != e.Ino {
			continue
		}
		h, fi, err := openRegular(s.path)
		if err != nil {
			continue
		}
		same, err := e.isContentOf(h, fi.Size())
		_ = h.Close()
		if err != nil || !same {
			continue
		}
		in.log.Warn("file has another device or inode than before and the same content: it is taken for the same",
			"path", s.path, "pos", e.Pos)
		delete(in.known, e.id())
		e.Dev, e.Ino, e.Born = s.id.dev, s.id.ino, 0
		in.known[s.id] = e
		return
	}
}

// missKnown notes since when known files are gone; in.mu is held.
func (in *input) missKnown(now time.Time) {
	for _, e := range in.known {
		if !e.Gone.IsZero() {
			continue
		}
		e.Gone = now.UTC().Truncate(time.Second)
		in.touched = true
		if e.Size > e.Pos {
			in.count.lost.Add(e.Size - e.Pos)
			in.log.Error("file is gone and was not read to its end",
				"path", string(e.Path), "pos", e.Pos, "unsent_bytes", e.Size-e.Pos)
		}
	}
}
