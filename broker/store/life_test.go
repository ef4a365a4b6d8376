package store_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/metaq-go/metaq/broker/store"
	"github.com/metaq-go/metaq/internal/vfs"
	"github.com/metaq-go/metaq/internal/vfs/faultfs"
)

func TestLock(t *testing.T) {
	for name, fsys := range map[string]vfs.FS{"memory": vfs.NewMem(), "disk": vfs.OS()} {
		t.Run(name, func(t *testing.T) {
			folder := filepath.Join(t.TempDir(), "data")
			r := open(t, store.Config{FS: fsys, Dir: folder})
			a := r.put(r.log(0), "one")
			_, err := store.Open(store.Config{FS: fsys, Dir: folder})
			if !errors.Is(err, vfs.ErrLocked) || !strings.Contains(err.Error(), folder) || !strings.Contains(err.Error(), "another broker") {
				t.Errorf("second Open: got error %v, want one that says who may have it", err)
			}
			b := r.put(r.log(0), "two") // the first is not disturbed
			check(t, r.Close())
			if !exists(fsys, folder+"/transactions/.lock") { // the only place where a Java broker does not trip over it
				t.Error("no lock file in transactions")
			}
			r = open(t, store.Config{FS: fsys, Dir: folder})
			wantLog(t, r.log(0), a, b)
		})
	}
}

// TestOpenRefuses: errors say what is wrong and leave the folder free for a next try.
func TestOpenRefuses(t *testing.T) {
	for _, id := range []int{-1, 1024} {
		if s, err := store.Open(store.Config{FS: vfs.NewMem(), Dir: dir, BrokerID: id}); err == nil || !strings.Contains(err.Error(), "1023") {
			t.Errorf("broker id %d: got %v, %v", id, s, err)
		}
	}
	mem := vfs.NewMem()
	write(t, mem, dir, nil)
	if _, err := store.Open(store.Config{FS: mem, Dir: dir}); err == nil || !strings.Contains(err.Error(), dir) {
		t.Errorf("a file in the place of the data folder: got error %v", err)
	}

	fsys := faultfs.New(vfs.NewMem())
	r := open(t, store.Config{FS: fsys})
	a := r.put(r.log(0), "one")
	check(t, r.Close())
	broken := errors.New("broken")
	for n := 0; ; n++ { // each operation of Open fails in turn
		opened, closed := fsys.Count(vfs.OpOpen)+fsys.Count(vfs.OpCreate), fsys.Count(vfs.OpClose)
		fault := fsys.Add(faultfs.Rule{After: n, Times: 1, Err: broken})
		s, err := store.Open(store.Config{FS: fsys, Dir: dir})
		fault.Remove()
		if err == nil {
			check(t, s.Close())
		} else if !errors.Is(err, broken) || !strings.Contains(err.Error(), dir) {
			t.Errorf("operation %d failed: got error %v", n, err)
		}
		opened, closed = fsys.Count(vfs.OpOpen)+fsys.Count(vfs.OpCreate)-opened, fsys.Count(vfs.OpClose)-closed
		if opened > closed+1 || err == nil && opened != closed { // one of them may be the call that failed
			t.Errorf("operation %d failed: %d files opened, %d closed", n, opened, closed)
		}
		if fault.Acted() == 0 {
			break
		}
	}
	wantLog(t, open(t, store.Config{FS: fsys}).log(0), a)
}

