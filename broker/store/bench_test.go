package store_test

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/metaq-go/metaq/broker/store"
	"github.com/metaq-go/metaq/internal/vfs"
	"github.com/metaq-go/metaq/protocol"
)

// batch returns n records of size bytes of body each.
func batch(n, size int) []byte {
	var data []byte
	body := bytes.Repeat([]byte("x"), size)
	for range n {
		data = protocol.AppendMessage(data, 0, nil, body)
	}
	return data
}

// onDisk opens a store in a temporary folder with its committer running.
func onDisk(b *testing.B, cfg store.Config) *store.Store {
	b.Helper()
	cfg.FS, cfg.Dir = vfs.OS(), b.TempDir()
	s, err := store.Open(cfg)
	check(b, err)
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	wg.Go(func() { s.Run(ctx) })
	b.Cleanup(func() {
		cancel()
		wg.Wait()
		check(b, s.Close())
	})
	return s
}

// BenchmarkBareSync is the ceiling: writes of a size to one file, each followed by a sync.
func BenchmarkBareSync(b *testing.B) {
	for _, size := range []int{100, 64 << 10, 1 << 20} {
		for _, reserve := range []bool{false, true} {
			b.Run(fmt.Sprintf("%dB/reserved=%t", size, reserve), func(b *testing.B) {
				f, err := vfs.OS().OpenFile(filepath.Join(b.TempDir(), "f"), os.O_RDWR|os.O_CREATE, 0o644)
				check(b, err)
				defer f.Close()
				data := bytes.Repeat([]byte("x"), size)
				b.SetBytes(int64(size))
				off, reserved := int64(0), int64(0)
				for b.Loop() {
					if reserve && off+int64(size) > reserved {
						check(b, f.Preallocate(off, 64<<20))
						reserved = off + 64<<20
					}
					_, err := f.WriteAt(data, off)
					check(b, err)
					check(b, f.Datasync())
					off += int64(size)
				}
			})
		}
	}
}

// BenchmarkCommit is a producer that waits for each round, on a real disk.
func BenchmarkCommit(b *testing.B) {
	for _, size := range []int{100, 64 << 10, 1 << 20} {
		for _, relaxed := range []bool{false, true} {
			b.Run(fmt.Sprintf("%dB/relaxed=%t", size, relaxed), func(b *testing.B) {
				s := onDisk(b, store.Config{Relaxed: relaxed})
				l, err := s.Create("t", 0)
				check(b, err)
				n := max(1, size/1000)
				data := batch(n, size/n-protocol.HeaderSize)
				b.SetBytes(int64(len(data)))
				b.ReportAllocs()
				for b.Loop() {
					a, err := l.Append(data, n)
					check(b, err)
					check(b, a.Commit.Wait(b.Context()))
				}
			})
		}
	}
}

var _ atomic.Int64
