package tail4go

import (
	"errors"
	"io/fs"
	"os"
)

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
