package vfs

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"syscall"
)

// ErrLocked is returned by FS.Lock while another holder has the lock: another process, or another caller in this one.
var ErrLocked = errors.New("already locked, by another process or by this one")

// FS is a file system. All methods may be called concurrently. Errors are those of package os: *fs.PathError or
// *os.LinkError, to be asked with errors.Is for fs.ErrNotExist, fs.ErrExist, syscall.ENOSPC and so on.
//
// Nothing is durable by itself. A file's bytes are after its Sync or Datasync, a name (created, renamed, removed) is
// after SyncDir of its folder.
type FS interface {
	// OpenFile opens a file. flag is one of os.O_RDONLY, O_WRONLY and O_RDWR, with any of O_CREATE, O_EXCL (with
	// O_CREATE only) and O_TRUNC (not with O_RDONLY); others, O_APPEND for one, are refused with EINVAL: positions are
	// the caller's. A directory is refused with EISDIR.
	OpenFile(name string, flag int, perm fs.FileMode) (File, error)

	// Remove removes a file or an empty directory. An open file stays readable and writable through its handles.
	Remove(name string) error

	// Rename gives a file or directory a new name, atomically in the place of a file of that name. An existing directory is
	// never replaced (fs.ErrExist).
	Rename(oldname, newname string) error

	// MkdirAll makes dir and the parents it lacks; fine if dir exists. It makes nothing durable: see MkdirAllSync.
	MkdirAll(dir string, perm fs.FileMode) error

	// ReadDir returns what is in dir, sorted by name.
	ReadDir(dir string) ([]fs.DirEntry, error)

	// Stat describes a file or directory.
	Stat(name string) (fs.FileInfo, error)

	// SyncDir makes all creations, renames and removals in dir durable that were done before the call. Of a rename between two
	// directories it makes both halves durable.
	SyncDir(dir string) error

	// Lock takes the exclusive advisory lock of the file name, which it creates if need be, and never waits: ErrLocked if
	// there is another holder. Close gives the lock back, the end of the process too. The file stays: removing it would
	// let two holders lock two files of one name.
	Lock(name string) (io.Closer, error)
}

// File is an open file. All methods may be called concurrently; after Close all of them but Name return fs.ErrClosed.
//
// The operating system's files also have the methods of *os.File, by type assertion: syscall.Conn for sendfile.
type File interface {
	io.ReaderAt // io.EOF with what there is, if the file ends inside p
	io.WriterAt // past the end, the file grows and what was skipped reads as zeros
	io.Closer   // makes nothing durable

	// Name returns the name the file was opened with, whatever happened to it since.
	Name() string

	// Size returns the file's size in bytes. Space that Preallocate reserved does not count.
	Size() (int64, error)

	// Truncate cuts the file to n bytes, or grows it with zeros. It also gives back what Preallocate reserved past n.
	Truncate(n int64) error

	// Sync makes the file's content and attributes durable (fsync), but not its name: see FS.SyncDir. After an error
	// nobody knows what is durable, and a later Sync that succeeds proves nothing about the bytes written before: the kernel
	// may have dropped them. The file has to be read and judged anew.
	Sync() error

	// Datasync is Sync without the attributes that reading does not need (fdatasync); the size is made durable. Where the OS
	// has no such call it is Sync.
	Datasync() error

	// Preallocate reserves space for the bytes from off to off+n without changing the size, so that appends need not
	// allocate: with a Datasync after each 1 MiB that is 1.4 to 4 times as fast on ext4. It is a hint: the error,
	// errors.ErrUnsupported where the system can't, may be dropped, except that syscall.ENOSPC tells early that a write
	// would fail.
	Preallocate(off, n int64) error
}

// checkFlag refuses what not all file systems here can do alike.
func checkFlag(name string, flag int) error {
	const known = os.O_RDONLY | os.O_WRONLY | os.O_RDWR | os.O_CREATE | os.O_EXCL | os.O_TRUNC
	access := flag & (os.O_WRONLY | os.O_RDWR)
	switch {
	case flag&^known != 0,
		access == os.O_WRONLY|os.O_RDWR,
		flag&os.O_EXCL != 0 && flag&os.O_CREATE == 0,
		flag&os.O_TRUNC != 0 && access == os.O_RDONLY:
		return &fs.PathError{Op: "open", Path: name, Err: syscall.EINVAL}
	}
	return nil
}
