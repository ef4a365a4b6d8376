package vfs

import "golang.org/x/sys/unix"

func (f osFile) Datasync() error {
	return withFD(f.File, "fdatasync", func(fd uintptr) error { return unix.Fdatasync(int(fd)) })
}

func (f osFile) Preallocate(off, n int64) error {
	return withFD(f.File, "fallocate", func(fd uintptr) error {
		return unix.Fallocate(int(fd), unix.FALLOC_FL_KEEP_SIZE, off, n)
	})
}
