package store_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/metaq-go/metaq/broker/store"
	"github.com/metaq-go/metaq/internal/vfs"
	"github.com/metaq-go/metaq/internal/vfs/faultfs"
)

// files returns what is in the folder of t-0.
func (f *faulty) files() string {
	f.t.Helper()
	return strings.Join(names(f.t, f.mem, dir+"/t-0"), ", ")
}

// TestWriteFailsBehindRolls: a round that fails in the n-th segment takes back those it began and what it wrote in the first.
func TestWriteFailsBehindRolls(t *testing.T) {
	for n := range 4 {
		for _, partial := range []int{0, 10, 1999} {
			f := newFaulty(t)
			first := f.add(0, 1500)
			f.Commit()
			fault := f.disk.Add(faultfs.Rule{Op: vfs.OpWrite, Path: dir + "/t-0/*", After: n, Partial: partial, Err: syscall.ENOSPC})
			a := f.add(0, 900, 2100, 2200, 2300)
			f.Commit()
			a.wantErr(t, syscall.ENOSPC)
			wantLog(t, f.log(0), first)
			if got, want := f.files(), "00000000000000000000.meta 1500"; got != want {
				t.Errorf("write %d fails: files are %s, want %s", n, got, want)
			}
			b := f.add(0, 1000) // the disk is still full
			f.Commit()
			if n > 0 {
				b.wantErr(t, syscall.ENOSPC)
			}
			fault.Remove()
			c, d := f.add(0, 100), f.add(0, 200)
			f.Commit()
			c.wantErr(t)
			wantLog(t, f.log(0), first, c, d)
			f.verify(uint64(n))
		}
	}
}

// TestWriteFailsAtBorder: the segment that an earlier round began is not taken back by a later one.
func TestWriteFailsAtBorder(t *testing.T) {
	f := newFaulty(t)
	first := f.add(0, 2000)
	f.Commit()
	f.disk.Add(faultfs.Rule{Op: vfs.OpWrite, Times: 1, Partial: 5})
	a := f.add(0, 100)
	f.Commit()
	if a.err(t) == nil {
		t.Error("a round that was cut short is committed")
	}
	if got, want := f.files(), "00000000000000000000.meta 2000, 00000000000000002000.meta 0"; got != want {
		t.Errorf("files are %s, want %s", got, want)
	}
	b := f.add(0, 100)
	f.Commit()
	b.wantErr(t)
	wantLog(t, f.log(0), first, b)
	f.verify(3)
}

// TestNextSegmentFails: without room for a new file the old one grows on, the log says so once, and rolls when it can.
func TestNextSegmentFails(t *testing.T) {
	log, logged := newLog(t)
	disk := faultfs.New(vfs.NewMem())
	r := open(t, store.Config{FS: disk, SegmentSize: 1000, Log: log})
	l := r.log(0)
	fault := disk.Add(faultfs.Rule{Op: vfs.OpCreate, Path: "*.meta", Err: syscall.EMFILE})
	runs := []run{r.put(l, strings.Repeat("x", 1200)), r.put(l, "a", "b"), r.put(l, strings.Repeat("y", 3000), "c")}
	fault.Remove()
	runs = append(runs, r.put(l, "d"))
	end := l.End()
	runs = append(runs, r.put(l, "e"))
	wantLog(t, l, runs...)
	want := []string{fmt.Sprintf("00000000000000000000.meta %d", end), fmt.Sprintf("%020d.meta 21", end)}
	if got := names(t, disk, dir+"/t-0"); !slices.Equal(got, want) {
		t.Errorf("files are %s, want %s", got, want)
	}
	logged.want("level=WARN", "segment stays open", "topic=t", "partition=0")
	if n := strings.Count(logged.text.String(), "segment stays open"); n != 1 {
		t.Errorf("logged %d times, want once", n)
	}
	check(t, r.Close())
	wantLog(t, open(t, store.Config{FS: disk, SegmentSize: 1000}).log(0), runs...)
}

// TestNameNotSafe: the next segment is there, but its name may not last: nothing can be acknowledged.
func TestNameNotSafe(t *testing.T) {
	f := newFaulty(t)
	first := f.add(0, 100)
	f.Commit()
	f.disk.Add(faultfs.Rule{Op: vfs.OpSyncDir, Path: dir + "/t-0", Times: 1, Err: syscall.EIO})
	a := f.add(0, 2000, 100)
	f.Commit()
	a.wantErr(t, store.ErrUnsafe, syscall.EIO)
	if a := f.add(0, 100); a.Commit != nil {
		t.Error("the partition takes appends")
	}
	wantLog(t, f.log(0), first)
	if got, want := f.files(), "00000000000000000000.meta 100"; got != want {
		t.Errorf("files are %s, want %s", got, want)
	}
	f.verify(4)
}

