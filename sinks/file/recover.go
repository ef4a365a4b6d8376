package file

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"github.com/metaq-go/metaq/internal/vfs"
)

// recovery finishes what a crash left in a folder whose lock is held.
type recovery struct {
	fsys  vfs.FS
	dir   string
	names names
	log   *slog.Logger

	latest time.Time // in a file's name
	files  int64     // finished
	torn   int64     // bytes set aside
}

func (r *recovery) run() error {
	entries, err := r.fsys.ReadDir(r.dir)
	if err != nil {
		return err
	}
	for _, e := range entries {
		stamp, unfinished, ok := r.names.stamp(e.Name())
		if !ok || !e.Type().IsRegular() {
			continue
		}
		if stamp.After(r.latest) {
			r.latest = stamp
		}
		if unfinished {
			if err := r.finish(stamp); err != nil {
				return fmt.Errorf("finish %s, left by a crash: %w", filepath.Join(r.dir, e.Name()), err)
			}
		}
	}
	return nil
}

// finish publishes the whole lines of an unfinished file.
func (r *recovery) finish(stamp time.Time) error {
	p := &part{fsys: r.fsys, dir: r.dir, names: r.names, stamp: stamp, dirty: true, named: true}
	f, err := r.fsys.OpenFile(p.path(), os.O_RDWR, 0)
	if err != nil {
		return err
	}
	p.file = f
	size, err := f.Size()
	if err == nil {
		p.size, err = wholeLines(f, size)
	}
	if err == nil && p.size < size {
		err = r.setAside(p, size)
	}
	switch {
	case err != nil:
		return errors.Join(err, f.Close())
	case p.size == 0:
		return errors.Join(p.discard(), r.fsys.SyncDir(r.dir))
	}
	if err := p.publish(); err != nil {
		if p.file != nil {
			err = errors.Join(err, p.file.Close())
		}
		return err
	}
	r.files++
	r.log.Info("file left by a crash is finished", "file", filepath.Join(r.dir, r.names.finished(stamp)), "bytes", p.size)
	return nil
}

// setAside copies what comes behind the whole lines to a file of its own. If it is interrupted it is done again, with the same
// bytes: the unfinished file is cut only afterwards.
func (r *recovery) setAside(p *part, size int64) error {
	rest := make([]byte, size-p.size)
	if _, err := p.file.ReadAt(rest, p.size); err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	name := filepath.Join(r.dir, r.names.torn(p.stamp))
	if err := vfs.WriteFileAtomic(r.fsys, name, rest, 0o644); err != nil {
		return err
	}
	r.torn += int64(len(rest))
	r.log.Warn("the end of a file left by a crash is no whole line and was never acknowledged; it is set aside",
		"file", name, "bytes", len(rest))
	return nil
}

// wholeLines returns where the last line ends that is whole, with nothing but whole lines before.
func wholeLines(f io.ReaderAt, size int64) (int64, error) {
	buf := make([]byte, min(size, 1<<20))
	var end int64
	for at := int64(0); at < size; {
		n, err := f.ReadAt(buf[:min(size-at, int64(len(buf)))], at)
		chunk := buf[:n]
		zero := bytes.IndexByte(chunk, 0)
		if zero >= 0 {
			chunk = chunk[:zero]
		}
		if last := bytes.LastIndexByte(chunk, '\n'); last >= 0 {
			end = at + int64(last) + 1
		}
		switch {
		case zero >= 0:
			return end, nil
		case n == 0:
			return end, err
		}
		at += int64(n)
	}
	return end, nil
}
