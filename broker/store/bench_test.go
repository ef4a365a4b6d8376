package store_test

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/metaq-go/metaq/broker/store"
	"github.com/metaq-go/metaq/internal/vfs"
	"github.com/metaq-go/metaq/protocol"
)

// batch returns n records with bodies of size bytes.
func batch(n, size int) []byte {
	var data []byte
	for range n {
		data = protocol.AppendMessage(data, 0, nil, bytes.Repeat([]byte("x"), size))
	}
	return data
}

// runStore opens a store with its committer running.
func runStore(b *testing.B, cfg store.Config) *store.Store {
	b.Helper()
	if cfg.FS == nil {
		cfg.FS, cfg.Dir = vfs.OS(), b.TempDir()
	}
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

// nowhere is a file system whose files swallow what is written: what is left is the store's own cost.
type nowhere struct{ vfs.FS }

type nowhereFile struct{ vfs.File }

func (n nowhere) OpenFile(name string, flag int, perm os.FileMode) (vfs.File, error) {
	f, err := n.FS.OpenFile(name, flag, perm)
	return nowhereFile{f}, err
}

func (nowhereFile) WriteAt(b []byte, _ int64) (int, error) { return len(b), nil }
func (nowhereFile) Sync() error                            { return nil }
func (nowhereFile) Datasync() error                        { return nil }
func (nowhereFile) Truncate(int64) error                   { return nil }

var benchRuns = []struct{ n, size int }{{1, 100}, {600, 100}, {10_000, 85}, {1, 1 << 20}}

// BenchmarkAppend is the way of a run from Append to the write, on a disk that costs nothing.
func BenchmarkAppend(b *testing.B) {
	for _, run := range benchRuns {
		b.Run(fmt.Sprintf("%dx%dB", run.n, run.size), func(b *testing.B) {
			s, err := store.Open(store.Config{FS: nowhere{vfs.NewMem()}, Dir: dir, SegmentSize: 1 << 50})
			check(b, err)
			l, err := s.Create("t", 0)
			check(b, err)
			h := store.ByHand(s)
			data := batch(run.n, run.size)
			b.SetBytes(int64(len(data)))
			b.ReportAllocs()
			pending := 0
			for b.Loop() {
				if pending += len(data); pending > 1<<20 {
					h.Commit()
					pending = len(data)
				}
				if _, err := l.Append(data, run.n); err != nil { // check, as a helper, would cost more
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(b.N*run.n)/b.Elapsed().Seconds(), "msg/s")
			h.Commit()
			check(b, s.Close())
		})
	}
}

// BenchmarkBareSync is what the disk can do: writes to one file, each followed by a sync.
func BenchmarkBareSync(b *testing.B) {
	for _, size := range []int{120, 64 << 10, 1 << 20, 4 << 20} {
		b.Run(fmt.Sprintf("%dB", size), func(b *testing.B) {
			f, err := vfs.OS().OpenFile(filepath.Join(b.TempDir(), "f"), os.O_RDWR|os.O_CREATE, 0o644)
			check(b, err)
			defer f.Close()
			data := bytes.Repeat([]byte("x"), size)
			b.SetBytes(int64(size))
			off := int64(0)
			for b.Loop() {
				_, err := f.WriteAt(data, off)
				check(b, err)
				check(b, f.Datasync())
				off += int64(size)
			}
		})
	}
}

// BenchmarkRound is one producer that waits for each round, on a real disk.
func BenchmarkRound(b *testing.B) {
	for _, relaxed := range []bool{false, true} {
		for _, run := range benchRuns {
			b.Run(fmt.Sprintf("relaxed=%t/%dx%dB", relaxed, run.n, run.size), func(b *testing.B) {
				s := runStore(b, store.Config{Relaxed: relaxed})
				l, err := s.Create("t", 0)
				check(b, err)
				data := batch(run.n, run.size)
				b.SetBytes(int64(len(data)))
				b.ReportAllocs()
				for b.Loop() {
					a, err := l.Append(data, run.n)
					check(b, err)
					check(b, a.Commit.Wait(b.Context()))
				}
			})
		}
	}
}

// BenchmarkGroupCommit is a producer for each partition that has several runs under way, on a real disk.
func BenchmarkGroupCommit(b *testing.B) {
	const window = 64 // runs under way in all
	for _, run := range benchRuns[1:] {
		for _, partitions := range []int{1, 4, 64} {
			b.Run(fmt.Sprintf("%dx%dB/partitions=%d", run.n, run.size, partitions), func(b *testing.B) {
				s := runStore(b, store.Config{})
				data := batch(run.n, run.size)
				b.SetBytes(int64(len(data)))
				b.ReportAllocs()
				work := make(chan struct{})
				var wg sync.WaitGroup
				for p := range partitions {
					l, err := s.Create("t", p)
					check(b, err)
					wg.Go(func() {
						flying := make([]*store.Commit, max(1, window/partitions))
						for i := 0; ; i++ {
							if _, more := <-work; !more {
								break
							}
							c := &flying[i%len(flying)]
							if *c != nil {
								check(b, (*c).Wait(b.Context()))
							}
							a, err := l.Append(data, run.n)
							check(b, err)
							*c = a.Commit
						}
						for _, c := range flying {
							if c != nil {
								check(b, c.Wait(b.Context()))
							}
						}
					})
				}
				for b.Loop() {
					work <- struct{}{}
				}
				close(work)
				wg.Wait()
				b.ReportMetric(float64(b.N*run.n)/b.Elapsed().Seconds(), "msg/s")
			})
		}
	}
}
