package vfs

import (
	"io"
	"io/fs"
	"sync/atomic"
	"syscall"
	"time"
)

// memFile is an open file of a Mem, whose lock guards the inode.
type memFile struct {
	m             *Mem
	n             *inode
	name          string
	reads, writes bool
	closed        atomic.Bool
}

func (f *memFile) Name() string { return f.name }

func (f *memFile) Close() error {
	if f.closed.Swap(true) {
		return pathError("close", f.name, fs.ErrClosed)
	}
	return nil
}

func (f *memFile) ReadAt(b []byte, off int64) (int, error) {
	if err := f.check("read", f.reads, off); err != nil {
		return 0, err
	}
	f.m.mu.RLock()
	defer f.m.mu.RUnlock()
	n := f.n.file.live.readAt(b, off)
	if n < len(b) {
		return n, io.EOF
	}
	return n, nil
}

func (f *memFile) WriteAt(b []byte, off int64) (int, error) {
	if err := f.check("write", f.writes, off); err != nil {
		return 0, err
	}
	if off > maxSize-int64(len(b)) {
		return 0, pathError("write", f.name, syscall.EFBIG)
	}
	f.m.step(Op{Kind: OpWrite, Name: f.name, Off: off, Len: int64(len(b))})
	f.m.mu.Lock()
	defer f.m.mu.Unlock()
	f.n.file.write(b, off)
	f.n.modTime = time.Now()
	return len(b), nil
}

func (f *memFile) Truncate(n int64) error {
	if f.closed.Load() {
		return pathError("truncate", f.name, fs.ErrClosed)
	}
	if !f.writes || n < 0 {
		return pathError("truncate", f.name, syscall.EINVAL)
	}
	if n > maxSize {
		return pathError("truncate", f.name, syscall.EFBIG)
	}
	f.m.step(Op{Kind: OpTruncate, Name: f.name, Off: n})
	f.m.mu.Lock()
	defer f.m.mu.Unlock()
	f.n.truncate(n)
	return nil
}

func (f *memFile) Sync() error     { return f.sync(OpSync) }
func (f *memFile) Datasync() error { return f.sync(OpDatasync) }

func (f *memFile) sync(kind OpKind) error {
	if f.closed.Load() {
		return pathError(string(kind), f.name, fs.ErrClosed)
	}
	f.m.step(Op{Kind: kind, Name: f.name})
	f.m.mu.Lock()
	defer f.m.mu.Unlock()
	f.n.file.sync()
	return nil
}

func (f *memFile) Size() (int64, error) {
	if f.closed.Load() {
		return 0, pathError("stat", f.name, fs.ErrClosed)
	}
	f.m.mu.RLock()
	defer f.m.mu.RUnlock()
	return f.n.file.live.size, nil
}

// Preallocate has nothing to reserve.
func (f *memFile) Preallocate(off, n int64) error {
	if err := f.check("fallocate", f.writes || n <= 0, off); err != nil {
		return err
	}
	if n <= 0 {
		return pathError("fallocate", f.name, syscall.EINVAL)
	}
	return nil
}

// check returns why a read or write at off is not possible.
func (f *memFile) check(op string, allowed bool, off int64) error {
	switch {
	case f.closed.Load():
		return pathError(op, f.name, fs.ErrClosed)
	case off < 0:
		return pathError(op, f.name, syscall.EINVAL)
	case !allowed:
		return pathError(op, f.name, syscall.EBADF)
	}
	return nil
}

func (n *inode) truncate(size int64) {
	n.file.truncate(size)
	n.modTime = time.Now()
}

// info describes the inode as it is now.
func (n *inode) info(name string) fs.FileInfo {
	return memInfo{name: name, size: n.file.live.size, mode: n.mode, modTime: n.modTime}
}

type memInfo struct {
	name    string
	size    int64
	mode    fs.FileMode
	modTime time.Time
}

func (i memInfo) Name() string       { return i.name }
func (i memInfo) Size() int64        { return i.size }
func (i memInfo) Mode() fs.FileMode  { return i.mode }
func (i memInfo) ModTime() time.Time { return i.modTime }
func (i memInfo) IsDir() bool        { return i.mode.IsDir() }
func (i memInfo) Sys() any           { return nil }
