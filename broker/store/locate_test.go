package store_test

import (
	"errors"
	"io"
	"io/fs"
	"math"
	"strings"
	"testing"

	"github.com/metaq-go/metaq/broker/store"
	"github.com/metaq-go/metaq/internal/vfs"
)

// fourSegments is a partition that begins at 1000: segments 1000…1150, 1150…1250, 1250…1350 and 1350…1390, the last one
// open.
func fourSegments(t *testing.T) (*store.Log, string) {
	t.Helper()
	mem := vfs.NewMem()
	data, _ := records(5, 50)
	write(t, mem, segment(1000), data[:150])
	write(t, mem, segment(1150), data[150:200])
	r := open(t, store.Config{FS: mem, SegmentSize: 100})
	l := r.log(0)
	a := r.put(l, strings.Repeat("a", 30), strings.Repeat("b", 80)) // rolls at 1250, and at 1350
	b := r.put(l, strings.Repeat("c", 20))
	all := string(data[:200]) + string(a.data) + string(b.data)
	if got := strings.Join(names(t, mem, dir+"/t-0"), " "); got != "00000000000000001000.meta 150 00000000000000001150.meta 100 00000000000000001250.meta 100 00000000000000001350.meta 40" {
		t.Fatalf("segments are %s", got)
	}
	return l, all
}

func TestLocate(t *testing.T) {
	l, all := fourSegments(t)
	const start, end = 1000, 1390
	if l.Start() != start || l.End() != end || len(all) != end-start {
		t.Fatalf("partition is %d…%d, %d bytes, want %d…%d", l.Start(), l.End(), len(all), start, end)
	}
	tests := []struct {
		offset int64
		limit  int
		n      int
		err    error
	}{
		{math.MinInt64, 100, 0, store.ErrBelow},
		{-1, 100, 0, store.ErrBelow},
		{0, 100, 0, store.ErrBelow},
		{start - 1, 100, 0, store.ErrBelow},
		{start, 100, 100, nil},
		{start, 149, 149, nil},
		{start, 150, 150, nil},
		{start, 151, 150, nil}, // never across the border of a segment
		{start, math.MaxInt, 150, nil},
		{start, 1, 1, nil},
		{start, 0, 1, nil},
		{start, -5, 1, nil},
		{start, math.MinInt, 1, nil},
		{start + 1, math.MaxInt, 149, nil},
		{1149, 100, 1, nil},
		{1150, math.MaxInt, 100, nil},
		{1151, math.MaxInt, 99, nil},
		{1249, math.MaxInt, 1, nil},
		{1250, math.MaxInt, 100, nil},
		{1349, math.MaxInt, 1, nil},
		{1350, math.MaxInt, 40, nil},
		{end - 1, math.MaxInt, 1, nil},
		{end, 100, 0, store.ErrAtEnd},
		{end + 1, 100, 0, store.ErrAbove},
		{math.MaxInt64, 100, 0, store.ErrAbove},
	}
	for _, tt := range tests {
		chunk, err := l.Locate(tt.offset, tt.limit)
		if !errors.Is(err, tt.err) || chunk.Len() != tt.n {
			t.Errorf("Locate(%d, %d): got %d bytes, %v, want %d, %v", tt.offset, tt.limit, chunk.Len(), err, tt.n, tt.err)
			continue
		}
		if err != nil {
			continue
		}
		got, err := chunk.AppendTo([]byte("before"))
		want := "before" + all[tt.offset-start:][:tt.n]
		if err != nil || string(got) != want {
			t.Errorf("bytes at %d: got %q, %v, want %q", tt.offset, got, err, want)
		}
	}
	for limit := 1; limit < 300; limit += 7 {
		if got, err := readAll(l, start, limit); err != nil || string(got) != all {
			t.Errorf("everything in pieces of %d: got %d bytes, %v, want %d", limit, len(got), err, len(all))
		}
	}
}

func TestNearest(t *testing.T) {
	l, _ := fourSegments(t)
	for offset, want := range map[int64]int64{
		math.MinInt64: 1000, -1: 1000, 0: 1000, 999: 1000, 1000: 1000, 1001: 1000, 1149: 1000,
		1150: 1150, 1151: 1150, 1249: 1150, 1250: 1250, 1349: 1250, 1350: 1350, 1389: 1350,
		1390: 1390, 1391: 1390, math.MaxInt64: 1390,
	} {
		if got := l.Nearest(offset); got != want {
			t.Errorf("Nearest(%d): got %d, want %d", offset, got, want)
		}
	}
}

// TestEmptyLastSegment: offsets at the border of a partition that has just rolled.
func TestEmptyLastSegment(t *testing.T) {
	r := open(t, store.Config{SegmentSize: 100})
	l := r.log(0)
	if _, err := l.Locate(0, 10); !errors.Is(err, store.ErrAtEnd) {
		t.Errorf("empty partition: got error %v, want %v", err, store.ErrAtEnd)
	}
	if got := l.Nearest(0); got != 0 {
		t.Errorf("empty partition: Nearest(0) is %d", got)
	}
	a := r.put(l, strings.Repeat("x", 100))
	if l.End() != 120 {
		t.Fatalf("end is %d, want 120", l.End())
	}
	if chunk, err := l.Locate(119, 10); err != nil || chunk.Len() != 1 {
		t.Errorf("last byte: got %d bytes, %v", chunk.Len(), err)
	}
	if _, err := l.Locate(120, 10); !errors.Is(err, store.ErrAtEnd) {
		t.Errorf("end: got error %v, want %v", err, store.ErrAtEnd)
	}
	if got := l.Nearest(119); got != 0 {
		t.Errorf("Nearest(119) is %d, want 0", got)
	}
	if got := l.Nearest(120); got != 120 {
		t.Errorf("Nearest(120) is %d, want 120", got)
	}
	wantLog(t, l, a)
}

// TestReadFails: an error names the file and leaves what was gathered before.
func TestReadFails(t *testing.T) {
	mem := vfs.NewMem()
	r := open(t, store.Config{FS: mem})
	l := r.log(0)
	r.put(l, strings.Repeat("x", 100))
	chunk, err := l.Locate(0, 120)
	check(t, err)
	f, err := mem.OpenFile(segment(0), 2, 0)
	check(t, err)
	check(t, f.Truncate(70)) // behind the store's back
	check(t, f.Close())
	got, err := chunk.AppendTo([]byte("before"))
	if !errors.Is(err, io.ErrUnexpectedEOF) || !strings.Contains(err.Error(), segment(0)) || string(got) != "before" {
		t.Errorf("read of a file that was cut: got %q, %v", got, err)
	}
	check(t, r.Close())
	if got, err := chunk.AppendTo(nil); !errors.Is(err, fs.ErrClosed) || len(got) != 0 {
		t.Errorf("read after Close: got %q, %v", got, err)
	}
}
