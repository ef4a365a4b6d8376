package vfs

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"syscall"
)

// OS returns the operating system's file system. Relative names are relative to the working directory.
func OS() FS { return osFS{} }

type osFS struct{}

func (osFS) Remove(name string) error                    { return os.Remove(name) }
func (osFS) Rename(oldname, newname string) error        { return os.Rename(oldname, newname) }
func (osFS) MkdirAll(dir string, perm fs.FileMode) error { return os.MkdirAll(dir, perm) }
func (osFS) ReadDir(dir string) ([]fs.DirEntry, error)   { return os.ReadDir(dir) }
func (osFS) Stat(name string) (fs.FileInfo, error)       { return os.Stat(name) }

func (osFS) OpenFile(name string, flag int, perm fs.FileMode) (File, error) {
	if err := checkFlag(name, flag); err != nil {
		return nil, err
	}
	f, err := os.OpenFile(name, flag, perm)
	if err != nil {
		return nil, err
	}
	if flag&(os.O_WRONLY|os.O_RDWR) == 0 { // the system refuses to open a directory for writing, but not for reading
		info, err := f.Stat()
		if err == nil && info.IsDir() {
			err = &fs.PathError{Op: "open", Path: name, Err: syscall.EISDIR}
		}
		if err != nil {
			return nil, errors.Join(err, f.Close())
		}
	}
	return osFile{f}, nil
}

// SyncDir syncs the directory itself. Systems that can't do that answer EINVAL; there is nothing more a caller could do
// for its names there, so that is not an error.
func (osFS) SyncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	err = syncDir(d)
	if errors.Is(err, syscall.EINVAL) {
		err = nil
	}
	return errors.Join(err, d.Close())
}

func (osFS) Lock(name string) (io.Closer, error) {
	f, err := os.OpenFile(name, os.O_RDWR|os.O_CREATE, 0o644)
	if err != nil {
		return nil, err
	}
	if err := withFD(f, "lock", flock); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

// osFile is an *os.File with what that lacks.
type osFile struct{ *os.File }

func (f osFile) Size() (int64, error) {
	info, err := f.Stat()
	if err != nil {
		return 0, err
	}
	return info.Size(), nil
}

// withFD calls do with the descriptor, which can't be closed and given to another file meanwhile. do is repeated
// while a signal interrupts it.
func withFD(f *os.File, op string, do func(fd uintptr) error) error {
	conn, err := f.SyscallConn()
	if err != nil {
		return &fs.PathError{Op: op, Path: f.Name(), Err: err}
	}
	var doErr error
	err = conn.Control(func(fd uintptr) {
		for {
			if doErr = do(fd); !errors.Is(doErr, syscall.EINTR) {
				return
			}
		}
	})
	if err != nil { // Control's only error, but not the one that package os has for it
		doErr = fs.ErrClosed
	}
	if doErr != nil {
		return &fs.PathError{Op: op, Path: f.Name(), Err: doErr}
	}
	return nil
}
