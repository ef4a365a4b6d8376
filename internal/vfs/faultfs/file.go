package faultfs

import (
	"errors"

	"github.com/metaq-go/metaq/internal/vfs"
)

// file is an open file that obeys the rules of its FS.
type file struct {
	vfs.File
	fsys *FS
}

func (f *file) op(kind vfs.OpKind) vfs.Op { return vfs.Op{Kind: kind, Name: f.Name()} }

func (f *file) ReadAt(b []byte, off int64) (n int, err error) {
	v := f.fsys.judge(vfs.Op{Kind: vfs.OpRead, Name: f.Name(), Off: off, Len: int64(len(b))})
	if v.err != nil {
		return 0, v.err
	}
	return f.File.ReadAt(b, off)
}

func (f *file) WriteAt(b []byte, off int64) (n int, err error) {
	v := f.fsys.judge(vfs.Op{Kind: vfs.OpWrite, Name: f.Name(), Off: off, Len: int64(len(b))})
	if v.err == nil {
		return f.File.WriteAt(b, off)
	}
	part := b[:min(len(b), v.partial)]
	if v.done {
		part = b
	}
	if len(part) > 0 {
		n, err = f.File.WriteAt(part, off)
	}
	if err == nil {
		err = v.err
	}
	if v.done {
		n = 0
	}
	return n, err
}

func (f *file) Size() (n int64, err error) {
	err = f.fsys.do(f.op(vfs.OpStat), func() (err error) {
		n, err = f.File.Size()
		return err
	})
	return n, err
}

func (f *file) Truncate(n int64) error {
	op := f.op(vfs.OpTruncate)
	op.Off = n
	return f.fsys.do(op, func() error { return f.File.Truncate(n) })
}

func (f *file) Preallocate(off, n int64) error {
	op := vfs.Op{Kind: vfs.OpPreallocate, Name: f.Name(), Off: off, Len: n}
	return f.fsys.do(op, func() error { return f.File.Preallocate(off, n) })
}

func (f *file) Sync() error     { return f.fsys.do(f.op(vfs.OpSync), f.File.Sync) }
func (f *file) Datasync() error { return f.fsys.do(f.op(vfs.OpDatasync), f.File.Datasync) }

// Close closes in any case: a system's close that fails does too.
func (f *file) Close() error {
	v := f.fsys.judge(f.op(vfs.OpClose))
	return errors.Join(v.err, f.File.Close())
}
