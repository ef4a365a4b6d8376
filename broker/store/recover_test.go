package store_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/metaq-go/metaq/broker/store"
	"github.com/metaq-go/metaq/internal/vfs"
	"github.com/metaq-go/metaq/internal/vfs/faultfs"
	"github.com/metaq-go/metaq/protocol"
)

// stored returns records as a store has them, with ids that increase.
func stored(bodies ...string) []byte {
	var data []byte
	for _, b := range bodies {
		data = protocol.AppendMessage(data, 0, nil, []byte(b))
	}
	protocol.StampIDs(data, protocol.MakeID(1_700_000_000_000, 1, 0))
	return data
}

// aside returns what was set aside in a partition's folder, by name.
func aside(t testing.TB, fsys vfs.FS, folder string) map[string]string {
	t.Helper()
	found := make(map[string]string)
	entries, err := fsys.ReadDir(folder)
	check(t, err)
	for _, e := range entries {
		if strings.Contains(e.Name(), ".corrupt-") {
			if strings.HasSuffix(e.Name(), ".meta") {
				t.Errorf("a Java broker would take %s for a segment", e.Name())
			}
			found[e.Name()] = string(read(t, fsys, folder+"/"+e.Name()))
		}
	}
	return found
}

// wantRecovery starts a store on a last segment and checks that good bytes of it stay and the rest is set aside, that
// the store goes on behind them and that the next start finds all that.
func wantRecovery(t *testing.T, at int64, data []byte, good int) {
	t.Helper()
	mem := vfs.NewMem()
	write(t, mem, segment(at), data)
	log, logged := newLog(t)
	r := open(t, store.Config{FS: mem, Log: log})
	l := r.log(0)
	if l.Start() != at || l.End() != at+int64(good) {
		t.Errorf("partition is %d…%d, want %d…%d", l.Start(), l.End(), at, at+int64(good))
	}
	if got := read(t, mem, segment(at)); !bytes.Equal(got, data[:good]) {
		t.Errorf("segment has %d bytes, want the first %d", len(got), good)
	}
	found := aside(t, mem, dir+"/t-0")
	if good == len(data) {
		if len(found) > 0 {
			t.Errorf("set aside: %q", found)
		}
	} else {
		logged.want("level=WARN", "torn tail set aside", fmt.Sprintf("offset=%d", at+int64(good)), fmt.Sprintf("bytes=%d", len(data)-good), "topic=t", "partition=0", segment(at))
		for name, got := range found {
			logged.want(name)
			if got != string(data[good:]) || !strings.HasPrefix(name, fmt.Sprintf("%020d.meta.corrupt-", at)) {
				t.Errorf("set aside in %s: %q, want %q", name, got, data[good:])
			}
		}
		if len(found) != 1 {
			t.Errorf("%d files set aside, want 1", len(found))
		}
	}
	want := bytes.Clone(data[:good])
	for i := range 10 {
		a := r.put(l, fmt.Sprint("new ", i))
		want = append(want, a.data...)
	}
	check(t, r.Close())
	l = open(t, store.Config{FS: mem, Log: log}).log(0)
	if got, err := readAll(l, at, 1000); err != nil || !bytes.Equal(got, want) {
		t.Errorf("after the next start: %d bytes, %v, want %d", len(got), err, len(want))
	}
	if again := aside(t, mem, dir+"/t-0"); len(again) != len(found) {
		t.Errorf("the next start set aside more: %q", again)
	}
}

// TestTornTail cuts the last record at every byte. C15 of the known cases: what is appended behind a torn record is there
// after the next start.
func TestTornTail(t *testing.T) {
	for _, at := range []int64{0, 1 << 40} {
		for _, last := range []string{"", "x", strings.Repeat("last", 30)} {
			head, data := stored("one", "", "three"), stored("one", "", "three", last)
			for cut := len(head); cut <= len(data); cut++ {
				good := len(head)
				if cut == len(data) {
					good = cut
				}
				wantRecovery(t, at, data[:cut], good)
			}
		}
	}
}

func TestZeroTail(t *testing.T) {
	head := stored("one", "two")
	for _, n := range []int{1, 19, 20, 21, 40, 512, 5000, 1 << 20} {
		wantRecovery(t, 0, append(bytes.Clone(head), make([]byte, n)...), len(head))
	}
}

