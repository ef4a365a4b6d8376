package vfs_test

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/metaq-go/metaq/internal/vfs"
)

// BenchmarkAppend appends blocks and syncs each, in files of 64 MiB, as the broker's log does.
func BenchmarkAppend(b *testing.B) {
	const segment = 64 << 20
	for _, size := range []int{100, 4 << 10, 64 << 10, 1 << 20} {
		for _, kind := range []string{"mem", "mem-nosync", "os", "os-preallocated", "os-nosync"} {
			b.Run(fmt.Sprintf("%s/%d", kind, size), func(b *testing.B) {
				fsys := vfs.OS()
				name := filepath.Join(b.TempDir(), "log")
				if kind == "mem" || kind == "mem-nosync" {
					fsys, name = vfs.NewMem(), "/log"
				}
				f := open(b, fsys, name, os.O_RDWR|os.O_CREATE)
				block := make([]byte, size)
				b.SetBytes(int64(size))
				b.ReportAllocs()
				var off, reserved int64
				for b.Loop() {
					if off+int64(size) > segment {
						check(b, f.Truncate(0))
						off, reserved = 0, 0
					}
					if kind == "os-preallocated" && off+int64(size) > reserved {
						check(b, f.Preallocate(reserved, 16<<20))
						reserved += 16 << 20
					}
					if _, err := f.WriteAt(block, off); err != nil {
						b.Fatal(err)
					}
					off += int64(size)
					if kind != "mem-nosync" && kind != "os-nosync" {
						check(b, f.Datasync())
					}
				}
			})
		}
	}
}

func BenchmarkRead(b *testing.B) {
	for _, kind := range []string{"mem", "os"} {
		b.Run(kind, func(b *testing.B) {
			fsys := vfs.OS()
			name := filepath.Join(b.TempDir(), "log")
			if kind == "mem" {
				fsys, name = vfs.NewMem(), "/log"
			}
			const size, block = 16 << 20, 64 << 10
			create(b, fsys, name, string(make([]byte, size)))
			f := open(b, fsys, name, os.O_RDONLY)
			buf := make([]byte, block)
			b.SetBytes(block)
			b.ReportAllocs()
			var off int64
			for b.Loop() {
				if _, err := f.ReadAt(buf, off); err != nil {
					b.Fatal(err)
				}
				off = (off + block) % size
			}
		})
	}
}

// BenchmarkCrash takes clones of a store of 10 files of 1 MiB with some unsynced writes.
func BenchmarkCrash(b *testing.B) {
	m := vfs.NewMem()
	for i := range 10 {
		f := open(b, m, fmt.Sprint("/", i), os.O_RDWR|os.O_CREATE)
		write(b, f, string(make([]byte, 1<<20)), 0)
		check(b, f.Sync())
		for j := range 10 {
			write(b, f, string(make([]byte, 1000)), 1<<20+int64(j)*1000)
		}
	}
	b.Run("power", func(b *testing.B) {
		b.ReportAllocs()
		rng := seeded(0)
		for b.Loop() {
			m.Crash(rng)
		}
	})
	b.Run("kill", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			m.Kill()
		}
	})
}
