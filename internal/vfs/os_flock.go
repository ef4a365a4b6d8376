//go:build unix && !aix && !solaris

package vfs

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

// flock belongs to the open file, not to the process as fcntl locks do: a second holder in this process is refused too,
// and closing another handle of the same file does not give the lock away.
func flock(fd uintptr) error {
	err := unix.Flock(int(fd), unix.LOCK_EX|unix.LOCK_NB)
	if errors.Is(err, unix.EWOULDBLOCK) {
		return ErrLocked
	}
	return err
}

func syncDir(d *os.File) error { return d.Sync() }
