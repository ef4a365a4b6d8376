// Package vfs is the small part of a file system that metaq uses: the real one, and what tests put in its place.
package vfs

import (
	"errors"
	"io"
	"io/fs"
)

// ErrLocked means that another holder has the lock.
var ErrLocked = errors.New("file is locked by another holder")

// FS is a file system.
type FS interface {
	OpenFile(name string, flag int, perm fs.FileMode) (File, error)
	Remove(name string) error
	Rename(oldname, newname string) error
	MkdirAll(dir string, perm fs.FileMode) error
	ReadDir(dir string) ([]fs.DirEntry, error)
	Stat(name string) (fs.FileInfo, error)
	SyncDir(dir string) error
	Lock(name string) (io.Closer, error)
}

// File is an open file.
type File interface {
	io.ReaderAt
	io.WriterAt
	io.Closer
	Name() string
	Size() (int64, error)
	Truncate(n int64) error
	Sync() error
	Datasync() error
	Preallocate(off, n int64) error
}