func TestCreate(t *testing.T) {
	mem := vfs.NewMem()
	r := open(t, store.Config{FS: mem})
	if l := r.Log([]byte("t"), 0); l != nil {
		t.Error("a partition is there before it was made")
	}
	created := make(chan struct{}, 1)
	r.NotifyCreated(created)
	l := r.log(7)
	if len(created) != 1 {
		t.Error("who waits for partitions was not told")
	}
	if again := r.log(7); again != l || r.Log([]byte("t"), 7) != l {
		t.Error("a partition was made twice")
	}
	for _, p := range []int{-1, 0, 6, 8, 1 << 30} {
		if l := r.Log([]byte("t"), p); l != nil {
			t.Errorf("partition %d is there", p)
		}
	}
	if n := r.Partitions([]byte("t")); n != 8 {
		t.Errorf("topic has %d partitions, want 8: the highest number and one", n)
	}
	if n := r.Partitions([]byte("other")); n != 0 {
		t.Errorf("unknown topic has %d partitions", n)
	}
	<-created
	r.NotifyCreated(created)
	r.Forget(created)
	r.log(8)
	if len(created) != 0 {
		t.Error("told although forgotten")
	}
	for _, p := range []int{-1, -1 << 40, 1<<20 + 1, 1 << 40} { // the next start would not find them
		if l, err := r.Create("t", p); err == nil || !strings.Contains(err.Error(), "1048576") {
			t.Errorf("partition %d: got %v, %v", p, l, err)
		}
	}
	if _, err := r.Create("../t", 0); err == nil {
		t.Error("a topic that leads out of the folder was made")
	}
	for topic, p := range map[string]int{"b": 2, "a-1": 0, "a": 10} {
		_, err := r.Create(topic, p)
		check(t, err)
	}
	if got, want := logNames(r), []string{"a-10", "a-1-0", "b-2", "t-7", "t-8"}; !slices.Equal(got, want) {
		t.Errorf("partitions are %s, want %s", got, want)
	}
	check(t, r.Close())
	want := []string{"a-1-0/", "a-10/", "b-2/", "t-7/", "t-8/", "transactions/"}
	if got := names(t, mem, dir); !slices.Equal(got, want) {
		t.Errorf("folders are %s, want %s", got, want)
	}
	if got := logNames(open(t, store.Config{FS: mem})); !slices.Equal(got, []string{"a-10", "a-1-0", "b-2", "t-7", "t-8"}) {
		t.Errorf("after opening again partitions are %s", got)
	}
}

func logNames(r *rig) []string {
	var all []string
	for _, l := range r.Logs() {
		all = append(all, fmt.Sprintf("%s-%d", l.Topic(), l.Partition()))
	}
	return all
}

// TestCreateConcurrent: many who want the same partitions get the same ones, made once, while others read and append.
func TestCreateConcurrent(t *testing.T) {
	fsys := newCounting()
	r, stop := start(t, store.Config{FS: fsys})
	var wg sync.WaitGroup
	var mu sync.Mutex
	made := make(map[int]*store.Log)
	runs := make(map[int]int)
	for range 8 {
		wg.Go(func() {
			for p := range 20 {
				l, err := r.Create("t", p)
				if err != nil {
					t.Error(err)
					return
				}
				mu.Lock()
				if made[p] == nil {
					made[p] = l
				}
				same := made[p] == l
				runs[p]++
				mu.Unlock()
				if !same || r.Log([]byte("t"), p) != l {
					t.Errorf("partition %d was made twice", p)
				}
				a, err := appendTo(l, "x")
				if err == nil {
					err = a.Commit.Wait(t.Context())
				}
				if err != nil {
					t.Error(err)
				}
				r.Logs()
				r.Partitions([]byte("t"))
			}
		})
	}
	wg.Wait()
	stop()
	if n := fsys.Count(vfs.OpCreate); n != 20 {
		t.Errorf("%d files made for 20 partitions", n)
	}
	for p, l := range made {
		if l.Messages() != 8 {
			t.Errorf("partition %d has %d messages, want 8", p, l.Messages())
		}
	}
}

// TestCreateDoesNotBlockReaders: while the disk is slow in making a partition, the others are found.
func TestCreateDoesNotBlockReaders(t *testing.T) {
	fsys := faultfs.New(vfs.NewMem())
	r := open(t, store.Config{FS: fsys})
	l := r.log(0)
	started, release := make(chan struct{}), make(chan struct{})
	fsys.Add(faultfs.Rule{Op: vfs.OpSyncDir, Times: 1, Before: func(vfs.Op) { close(started); <-release }})
	done := make(chan error)
	go func() {
		_, err := r.Create("t", 1)
		done <- err
	}()
	<-started
	if r.Log([]byte("t"), 0) != l || r.Partitions([]byte("t")) != 1 || len(r.Logs()) != 1 {
		t.Error("the other partition is not found")
	}
	if again, err := r.Create("t", 0); again != l || err != nil {
		t.Errorf("the other partition: got %v, %v", again, err)
	}
	close(release)
	check(t, <-done)
}

// TestCreateFails: a partition that could not be made is not there, and can be made when the disk is well again.
func TestCreateFails(t *testing.T) {
	broken := errors.New("broken")
	for n := 0; ; n++ {
		fsys := faultfs.New(vfs.NewMem())
		r := open(t, store.Config{FS: fsys})
		fault := fsys.Add(faultfs.Rule{After: n, Times: 1, Err: broken})
		l, err := r.Create("t", 0)
		fault.Remove()
		if fault.Acted() == 0 {
			check(t, err)
			return
		}
		if !errors.Is(err, broken) || l != nil || r.Log([]byte("t"), 0) != nil {
			t.Errorf("operation %d failed: got %v, %v", n, l, err)
		}
		a := r.put(r.log(0), "one")
		check(t, r.Close())
		wantLog(t, open(t, store.Config{FS: fsys}).log(0), a)
	}
}