// TestUndoFails: what a failed write left can't be taken back, so nobody knows what is behind the high-water mark.
func TestUndoFails(t *testing.T) {
	for _, rule := range []faultfs.Rule{
		{Op: vfs.OpTruncate, Err: syscall.EIO},
		{Op: vfs.OpRemove, Err: syscall.EACCES},
		{Op: vfs.OpSyncDir, After: 1, Err: syscall.EIO},
		{Op: vfs.OpSync, After: 1, Err: syscall.EIO},
	} {
		f := newFaulty(t)
		first := f.add(0, 100)
		f.Commit()
		f.disk.Add(faultfs.Rule{Op: vfs.OpWrite, After: 1, Times: 1, Partial: 30, Err: syscall.ENOSPC})
		fault := f.disk.Add(rule)
		a := f.add(0, 2000, 100) // fails in the second segment
		f.Commit()
		if fault.Acted() == 0 {
			t.Errorf("%s was not called", rule.Op)
		}
		a.wantErr(t, syscall.ENOSPC)
		fault.Remove()
		if err := f.log(0).Err(); !errors.Is(err, store.ErrUnsafe) || !errors.Is(err, syscall.ENOSPC) || !errors.Is(err, rule.Err) {
			t.Errorf("%s failed: the partition says %v, want all the causes", rule.Op, err)
		}
		if a := f.add(0, 100); a.Commit != nil {
			t.Errorf("%s failed: the partition takes appends", rule.Op)
		}
		wantLog(t, f.log(0), first)
		f.verify(5)
	}
}

// TestReservationStays: what was reserved can't be given back. It is only room.
func TestReservationStays(t *testing.T) {
	f := &faulty{mem: vfs.NewMem(), books: [2]*ledger{{}, {}}}
	f.disk = faultfs.New(f.mem)
	f.rig = open(t, store.Config{FS: f.disk, SegmentSize: 1 << 20})
	fault := f.disk.Add(faultfs.Rule{Op: vfs.OpTruncate, Err: syscall.EIO})
	a := f.add(0, 300_000)
	f.Commit()
	b := f.add(0, 900_000)
	f.Commit()
	c := f.add(0, 300_000)
	f.Commit()
	wantLog(t, f.log(0), a, b, c)
	check(t, f.Close())
	if fault.Acted() == 0 {
		t.Error("nothing was reserved")
	}
	wantLog(t, open(t, store.Config{FS: f.mem}).log(0), a, b, c)
}

// TestFlushFails: with Relaxed the round being collected fails with the sync, what was shown stays readable.
func TestFlushFails(t *testing.T) {
	f := &faulty{mem: vfs.NewMem(), books: [2]*ledger{{}, {}}}
	f.disk = faultfs.New(f.mem)
	f.rig = open(t, store.Config{FS: f.disk, Relaxed: true})
	a, other := f.add(0, 100), f.add(1, 100)
	f.Commit()
	f.disk.Add(faultfs.Rule{Op: vfs.OpDatasync, Path: dir + "/t-0/*", Times: 1, Err: syscall.EIO})
	queued := f.add(0, 100)
	f.Flush()
	queued.wantErr(t, store.ErrUnsafe, syscall.EIO)
	f.Commit()
	if a := f.add(0, 100); a.Commit != nil {
		t.Error("the partition takes appends")
	}
	b := f.add(1, 100)
	f.Commit()
	f.Flush()
	wantLog(t, f.log(0), a)
	wantLog(t, f.log(1), other, b)
	check(t, f.Close())
	wantLog(t, open(t, store.Config{FS: f.mem}).log(0), a)
}

// TestCloseFails: what could not be made safe at the end is told, of every partition.
func TestCloseFails(t *testing.T) {
	for _, op := range []vfs.OpKind{vfs.OpSync, vfs.OpClose} {
		f := newFaulty(t)
		f.add(0, 100)
		f.add(1, 100)
		f.Commit()
		f.disk.Add(faultfs.Rule{Op: op, Err: syscall.EIO})
		err := f.Close()
		if !errors.Is(err, syscall.EIO) || !strings.Contains(err.Error(), "t-0") || !strings.Contains(err.Error(), "t-1") {
			t.Errorf("%s fails: Close returned %v", op, err)
		}
		r := open(t, store.Config{FS: f.mem}) // unlocked all the same
		if r.Log([]byte("t"), 1).End() != 100 {
			t.Error("what was committed is gone")
		}
	}
}

