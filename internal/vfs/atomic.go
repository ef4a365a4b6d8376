package vfs

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
)

// WriteFileAtomic puts data in the place of the file name, or creates it: who opens name, during the call, after an error
// or after a crash, finds the whole old content or the whole new one. When it returns nil the new one is durable.
//
// data goes to name with ".tmp" added, in the same folder, and is synced before it takes the name. What a crash leaves under that
// name is overwritten by the next call; the fixed name keeps leftovers from piling up, and asks that calls for one name
// do not overlap (hold FS.Lock if several processes write). After an error the temporary file is removed; only if the
// last step, SyncDir, fails the new content is in place already, durable or not.
func WriteFileAtomic(fsys FS, name string, data []byte, perm fs.FileMode) error {
	tmp := name + ".tmp"
	err := writeSynced(fsys, tmp, data, perm)
	if err == nil {
		err = fsys.Rename(tmp, name)
	}
	if err != nil {
		if removeErr := fsys.Remove(tmp); !errors.Is(removeErr, fs.ErrNotExist) {
			err = errors.Join(err, removeErr)
		}
		return fmt.Errorf("write %s: %w", name, err)
	}
	if err := fsys.SyncDir(filepath.Dir(name)); err != nil {
		return fmt.Errorf("write %s: %w", name, err)
	}
	return nil
}

func writeSynced(fsys FS, name string, data []byte, perm fs.FileMode) error {
	f, err := fsys.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, perm)
	if err != nil {
		return err
	}
	_, err = f.WriteAt(data, 0)
	if err == nil {
		err = f.Sync()
	}
	return errors.Join(err, f.Close())
}

// ReadFile returns the content of a file.
func ReadFile(fsys FS, name string) ([]byte, error) {
	f, err := fsys.OpenFile(name, os.O_RDONLY, 0)
	if err != nil {
		return nil, err
	}
	size, err := f.Size()
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	data := make([]byte, size)
	n, err := f.ReadAt(data, 0)
	if errors.Is(err, io.EOF) { // somebody cut the file meanwhile
		err = nil
	}
	return data[:n], errors.Join(err, f.Close())
}

// MkdirAllSync is FS.MkdirAll that also makes the directories' names durable, so that what is synced inside survives a crash.
// Each name is durable before anything is made below it; if dir exists, its own name is made durable, since a process
// killed half-way may have left it otherwise.
func MkdirAllSync(fsys FS, dir string, perm fs.FileMode) error {
	dir = filepath.Clean(dir)
	parent := filepath.Dir(dir)
	if parent == dir {
		return fsys.MkdirAll(dir, perm)
	}
	_, err := fsys.Stat(dir)
	existed := err == nil
	if errors.Is(err, fs.ErrNotExist) {
		err = MkdirAllSync(fsys, parent, perm)
	}
	if err != nil {
		return err
	}
	if err := fsys.MkdirAll(dir, perm); err != nil {
		return err
	}
	err = fsys.SyncDir(parent)
	if existed && errors.Is(err, fs.ErrPermission) { // made for us by somebody else, in a folder that we may not even read
		err = nil
	}
	return err
}