// TestStop: what was appended before the end of Run is committed by it, what comes later is refused.
func TestStop(t *testing.T) {
	for _, relaxed := range []bool{false, true} {
		for range 300 {
			mem := vfs.NewMem()
			r, stop := start(t, store.Config{FS: mem, Relaxed: relaxed, MaxPending: 1000})
			var wg sync.WaitGroup
			var all [4][]run
			for p := range all {
				l := r.log(p)
				wg.Go(func() {
					for {
						a, err := appendTo(l, strings.Repeat("x", 300))
						if err != nil {
							if !errors.Is(err, store.ErrClosed) {
								t.Error(err)
							}
							return
						}
						all[p] = append(all[p], a)
					}
				})
			}
			stop()
			wg.Wait()
			for p, runs := range all {
				for _, a := range runs {
					check(t, a.err(t))
				}
				wantLog(t, r.Log([]byte("t"), p), runs...)
			}
			if _, err := r.Create("t", 9); !errors.Is(err, store.ErrClosed) {
				t.Errorf("Create after Run: got error %v, want %v", err, store.ErrClosed)
			}
			check(t, r.Close())
			check(t, r.Close())
			r = open(t, store.Config{FS: mem.Kill()})
			for p, runs := range all {
				wantLog(t, r.log(p), runs...)
			}
		}
	}
}

// TestCloseWithoutRun: nobody waits for ever for a round that will not come.
func TestCloseWithoutRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := open(t, store.Config{})
		l := r.log(0)
		a := r.put(l, "one")
		b := r.append(l, "two")
		result := make(chan error)
		go func() { result <- b.Commit.Wait(t.Context()) }()
		synctest.Wait()
		check(t, r.Close())
		if err := <-result; !errors.Is(err, store.ErrClosed) {
			t.Errorf("append before Close: got error %v, want %v", err, store.ErrClosed)
		}
		if _, err := l.Append(a.data, 1); !errors.Is(err, store.ErrClosed) || !strings.Contains(err.Error(), "t-0") {
			t.Errorf("append after Close: got error %v, want %v", err, store.ErrClosed)
		}
		if err := l.Err(); !errors.Is(err, store.ErrClosed) {
			t.Errorf("Err after Close: %v", err)
		}
		if _, err := r.Create("t", 0); !errors.Is(err, store.ErrClosed) {
			t.Errorf("Create after Close: got error %v, want %v", err, store.ErrClosed)
		}
	})
}

// TestFlushInterval: with Relaxed the committer syncs in time, and not when there is nothing to sync.
func TestFlushInterval(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fsys := newCounting()
		r, _ := start(t, store.Config{FS: fsys, Relaxed: true, FlushInterval: 3 * time.Second})
		l := r.log(0)
		time.Sleep(time.Minute)
		before := fsys.syncs()
		a, err := appendTo(l, "one")
		check(t, err)
		check(t, a.Commit.Wait(t.Context()))
		time.Sleep(3*time.Second - time.Millisecond)
		synctest.Wait()
		time.Sleep(time.Millisecond)
		synctest.Wait()
		if n := fsys.syncs() - before; n != 1 {
			t.Errorf("%d syncs in the interval after a write, want 1", n)
		}
		time.Sleep(time.Hour)
		if n := fsys.syncs() - before; n != 1 {
			t.Errorf("%d syncs in an idle hour, want 1", n)
		}
	})
}

// TestLinkedPartition: a partition may lie on another disk; a link that leads nowhere does not keep the others from being opened.
func TestLinkedPartition(t *testing.T) {
	folder := t.TempDir()
	r := open(t, store.Config{FS: vfs.OS(), Dir: folder})
	a := r.put(r.log(0), "one")
	check(t, r.Close())
	other := filepath.Join(t.TempDir(), "elsewhere")
	check(t, os.Rename(folder+"/t-0", other))
	check(t, os.Symlink(other, folder+"/t-0"))
	check(t, os.Symlink(other+"x", folder+"/t-1"))
	log, logged := newLog(t)
	r = open(t, store.Config{FS: vfs.OS(), Dir: folder, Log: log})
	if l := r.Log([]byte("t"), 0); l == nil {
		t.Error("the linked partition is not opened")
	} else {
		wantLog(t, l, a)
	}
	logged.want("link leads nowhere", "t-1")
}
