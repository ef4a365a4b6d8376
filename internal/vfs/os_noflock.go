//go:build !unix || aix || solaris

package vfs

import (
	"errors"
	"os"
)

func flock(uintptr) error { return errors.ErrUnsupported }

// syncDir does nothing: these systems have no call for it.
func syncDir(*os.File) error { return nil }
