//go:build !linux

package vfs

import (
	"errors"
	"io/fs"
)

func (f osFile) Datasync() error { return f.Sync() }

func (f osFile) Preallocate(_, _ int64) error {
	return &fs.PathError{Op: "preallocate", Path: f.Name(), Err: errors.ErrUnsupported}
}
