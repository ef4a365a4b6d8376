package store_test

import (
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/metaq-go/metaq/broker/store"
	"github.com/metaq-go/metaq/internal/vfs"
	"github.com/metaq-go/metaq/internal/vfs/faultfs"
)

// faulty is a store with two partitions on a disk that fails, and what was appended to them.
type faulty struct {
	*rig
	mem   *vfs.Mem
	disk  *faultfs.FS
	books [2]*ledger
}

func newFaulty(t testing.TB) *faulty {
	t.Helper()
	f := &faulty{mem: vfs.NewMem(), books: [2]*ledger{{}, {}}}
	f.disk = faultfs.New(f.mem)
	f.rig = open(t, store.Config{FS: f.disk, SegmentSize: 2000, Log: slog.New(slog.DiscardHandler)})
	return f
}

// add appends records of the given sizes, headers included. The result has no commit if the partition refuses.
func (f *faulty) add(p int, sizes ...int) run {
	f.t.Helper()
	var bodies []string
	for i, size := range sizes {
		bodies = append(bodies, strings.Repeat(string(rune('a'+i%26)), size-20))
	}
	a, err := appendTo(f.log(p), bodies...)
	if err != nil {
		if !errors.Is(err, store.ErrUnsafe) || !errors.Is(f.log(p).Err(), store.ErrUnsafe) {
			f.t.Errorf("append to %d: got error %v, the partition says %v", p, err, f.log(p).Err())
		}
		return run{}
	}
	f.books[p].add(a)
	return a
}

// verify checks that all that is committed is served, and nothing torn, by this store and by ones that start on what is
// left of the disk after a stop, a kill and power failures.
func (f *faulty) verify(seed uint64) {
	f.t.Helper()
	f.serves("this store", f.Store)
	f.startsOn("after a kill", f.mem.Kill())
	for i := range uint64(4) {
		f.startsOn("after a power failure", f.mem.Crash(rand.New(rand.NewPCG(seed, i))))
	}
	check(f.t, f.Close())
	f.startsOn("after a stop", f.mem.Kill())
}

func (f *faulty) serves(when string, s *store.Store) {
	f.t.Helper()
	for p, b := range f.books {
		l := s.Log([]byte("t"), p)
		if l == nil {
			if len(b.acked()) > 0 {
				f.t.Errorf("%s: partition %d is missing", when, p)
			}
			continue
		}
		if _, err := b.verify(l, b.acked()); err != nil {
			f.t.Errorf("%s: partition %d: %v", when, p, err)
		}
	}
}

func (f *faulty) startsOn(when string, mem *vfs.Mem) {
	f.t.Helper()
	s, err := store.Open(store.Config{FS: mem, Dir: dir, SegmentSize: 2000})
	if err != nil {
		f.t.Errorf("%s: %v", when, err)
		return
	}
	defer s.Close()
	f.serves(when, s)
	h := store.ByHand(s)
	for p := range f.books {
		l, err := s.Create("t", p)
		check(f.t, err)
		a, err := appendTo(l, "again")
		check(f.t, err)
		h.Commit()
		check(f.t, a.err(f.t))
	}
}

// goesOn checks that each partition takes appends, or says why not.
func (f *faulty) goesOn() {
	f.t.Helper()
	for p := range f.books {
		end := f.log(p).End()
		a := f.add(p, 100)
		f.Commit()
		if a.Commit == nil {
			continue
		}
		if err := a.err(f.t); err != nil || a.Offset != end || f.log(p).End() != end+100 {
			f.t.Errorf("append to %d on a disk that is well again: at %d, %v; want it at %d", p, a.Offset, err, end)
		}
	}
}

// TestEveryFault makes each operation of a life with rolls fail in turn, once or from then on, in several ways.
func TestEveryFault(t *testing.T) {
	lost := errors.New("lost")
	kinds := map[string]faultfs.Rule{
		"no space":        {Err: syscall.ENOSPC},
		"input, output":   {Err: syscall.EIO},
		"short write":     {Op: vfs.OpWrite, Partial: 33},
		"almost written":  {Op: vfs.OpWrite, Partial: 1 << 20, Err: syscall.EIO},
		"done and denied": {Err: syscall.EIO, Done: true},
		"sync loses data": {Op: vfs.OpDatasync, Err: lost},
		"seal loses data": {Op: vfs.OpSync, Err: lost},
	}
	for name, rule := range kinds {
		for _, times := range []int{1, 2, 0} {
			t.Run(fmt.Sprintf("%s/times=%d", name, times), func(t *testing.T) {
				for n := 0; faultLife(t, rule, n, times); n++ {
					if t.Failed() {
						t.Fatalf("when operation %d failed", n)
					}
				}
			})
		}
	}
}

