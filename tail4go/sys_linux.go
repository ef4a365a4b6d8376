package tail4go

import (
	"os"

	"golang.org/x/sys/unix"
)

// noWriter reports whether it is certain that nobody has the file open for writing: the kernel grants a read lease on no
// other condition. The lease is given back at once. Without the right to ask (the file belongs to another user, its file
// system knows no leases) the answer is false: then only waiting tells.
func noWriter(h *os.File) bool {
	conn, err := h.SyscallConn()
	if err != nil {
		return false
	}
	granted := false
	err = conn.Control(func(fd uintptr) {
		if _, err := unix.FcntlInt(fd, unix.F_SETLEASE, unix.F_RDLCK); err != nil {
			return
		}
		granted = true
		_, _ = unix.FcntlInt(fd, unix.F_SETLEASE, unix.F_UNLCK) // can't fail for the holder
	})
	return err == nil && granted
}

// born returns when a file was made, in nanoseconds since 1970; 0 if its file system does not tell. It tells an inode that is
// used again from the same file.
func born(h *os.File) int64 {
	conn, err := h.SyscallConn()
	if err != nil {
		return 0
	}
	var st unix.Statx_t
	controlErr := conn.Control(func(fd uintptr) {
		err = unix.Statx(int(fd), "", unix.AT_EMPTY_PATH, unix.STATX_BTIME, &st)
	})
	if err != nil || controlErr != nil || st.Mask&unix.STATX_BTIME == 0 {
		return 0
	}
	return st.Btime.Sec*1e9 + int64(st.Btime.Nsec)
}
