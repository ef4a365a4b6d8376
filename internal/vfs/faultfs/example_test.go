package faultfs_test

import (
	"fmt"
	"syscall"

	"github.com/metaq-go/metaq/internal/vfs"
	"github.com/metaq-go/metaq/internal/vfs/faultfs"
)

// Fail every call of an algorithm in turn.
func Example() {
	for n := 0; ; n++ {
		fsys := faultfs.New(vfs.NewMem())
		fault := fsys.Add(faultfs.Rule{After: n, Times: 1, Err: syscall.EIO})
		err := vfs.WriteFileAtomic(fsys, "/state", []byte("content"), 0o644)
		if fault.Acted() == 0 {
			fmt.Println("all calls have failed once, this time none did:", err)
			return
		}
		fmt.Println(err)
	}
	// Output:
	// write /state: create /state.tmp: input/output error
	// write /state: write /state.tmp: input/output error
	// write /state: sync /state.tmp: input/output error
	// write /state: close /state.tmp: input/output error
	// write /state: rename /state.tmp /state: input/output error
	// write /state: syncdir /: input/output error
	// all calls have failed once, this time none did: <nil>
}