// TestReadFaults: a disk that can't be read is told to the reader, and nothing else is disturbed.
func TestReadFaults(t *testing.T) {
	f := newFaulty(t)
	a := f.add(0, 100)
	f.Commit()
	fault := f.disk.Add(faultfs.Rule{Op: vfs.OpRead, Err: syscall.EIO})
	if got, err := readAll(f.log(0), 0, 1000); !errors.Is(err, syscall.EIO) || len(got) != 0 {
		t.Errorf("read: got %q, %v", got, err)
	}
	b := f.add(0, 100)
	f.Commit()
	b.wantErr(t)
	fault.Remove()
	wantLog(t, f.log(0), a, b)
	f.verify(6)
}

// TestFullDisk: everything is refused while the disk is full, the log says so once, reads go on, and it ends by itself. C16
// of the known cases: after a kill meanwhile, and with room again, the store starts and has all that was committed.
func TestFullDisk(t *testing.T) {
	log, logged := newLog(t)
	f := &faulty{mem: vfs.NewMem(), books: [2]*ledger{{}, {}}}
	f.disk = faultfs.New(f.mem)
	f.rig = open(t, store.Config{FS: f.disk, SegmentSize: 2000, Log: log})
	var runs []run
	for range 5 {
		runs = append(runs, f.add(0, 700))
		f.Commit()
	}
	f.disk.Add(faultfs.Rule{Op: vfs.OpCreate, Times: 30, Err: syscall.ENOSPC})
	full := f.disk.Add(faultfs.Rule{Op: vfs.OpWrite, Partial: 300, Err: syscall.ENOSPC})
	f.disk.Add(faultfs.Rule{Op: vfs.OpTruncate, Before: func(vfs.Op) { f.startsOn("after a kill before the undo", f.mem.Kill()) }})
	for range 20 {
		a := f.add(0, 700)
		f.Commit()
		a.wantErr(t, syscall.ENOSPC)
		wantLog(t, f.log(0), runs...)
	}
	f.startsOn("after a kill on a full disk", f.mem.Kill())
	full.Remove()
	a := f.add(0, 700)
	f.Commit()
	a.wantErr(t)
	wantLog(t, f.log(0), append(runs, a)...)
	logged.want("level=ERROR", "messages not stored", "t", "partition=0", "no space left")
	logged.want("level=INFO", "messages are stored again")
	if n := strings.Count(logged.text.String(), "not stored"); n != 1 {
		t.Errorf("logged %d times, want once", n)
	}
	f.verify(7)
}

// TestReadersDuringUndo: readers never see what is taken back.
func TestReadersDuringUndo(t *testing.T) {
	f := newFaulty(t)
	a := f.add(0, 1900)
	f.Commit()
	l, seen := f.log(0), 0
	look := func(vfs.Op) {
		seen++
		got, err := readAll(l, 0, math.MaxInt)
		if err != nil || !bytes.Equal(got, a.data) {
			t.Errorf("a reader sees %d bytes, %v, want %d", len(got), err, len(a.data))
		}
		if _, err := l.Locate(1900, 10); !errors.Is(err, store.ErrAtEnd) {
			t.Errorf("at the end a reader gets %v", err)
		}
	}
	f.disk.Add(faultfs.Rule{Op: vfs.OpWrite, After: 3, Times: 1, Err: io.ErrShortWrite})
	var looks []*faultfs.Fault
	for _, op := range []vfs.OpKind{vfs.OpWrite, vfs.OpSync, vfs.OpSyncDir, vfs.OpCreate, vfs.OpRemove, vfs.OpTruncate} {
		looks = append(looks, f.disk.Add(faultfs.Rule{Op: op, Before: look}))
	}
	b := f.add(0, 200, 2000, 2000, 2000, 2000)
	f.Commit()
	b.wantErr(t, io.ErrShortWrite)
	if seen < 12 {
		t.Errorf("looked %d times", seen)
	}
	for _, fault := range looks {
		fault.Remove()
	}
	f.verify(8)
}
