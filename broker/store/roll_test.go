package store_test

import (
	"bytes"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/metaq-go/metaq/broker/store"
	"github.com/metaq-go/metaq/internal/vfs"
	"github.com/metaq-go/metaq/internal/vfs/faultfs"
	"github.com/metaq-go/metaq/protocol"
)

// TestRoll: a segment is closed by the record that makes it reach its size, wherever in a round that record is, and the
// next one begins at once (storage.md 5.4).
func TestRoll(t *testing.T) {
	tests := []struct {
		name   string
		rounds [][]int // sizes of records, headers included
		want   []int64 // sizes of segments
	}{
		{"one byte short", [][]int{{999}}, []int64{999}},
		{"exact", [][]int{{1000}}, []int64{1000, 0}},
		{"one byte over", [][]int{{1001}}, []int64{1001, 0}},
		{"exact in steps", [][]int{{500}, {480}, {20}}, []int64{1000, 0}},
		{"short, then over", [][]int{{999}, {20}}, []int64{1019, 0}},
		{"short, then bigger than a segment", [][]int{{999}, {5000}, {20}}, []int64{5999, 20}},
		{"bigger than a segment", [][]int{{5000}, {5000}}, []int64{5000, 5000, 0}},
		{"in the middle of a round", [][]int{{400, 400, 400, 400}}, []int64{1200, 400}},
		{"at the end of a round", [][]int{{400, 400, 200}}, []int64{1000, 0}},
		{"many segments in a round", [][]int{{400, 400, 400, 999, 20, 20, 1000, 30, 4000, 20}}, []int64{1200, 1019, 1020, 4030, 20}},
		{"a big round on a begun segment", [][]int{{990}, {20, 20, 990, 20}}, []int64{1010, 1010, 20}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			mem := vfs.NewMem()
			r := open(t, store.Config{FS: mem, SegmentSize: 1000})
			l := r.log(0)
			var runs []run
			for _, sizes := range tt.rounds {
				var bodies []string
				for i, size := range sizes {
					bodies = append(bodies, strings.Repeat(string(rune('a'+i)), size-protocol.HeaderSize))
				}
				runs = append(runs, r.put(l, bodies...))
			}
			var want []string
			offset := int64(0)
			for _, size := range tt.want {
				want = append(want, fmt.Sprintf("%020d.meta %d", offset, size))
				offset += size
			}
			wantLog(t, l, runs...)
			check(t, r.Close())
			if got := names(t, mem, dir+"/t-0"); !slices.Equal(got, want) {
				t.Errorf("segments are %s, want %s", got, want)
			}
			wantLog(t, open(t, store.Config{FS: mem, SegmentSize: 1000}).log(0), runs...)
		})
	}
}

// wantWhole checks that each segment holds whole records only, and that all but the last reached size by the last of them.
func wantWhole(t *testing.T, fsys vfs.FS, folder string, size int) {
	t.Helper()
	entries, err := fsys.ReadDir(folder)
	check(t, err)
	for i, e := range entries {
		data := read(t, fsys, folder+"/"+e.Name())
		last := 0
		n := 0
		for pos, r := range protocol.Records(data) {
			last, n = pos, pos+r.Size()
		}
		if n != len(data) {
			t.Errorf("segment %s ends in the middle of a record", e.Name())
		}
		if i < len(entries)-1 && (len(data) < size || last >= size) {
			t.Errorf("segment %s has %d bytes, its last record begins at %d; the limit is %d", e.Name(), len(data), last, size)
		}
		if i == len(entries)-1 && len(data) >= size {
			t.Errorf("last segment %s has %d bytes and did not roll", e.Name(), len(data))
		}
	}
}

func TestRollWholeRecords(t *testing.T) {
	for _, size := range []int64{20, 21, 777, 4096} {
		mem := vfs.NewMem()
		r := open(t, store.Config{FS: mem, SegmentSize: size})
		l := r.log(0)
		var runs []run
		for i := range 40 {
			var bodies []string
			for k := range i%7 + 1 {
				bodies = append(bodies, strings.Repeat("x", i*k*13%900))
			}
			runs = append(runs, r.put(l, bodies...))
		}
		wantLog(t, l, runs...)
		check(t, r.Close())
		wantWhole(t, mem, dir+"/t-0", int(size))
	}
}

// TestReservation: what is reserved on disk never shows in a file's size, is in proportion to what is written, and is given
// back.
func TestReservation(t *testing.T) {
	const size = 8 << 20
	disk := t.TempDir()
	fsys := faultfs.New(vfs.OS())
	r := open(t, store.Config{FS: fsys, Dir: disk, SegmentSize: size})
	l := r.log(0)
	mark := int64(0)
	fsys.Add(faultfs.Rule{Op: vfs.OpPreallocate, Before: func(op vfs.Op) {
		end := op.Off + op.Len
		if op.Off < mark && op.Off != 0 || op.Len <= 0 || end > size+1<<20 || op.Len > op.Off+3<<20 || op.Len > 5<<20 {
			t.Errorf("reserves %d…%d of a segment of %d", op.Off, end, size)
		}
		mark = op.Off
	}})
	body := bytes.Repeat([]byte("0123456789abcdef"), 1<<16-2) // 1 MiB with its header, and a little less
	var runs []run
	for range 20 {
		a, err := appendRecords(l, protocol.AppendMessage(nil, 0, nil, body), 1)
		check(t, err)
		r.Commit()
		check(t, a.err(t))
		runs = append(runs, a)
		sum := int64(0)
		for _, name := range names(t, vfs.OS(), disk+"/t-0") {
			var start, n int64
			if _, err := fmt.Sscanf(name, "%d.meta %d", &start, &n); err != nil || start != sum {
				t.Fatalf("segment %s, want it to begin at %d", name, sum)
			}
			sum += n
		}
		if sum != l.End() {
			t.Errorf("files hold %d bytes, %d are written", sum, l.End())
		}
	}
	if fsys.Count(vfs.OpPreallocate) == 0 {
		t.Error("nothing was reserved")
	}
	wantLog(t, l, runs...)
	check(t, r.Close())
	wantReserved(t, disk+"/t-0", 128<<10)
}

// TestReservationRefused: a disk that can't reserve is as good.
func TestReservationRefused(t *testing.T) {
	fsys := faultfs.New(vfs.NewMem())
	fsys.Add(faultfs.Rule{Op: vfs.OpPreallocate, Err: fmt.Errorf("not here")})
	r := open(t, store.Config{FS: fsys, SegmentSize: 4 << 20})
	l := r.log(0)
	var runs []run
	for range 12 {
		runs = append(runs, r.put(l, strings.Repeat("r", 600_000)))
	}
	wantLog(t, l, runs...)
	if n := fsys.Count(vfs.OpPreallocate); n == 0 || n > 10 {
		t.Errorf("asked %d times, want a few", n)
	}
}

// TestHugeSegmentSize: sizes near the end of what offsets can be.
func TestHugeSegmentSize(t *testing.T) {
	r := open(t, store.Config{SegmentSize: math.MaxInt64})
	l := r.log(0)
	wantLog(t, l, r.put(l, "one"), r.put(l, strings.Repeat("two", 200_000)))
}
