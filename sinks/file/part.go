package file

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/metaq-go/metaq/internal/vfs"
)

// reserve is how much space is asked for ahead of what is written, so that most appends change no metadata.
const reserve = 4 << 20

// part is an unfinished file.
type part struct {
	fsys  vfs.FS
	dir   string
	names names
	stamp time.Time

	file     vfs.File // nil once closed, on the way to be published
	size     int64    // what is acknowledged
	reserved int64    // how far space is reserved
	dirty    bool     // there may be bytes behind size
	named    bool     // the name is durable
	renamed  bool     // it has its final name, durable or not, and a reader may have taken it away
}

func createPart(fsys vfs.FS, dir string, n names, stamp time.Time) (*part, error) {
	p := &part{fsys: fsys, dir: dir, names: n, stamp: stamp}
	f, err := fsys.OpenFile(p.path(), os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o644)
	if err != nil {
		if !errors.Is(err, fs.ErrExist) { // it may have been made all the same; if it stays, the next Open removes it: it is empty
			_ = fsys.Remove(p.path())
		}
		return nil, err
	}
	p.file = f
	return p, nil
}

func (p *part) path() string { return filepath.Join(p.dir, p.names.part(p.stamp)) }

// append stores lines durably, or nothing.
func (p *part) append(lines []byte) error {
	if err := p.rollBack(); err != nil {
		return fmt.Errorf("after a write that failed: %w", err)
	}
	p.dirty = true
	err := p.write(lines)
	if err != nil {
		_ = p.rollBack() // gives space back to a full disk; if it fails the next append tries again before anything else
		return err
	}
	p.size += int64(len(lines))
	p.dirty = false
	return nil
}

func (p *part) write(lines []byte) error {
	n := int64(len(lines))
	if end := p.size + n; end > p.reserved {
		if err := p.file.Preallocate(end, reserve); err == nil {
			p.reserved = end + reserve
		}
	}
	if _, err := p.file.WriteAt(lines, p.size); err != nil {
		return err
	}
	if err := p.file.Datasync(); err != nil {
		return err
	}
	if p.named {
		return nil
	}
	if err := p.fsys.SyncDir(p.dir); err != nil {
		return err
	}
	p.named = true
	return nil
}

// rollBack takes away what a failed append left. It is synced before anything else is written in its place: otherwise a crash
// could leave a mixture of both.
func (p *part) rollBack() error {
	if !p.dirty {
		return nil
	}
	if err := p.file.Truncate(p.size); err != nil {
		return err
	}
	p.reserved = p.size
	if err := p.file.Sync(); err != nil {
		return err
	}
	p.dirty = false
	return nil
}

// publish gives the file its final name. After an error it can be called again.
func (p *part) publish() error {
	if err := p.close(); err != nil {
		return err
	}
	if !p.renamed {
		if err := p.rename(); err != nil {
			return err
		}
		p.renamed = true
	}
	return p.fsys.SyncDir(p.dir)
}

// close makes the file's end durable and closes it.
func (p *part) close() error {
	if p.file == nil {
		return nil
	}
	if p.dirty || p.reserved > p.size {
		p.dirty = true
		if err := p.rollBack(); err != nil {
			return err
		}
	}
	f := p.file
	p.file = nil
	return f.Close()
}

// rename takes a name that nobody has: a file that is there is never replaced.
func (p *part) rename() error {
	from := p.path()
	for stamp := p.stamp; ; stamp = stamp.Add(1) {
		to := filepath.Join(p.dir, p.names.finished(stamp))
		switch _, err := p.fsys.Stat(to); {
		case errors.Is(err, fs.ErrNotExist):
			return p.fsys.Rename(from, to)
		case err != nil:
			return err
		}
		if _, err := p.fsys.Stat(from); errors.Is(err, fs.ErrNotExist) {
			return nil // an earlier rename worked, although it may have said that it had failed
		}
	}
}

// discard removes a file without rows.
func (p *part) discard() error {
	var err error
	if p.file != nil {
		err = p.file.Close()
		p.file = nil
	}
	return errors.Join(err, p.fsys.Remove(p.path()))
}
