package store_test

import (
	"os"
	"syscall"
	"testing"
)

// wantReserved checks that the files of a folder take no more room on disk than their sizes say, but for slack bytes each.
func wantReserved(t *testing.T, folder string, slack int64) {
	t.Helper()
	entries, err := os.ReadDir(folder)
	check(t, err)
	for _, e := range entries {
		info, err := e.Info()
		check(t, err)
		if st, ok := info.Sys().(*syscall.Stat_t); ok && st.Blocks*512 > info.Size()+slack {
			t.Errorf("%s has %d bytes and takes %d on disk", e.Name(), info.Size(), st.Blocks*512)
		}
	}
}
