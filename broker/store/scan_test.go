package store

import (
	"bytes"
	"errors"
	"io"
	"math"
	"strings"
	"testing"

	"github.com/metaq-go/metaq/internal/vfs"
	"github.com/metaq-go/metaq/protocol"
)

func scanned1(t testing.TB, data []byte) scanned {
	t.Helper()
	s, err := scan(bytes.NewReader(data), int64(len(data)))
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestScan(t *testing.T) {
	first := protocol.MakeID(1_700_000_000_000, 1, 0)
	var data []byte
	for _, body := range []string{"one", "", strings.Repeat("long", 200_000), "four"} { // one is longer than the buffer
		data = protocol.AppendMessage(data, 0, nil, []byte(body))
	}
	protocol.StampIDs(data, first)
	last := protocol.IDAfter(first, 3)
	none := int64(math.MinInt64)
	end := int64(len(data))
	for name, tt := range map[string]struct {
		data []byte
		want scanned
	}{
		"nothing":     {nil, scanned{lastID: none}},
		"all good":    {data, scanned{good: end, records: 4, lastID: last}},
		"body cut":    {data[:len(data)-3], scanned{good: end - 24, records: 3, lastID: last - 1, reason: "record longer than the file"}},
		"part of it":  {data[:len(data)-10], scanned{good: end - 24, records: 3, lastID: last - 1, reason: "header cut off"}},
		"zeros":       {append(bytes.Clone(data), make([]byte, 30)...), scanned{good: end, records: 4, lastID: last, reason: "zeros"}},
		"only zeros":  {make([]byte, 600), scanned{lastID: none, reason: "zeros"}},
		"text":        {[]byte(strings.Repeat("what is this? ", 100)), scanned{lastID: none, reason: "record longer than the file"}},
		"wrong body":  {append(bytes.Clone(data[:len(data)-1]), 'x'), scanned{good: end - 24, records: 3, lastID: last - 1, reason: "checksum"}},
		"torn header": {tornHeader(), scanned{good: 1012, records: 1, lastID: first, reason: "torn header"}},
	} {
		if got := scanned1(t, tt.data); got != tt.want {
			t.Errorf("%s: got %+v, want %+v", name, got, tt.want)
		}
	}
}

// tornHeader is a record of 1012 bytes and one without a body, whose header lost all that is in the next sector.
func tornHeader() []byte {
	first := protocol.MakeID(1_700_000_000_000, 1, 0)
	data := protocol.AppendRecord(nil, first, 0, bytes.Repeat([]byte("x"), 1012-protocol.HeaderSize))
	data = protocol.AppendRecord(data, first+1, 0, nil)
	clear(data[1024:])
	return data
}

// TestScanFarHole: zeros far from the end are no crash, so much is not written at once: what follows stays.
func TestScanFarHole(t *testing.T) {
	first := protocol.MakeID(1_700_000_000_000, 1, 0)
	for _, tt := range []struct {
		behind, damaged int
		good            int64
	}{
		{maxTorn - 10_000, 0, 0},
		{maxTorn + 1, 1, maxTorn + 1 + 2*protocol.HeaderSize + 2000},
	} {
		data := protocol.AppendRecord(make([]byte, 0, tt.behind+3000), first, 0, bytes.Repeat([]byte("x"), 2000))
		clear(data[512:1024])
		data = protocol.AppendRecord(data, first+1, 0, make([]byte, tt.behind))
		got := scanned1(t, data)
		if got.good != tt.good || got.damaged != tt.damaged {
			t.Errorf("hole with %d bytes behind it: good up to %d with %d places damaged, want %d and %d", tt.behind, got.good, got.damaged, tt.good, tt.damaged)
		}
	}
}

type failingReader struct {
	io.ReaderAt
	from int64
}

var errRead = errors.New("broken sector")

func (r failingReader) ReadAt(b []byte, off int64) (int, error) {
	if off+int64(len(b)) > r.from {
		return 0, errRead
	}
	return r.ReaderAt.ReadAt(b, off)
}

// TestScanReadError: what can't be read is not taken for the end.
func TestScanReadError(t *testing.T) {
	data := protocol.AppendMessage(nil, 1, nil, make([]byte, 600_000))
	data = protocol.AppendMessage(data, 2, nil, []byte("two"))
	bad := bytes.Clone(data)
	bad[100] ^= 1
	for _, d := range [][]byte{data, bad} {
		for _, from := range []int64{0, 10, 300_000, 600_019, 600_025} {
			if got, err := scan(failingReader{bytes.NewReader(d), from}, int64(len(d))); !errors.Is(err, errRead) {
				t.Errorf("broken from %d on: got %+v, %v", from, got, err)
			}
		}
	}
}

// FuzzRecovery starts a store on any bytes as the last segment. What it serves is a beginning of them, what it sets aside
// is the rest, and starting again changes nothing.
func FuzzRecovery(f *testing.F) {
	var data []byte
	for _, body := range []string{"one", "", "three", strings.Repeat("four", 300), "five"} {
		data = protocol.AppendMessage(data, 0, nil, []byte(body))
	}
	protocol.StampIDs(data, protocol.MakeID(1_700_000_000_000, 1, 0))
	f.Add(data, uint16(0), byte(0))
	f.Add(data[:len(data)-3], uint16(30), byte(1))
	f.Add(data, uint16(0), byte(0xff))
	f.Add(append(bytes.Clone(data), make([]byte, 700)...), uint16(800), byte(0x80))
	f.Add([]byte("no log at all"), uint16(0), byte(0))
	f.Fuzz(func(t *testing.T, data []byte, at uint16, flip byte) {
		if len(data) > 0 {
			data = bytes.Clone(data)
			data[int(at)%len(data)] ^= flip
		}
		mem := vfs.NewMem()
		const name = "/data/t-0/00000000000000000000.meta"
		if err := errors.Join(mem.MkdirAll("/data/t-0", 0o755), vfs.WriteFileAtomic(mem, name, data, 0o644)); err != nil {
			t.Fatal(err)
		}
		kept := -1
		for range 2 {
			s, err := Open(Config{FS: mem, Dir: "/data"})
			if err != nil {
				t.Fatal(err)
			}
			l := s.Log([]byte("t"), 0)
			if kept >= 0 && int(l.End()) != kept {
				t.Errorf("%d bytes at the second start, %d at the first", l.End(), kept)
			}
			kept = int(l.End())
			if err := s.Close(); err != nil {
				t.Error(err)
			}
		}
		got, err := vfs.ReadFile(mem, name)
		if err != nil || !bytes.Equal(got, data[:kept]) {
			t.Errorf("segment has %d bytes, %v, want the first %d", len(got), err, kept)
		}
		entries, err := mem.ReadDir("/data/t-0")
		if err != nil {
			t.Fatal(err)
		}
		var rest []byte
		for _, e := range entries {
			if strings.Contains(e.Name(), ".corrupt-") {
				if rest, err = vfs.ReadFile(mem, "/data/t-0/"+e.Name()); err != nil {
					t.Fatal(err)
				}
			}
		}
		if len(entries) > 2 || !bytes.Equal(rest, data[kept:]) {
			t.Errorf("%d files, %d bytes set aside, want the %d behind %d", len(entries), len(rest), len(data)-kept, kept)
		}
	})
}