// faultLife runs a life in which operation n fails. It reports false if there is no such operation.
func faultLife(t *testing.T, rule faultfs.Rule, n, times int) bool {
	f := newFaulty(t)
	for p := range f.books {
		f.add(p, 300, 300)
	}
	f.Commit()
	rule.After, rule.Times = n, times
	if strings.Contains(fmt.Sprint(rule.Err), "lost") {
		rule.Before = func(op vfs.Op) { check(t, f.mem.LoseUnsynced(op.Name)) }
	}
	fault := f.disk.Add(rule)
	for _, round := range [][2][]int{
		{{200}, {20, 20}},
		{{900, 900, 900}, nil},    // rolls in its middle
		{{2500, 100}, {2500}},     // and again; the other one at its end
		{{100}, {100}},            //
		{{5000, 5000, 5000}, nil}, // three segments
		{{1000, 1000}, {1999, 20}},
	} {
		for p, sizes := range round {
			if sizes != nil {
				f.add(p, sizes...)
			}
		}
		f.Commit()
	}
	acted := fault.Acted()
	fault.Remove()
	f.goesOn()
	f.verify(uint64(n))
	return acted > 0
}

// wantErr checks the fate of a run.
func (a run) wantErr(t testing.TB, want ...error) {
	t.Helper()
	err := a.err(t)
	for _, w := range want {
		if !errors.Is(err, w) {
			t.Errorf("round ended with error %v, want %v", err, w)
		}
	}
	if len(want) == 0 && err != nil {
		t.Errorf("round ended with error %v, want none", err)
	}
	if len(want) == 1 && errors.Is(err, store.ErrUnsafe) && !errors.Is(want[0], store.ErrUnsafe) {
		t.Errorf("round ended with error %v, it should not close the partition", err)
	}
}

// TestWriteFails: the round fails and so do the appends that came while it was written, whose offsets build on it; the
// next append takes the place of the first.
func TestWriteFails(t *testing.T) {
	for _, rule := range []faultfs.Rule{
		{Err: syscall.ENOSPC}, {Err: syscall.EIO}, {Partial: 1, Err: syscall.ENOSPC}, {Partial: 150}, {Partial: 1 << 20, Err: syscall.EIO},
	} {
		f := newFaulty(t)
		first, other := f.add(0, 100), f.add(1, 100)
		f.Commit()
		var queued []run
		rule.Op, rule.Path, rule.Times = vfs.OpWrite, dir+"/t-0/*", 1
		rule.Before = func(vfs.Op) { queued = append(queued, f.add(0, 50), f.add(0, 60)) }
		f.disk.Add(rule)
		a, b, good := f.add(0, 100), f.add(0, 200), f.add(1, 100)
		f.Commit()
		want := rule.Err
		if want == nil {
			want = errors.New("") // whatever a short write is
		}
		for _, failed := range append([]run{a, b}, queued...) {
			if rule.Err != nil {
				failed.wantErr(t, want)
			} else if failed.err(t) == nil {
				t.Error("a round that was cut short is committed")
			}
		}
		if queued[0].Offset != b.end() || queued[1].Offset != queued[0].end() {
			t.Errorf("appends behind the failing round were told %d and %d", queued[0].Offset, queued[1].Offset)
		}
		good.wantErr(t) // of another partition in the same round
		if err := f.log(0).Err(); err != nil {
			t.Errorf("the partition is closed: %v", err)
		}
		if got := names(t, f.mem, dir+"/t-0"); !slices.Equal(got, []string{"00000000000000000000.meta 100"}) {
			t.Errorf("files are %s", got)
		}
		next := f.add(0, 70)
		if next.Offset != first.end() {
			t.Errorf("next append is at %d, want %d", next.Offset, first.end())
		}
		f.Commit() // the queue still knows of the failed one
		next.wantErr(t)
		wantLog(t, f.log(0), first, next)
		wantLog(t, f.log(1), other, good)
		f.verify(1)
	}
}

// TestSyncFails: the partition takes no more appends, says why, goes on being read, and its files hold nothing of the
// round in doubt; others are not concerned; the next start opens it for writing.
func TestSyncFails(t *testing.T) {
	for _, op := range []vfs.OpKind{vfs.OpDatasync, vfs.OpSync} {
		f := newFaulty(t)
		first, other := f.add(0, 1500), f.add(1, 100)
		f.Commit()
		var queued run
		f.disk.Add(faultfs.Rule{Op: op, Path: dir + "/t-0/*", Times: 1, Err: syscall.EIO, Before: func(op vfs.Op) {
			check(t, f.mem.LoseUnsynced(op.Name))
			queued = f.add(0, 50)
		}})
		a, good := f.add(0, 400, 200, 100), f.add(1, 100) // with a roll, at which the segment is sealed
		f.Commit()
		a.wantErr(t, store.ErrUnsafe, syscall.EIO)
		queued.wantErr(t, store.ErrUnsafe)
		good.wantErr(t)
		l := f.log(0)
		if _, err := l.Append(first.data, 1); !errors.Is(err, store.ErrUnsafe) || !errors.Is(err, syscall.EIO) || !strings.Contains(err.Error(), "t-0") {
			t.Errorf("append after a failed sync: got error %v", err)
		}
		if err := l.Err(); !errors.Is(err, store.ErrUnsafe) {
			t.Errorf("the partition says %v", err)
		}
		wantLog(t, l, first)
		if got := names(t, f.mem, dir+"/t-0"); !slices.Equal(got, []string{"00000000000000000000.meta 1500"}) {
			t.Errorf("files are %s: they hold what is in doubt", got)
		}
		again := f.add(1, 100)
		f.Commit()
		again.wantErr(t)
		wantLog(t, f.log(1), other, good, again)
		f.verify(2)
	}
}
