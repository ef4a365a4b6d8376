//go:build !linux

package tail4go

import "os"

// noWriter reports whether it is certain that nobody has the file open for writing. Here only waiting tells.
func noWriter(*os.File) bool { return false }

// born returns when a file was made; 0: nobody tells.
func born(*os.File) int64 { return 0 }
