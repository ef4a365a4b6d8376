package vfs_test

import (
	"fmt"
	"math/rand/v2"

	"github.com/metaq-go/metaq/internal/vfs"
)

// Crash an algorithm at every step, with many outcomes each.
func ExampleMem_Before() {
	fsys := vfs.NewMem()
	found := make(map[string]bool)
	look := func() {
		for seed := range uint64(100) {
			crashed := fsys.Crash(rand.New(rand.NewPCG(seed, 0)))
			content, err := vfs.ReadFile(crashed, "/state")
			if err == nil {
				found[string(content)] = true
			}
		}
	}
	_ = vfs.WriteFileAtomic(fsys, "/state", []byte("old"), 0o644)

	fsys.Before(func(vfs.Op) { look() })
	_ = vfs.WriteFileAtomic(fsys, "/state", []byte("new"), 0o644)
	fmt.Println("during the call:", found)

	fsys.Before(nil)
	clear(found)
	look()
	fmt.Println("after it:", found)
	// Output:
	// during the call: map[new:true old:true]
	// after it: map[new:true]
}