// TestHeadlessSegment: C14 of the known cases: the last segment is empty, or zeros, or the beginning of a header, behind
// another one or alone.
func TestHeadlessSegment(t *testing.T) {
	for _, tail := range [][]byte{nil, make([]byte, 1), make([]byte, 20), make([]byte, 4096), stored("x")[:19], stored("x")[:20]} {
		wantRecovery(t, 0, tail, 0)
		wantRecovery(t, 77, tail, 0)
		mem := vfs.NewMem()
		sealed := stored("one", "two")
		write(t, mem, segment(5), sealed)
		write(t, mem, segment(5+int64(len(sealed))), tail)
		r := open(t, store.Config{FS: mem, SegmentSize: 46})
		l := r.log(0)
		a := r.put(l, "three")
		want := append(bytes.Clone(sealed), a.data...)
		if got, err := readAll(l, 5, 1000); err != nil || !bytes.Equal(got, want) {
			t.Errorf("%d bytes of tail: partition holds %d bytes, %v, want %d", len(tail), len(got), err, len(want))
		}
		if a.ID <= lastID(sealed) {
			t.Errorf("%d bytes of tail: id %d is not above that of the sealed segment", len(tail), a.ID)
		}
	}
}

// TestWrongLength: a length that can't be leaves nothing to go on behind, unless good records follow.
func TestWrongLength(t *testing.T) {
	head := stored("one", "two")
	for _, length := range []int32{6, 7, 1000, math.MaxInt32, -1, -20, -21, math.MinInt32} {
		bad := stored("three")
		binary.BigEndian.PutUint32(bad, uint32(length))
		wantRecovery(t, 0, append(bytes.Clone(head), bad...), len(head))
		tail := stored("", "", "", "", "four")
		wantRecovery(t, 0, slices.Concat(head, bad, tail[80:]), len(head)+len(bad)+len(tail)-80)
	}
}

// TestFlippedBit flips each bit of each record of the last segment in turn. What is before and behind it stays as and where
// it is, and so does the record itself, unless it is the last one: that one could be torn.
func TestFlippedBit(t *testing.T) {
	bodies := []string{"first", "", strings.Repeat("body ", 30), "\x00\x00\x00\x04attrpayload", "", "last"}
	data := stored(bodies...)
	borders := []int{0}
	for pos, r := range protocol.Records(data) {
		borders = append(borders, pos+r.Size())
	}
	for i := range bodies {
		for bit := borders[i] * 8; bit < borders[i+1]*8; bit++ {
			bad := bytes.Clone(data)
			bad[bit/8] ^= 0x80 >> (bit % 8)
			covered := bit/8 < borders[i]+8 || bit/8 >= borders[i]+protocol.HeaderSize // no checksum covers id and flag
			mem := vfs.NewMem()
			write(t, mem, segment(0), bad)
			log, logged := newLog(t)
			r := open(t, store.Config{FS: mem, Log: log})
			want := bad
			if covered && i == len(bodies)-1 {
				want = bad[:borders[i]]
			}
			if got, err := readAll(r.log(0), 0, 1000); err != nil || !bytes.Equal(got, want) {
				t.Fatalf("bit %d of record %d flipped: partition holds %d bytes, %v, want %d", bit-borders[i]*8, i, len(got), err, len(want))
			}
			if covered && i < len(bodies)-1 {
				logged.want("level=ERROR", "stay where they are", "places=1", fmt.Sprintf("offset=%d", borders[i]), segment(0))
			}
			check(t, r.Close())
		}
	}
}

// TestDamage: several places, and a torn tail behind.
func TestDamage(t *testing.T) {
	data := stored("0", "1", "2", "3", "4", "5", "6", "7", "8", "9") // 21 bytes each
	bad := bytes.Clone(data)
	for _, i := range []int{2, 3, 6} {
		bad[i*21+20] ^= 1
	}
	binary.BigEndian.PutUint32(bad[7*21:], 1<<30)
	torn := append(bad, data[:15]...)
	mem := vfs.NewMem()
	write(t, mem, segment(1000), torn)
	log, logged := newLog(t)
	r := open(t, store.Config{FS: mem, Log: log})
	l := r.log(0)
	if got, err := readAll(l, 1000, 100); err != nil || !bytes.Equal(got, torn[:210]) {
		t.Errorf("partition holds %d bytes, %v, want 210", len(got), err)
	}
	logged.want("level=ERROR", "places=2", "offset=1042")
	logged.want("level=WARN", "torn tail", "offset=1210", "bytes=15")
	if a := r.put(l, "next"); a.Offset != 1210 {
		t.Errorf("next message is at %d, want 1210", a.Offset)
	}
}

// TestRecordsInRecords: messages that hold records, as copies of a log do, are not taken for a log.
func TestRecordsInRecords(t *testing.T) {
	inner := stored("inner one", "inner two", strings.Repeat("inner", 50))
	outer := stored("first", strings.Repeat("-", 100)+string(inner)+"end", "last")
	second := 25
	last := len(outer) - 24
	protocol.StampIDs(outer, protocol.MakeID(1_700_000_001_000, 1, 0)) // later than what it holds
	for cut := second; cut < last; cut++ {
		wantRecovery(t, 0, outer[:cut], second)
	}
	// Damaged, and followed by a good one: it stays.
	for _, at := range []int{second, second + 3, second + 5, second + 120, second + 125, second + 150} {
		bad := bytes.Clone(outer)
		bad[at] ^= 4
		wantRecovery(t, 0, bad, len(outer))
	}
}

// TestLostSector: a crash may keep a write but for a sector in its middle, which then is zeros. What is before it stays,
// what is behind it was never acknowledged.
func TestLostSector(t *testing.T) {
	bodies := make([]string, 20)
	for i := range bodies {
		bodies[i] = strings.Repeat(string(rune('a'+i)), 300)
	}
	data := stored(bodies...) // 320 bytes each
	for sector := 0; sector < len(data); sector += 512 {
		torn := bytes.Clone(data)
		clear(torn[sector:min(len(torn), sector+512)])
		wantRecovery(t, 0, torn, sector/320*320)
	}
	// The part of a sector that belongs to a write that begins within it.
	torn := bytes.Clone(data)
	clear(torn[10*320 : 7*512])
	wantRecovery(t, 0, torn, 10*320)
}

// TestSealedSegment: C18 of the known cases: a flipped bit in a sealed segment takes nothing else away.
func TestSealedSegment(t *testing.T) {
	mem := vfs.NewMem()
	cfg := store.Config{FS: mem, SegmentSize: 2000}
	r := open(t, cfg)
	var all []byte
	for range 20 {
		all = append(all, r.put(r.log(0), strings.Repeat("x", 400)).data...)
	}
	check(t, r.Close())
	for _, pos := range []int{100, 840, 843, 2100} {
		bad := read(t, mem, segment(0))
		bad[pos%2100] ^= 1
		write(t, mem, segment(0), bad)
		all[pos%2100] ^= 1
	}
	l := open(t, cfg).log(0)
	if got, err := readAll(l, 0, 1000); err != nil || !bytes.Equal(got, all) {
		t.Errorf("partition holds %d bytes, %v, want all %d as they are", len(got), err, len(all))
	}
}

// TestRecoveryAgain: each start that sets something aside finds a name for it, also when the clock stands.
func TestRecoveryAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		mem := vfs.NewMem()
		data := stored("one")
		for i := range 3 {
			write(t, mem, segment(0), append(bytes.Clone(data), byte(i)))
			check(t, open(t, store.Config{FS: mem}).Close())
		}
		found := aside(t, mem, dir+"/t-0")
		var contents []string
		for _, c := range found {
			contents = append(contents, c)
		}
		slices.Sort(contents)
		if !slices.Equal(contents, []string{"\x00", "\x01", "\x02"}) {
			t.Errorf("set aside: %q", found)
		}
	})
}

// TestRecoveryFails: when the disk fails during recovery, the start is refused with an error that names the file, nothing is
// lost, and a start on a disk that is well again recovers.
func TestRecoveryFails(t *testing.T) {
	broken := errors.New("broken")
	data := stored("one", "two", "three")
	cut := len(data) - 3
	for n := 0; ; n++ {
		mem := vfs.NewMem()
		write(t, mem, segment(0), data[:cut])
		fsys := faultfs.New(mem)
		fault := fsys.Add(faultfs.Rule{Path: "*.meta*", After: n, Times: 1, Err: broken})
		s, err := store.Open(store.Config{FS: fsys, Dir: dir})
		acted := fault.Acted()
		fault.Remove()
		if err == nil {
			check(t, s.Close())
		} else if !errors.Is(err, broken) || !strings.Contains(err.Error(), "t-0") {
			t.Errorf("operation %d failed: got error %v", n, err)
		}
		if acted == 0 {
			break
		}
		r := open(t, store.Config{FS: fsys})
		if got, err := readAll(r.log(0), 0, 1000); err != nil || !bytes.Equal(got, data[:46]) {
			t.Errorf("operation %d failed: then %d bytes, %v", n, len(got), err)
		}
		rest := false
		for _, got := range aside(t, mem, dir+"/t-0") {
			rest = rest || got == string(data[46:cut])
		}
		if !rest {
			t.Errorf("operation %d failed: the torn tail is lost", n)
		}
	}
}
