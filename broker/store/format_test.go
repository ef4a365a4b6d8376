package store_test

import (
	"encoding/hex"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/metaq-go/metaq/broker/store"
	"github.com/metaq-go/metaq/internal/vfs"
	"github.com/metaq-go/metaq/protocol"
)

// exampleSegment is the segment that storage.md 3.3 shows, byte by byte.
const exampleSegment = `
00 00 00 05  36 10 a6 86  05 98 10 f6 0a 40 10 05  00 00 00 00  68 65 6c 6c 6f
00 00 00 0d  4d b6 2e 3d  05 98 10 f6 0a 40 10 06  00 00 00 01
00 00 00 04  74 61 67 41  68 65 6c 6c 6f
00 00 00 05  23 64 98 10  05 98 10 f6 0a 40 10 07  00 00 00 00  6d 65 74 61 71`

func example(t testing.TB) []byte {
	t.Helper()
	data, err := hex.DecodeString(strings.Join(strings.Fields(exampleSegment), ""))
	check(t, err)
	return data
}

// TestWorkedExample writes the segment of storage.md 3.3 at the time that it tells, and reads it back.
func TestWorkedExample(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		time.Sleep(time.Until(time.UnixMilli(1_400_000_000_000)))
		mem := vfs.NewMem()
		r := open(t, store.Config{FS: mem, BrokerID: 1, SegmentSize: 83})
		other, err := r.Create("other", 0)
		check(t, err)
		r.append(other, "sequence", "numbers", "zero", "to", "four")
		l, err := r.Create("meta-test", 0)
		check(t, err)
		var offsets, ids []int64
		for _, m := range []struct {
			attr    []byte
			payload string
		}{{nil, "hello"}, {[]byte("tagA"), "hello"}, {nil, "metaq"}} {
			a, err := l.Append(protocol.AppendMessage(nil, 0, m.attr, []byte(m.payload)), 1)
			check(t, err)
			offsets, ids = append(offsets, a.Offset), append(ids, a.ID)
		}
		r.Commit()
		if want := []int64{0, 25, 58}; !slices.Equal(offsets, want) {
			t.Errorf("offsets are %d, want %d", offsets, want)
		}
		if want := []int64{403090815569629189, 403090815569629190, 403090815569629191}; !slices.Equal(ids, want) {
			t.Errorf("ids are %d, want %d", ids, want)
		}
		if l.End() != 83 {
			t.Errorf("maximum offset is %d, want 83", l.End())
		}
		check(t, r.Close())
		folder := dir + "/meta-test-0"
		want := []string{"00000000000000000000.meta 83", "00000000000000000083.meta 0"}
		if got := names(t, mem, folder); !slices.Equal(got, want) {
			t.Errorf("files are %s, want %s", got, want)
		}
		if got := read(t, mem, folder+"/00000000000000000000.meta"); string(got) != string(example(t)) {
			t.Errorf("segment is\n%swant\n%s", hex.Dump(got), hex.Dump(example(t)))
		}
	})
}

// TestWorkedExampleTorn: the example of storage.md 6: after 12 bytes of a fourth record the maximum offset is 83.
func TestWorkedExampleTorn(t *testing.T) {
	mem := vfs.NewMem()
	data := example(t)
	write(t, mem, segment(0), append(data, data[:12]...))
	r := open(t, store.Config{FS: mem, BrokerID: 1})
	l := r.log(0)
	if l.End() != 83 || l.Messages() != 3 {
		t.Errorf("maximum offset is %d, %d messages, want 83, 3", l.End(), l.Messages())
	}
	if got := read(t, mem, segment(0)); string(got) != string(example(t)) {
		t.Errorf("segment is\n%s", hex.Dump(got))
	}
	a := r.put(l, "next")
	if a.Offset != 83 || a.ID <= 403090815569629191 {
		t.Errorf("next message is at %d with id %d", a.Offset, a.ID)
	}
}

// TestEmptyMessage: a record without payload and attribute is its header.
func TestEmptyMessage(t *testing.T) {
	mem := vfs.NewMem()
	r := open(t, store.Config{FS: mem})
	l := r.log(0)
	a := r.put(l, "", "")
	got := read(t, mem, segment(0))
	if len(got) != 40 || string(got) != string(a.data) || hex.EncodeToString(got[:8]) != "0000000000000000" {
		t.Errorf("two empty messages are stored as\n%s", hex.Dump(got))
	}
	check(t, r.Close())
	l = open(t, store.Config{FS: mem}).log(0)
	wantLog(t, l, a)
	if l.Messages() != 2 {
		t.Errorf("%d messages found, want 2", l.Messages())
	}
}

// TestForeignFiles: what is not of the log stays as it is, in the data folder and in partitions (storage.md 1.4, 2.1, 13.1).
func TestForeignFiles(t *testing.T) {
	mem := vfs.NewMem()
	foreign := []string{
		"/file", "/file-0", "/README", "/backup/x.meta", "/my-backup/00000000000000000000.meta", "/t-01/00000000000000000000.meta",
		"/transactions/redo.1", "/transactions/checkpoint.7", "/transactions/heuristic.log",
		"/t-0/00000000000000000000.meta.arc", "/t-0/00000000000000000000.meta.zip", "/t-0/notes", "/t-0/x.meta", "/t-0/-1.meta",
		"/t-0/00000000000000000900.meta.corrupt-20260101T000000.000000000", "/t-0/99999999999999999999.meta",
		"/t-0/sub.meta/00000000000000000000.meta", "/t-0/00000000000000000000.meta.tmp",
	}
	for _, name := range foreign {
		write(t, mem, dir+name, []byte("of "+name))
	}
	write(t, mem, segment(1000), example(t))
	log, logged := newLog(t)
	r := open(t, store.Config{FS: mem, Log: log})
	if got := logNames(r); !slices.Equal(got, []string{"t-0"}) {
		t.Errorf("partitions are %s, want t-0 alone", got)
	}
	l := r.log(0)
	if l.Start() != 1000 || l.End() != 1083 {
		t.Errorf("partition is %d…%d, want 1000…1083", l.Start(), l.End())
	}
	r.put(l, "more")
	check(t, r.Close())
	for _, name := range foreign {
		if got := read(t, mem, dir+name); string(got) != "of "+name {
			t.Errorf("%s was changed to %q", name, got)
		}
	}
	for _, words := range [][]string{{"no partition", "my-backup"}, {"no partition", "t-01"}, {"not a segment", "x.meta"}, {"not a segment", "99999999999999999999.meta"}} {
		logged.want(words...)
	}
}

// TestNumbersOfZeros: segments are found and joined by what their names mean, however many zeros these begin with.
func TestNumbersOfZeros(t *testing.T) {
	mem := vfs.NewMem()
	data := example(t)
	write(t, mem, dir+"/t-0/0.meta", data)
	write(t, mem, dir+"/t-0/00000000000000000000000000000083.meta", data) // 32 digits
	write(t, mem, dir+"/t-0/00166.meta", data)
	r := open(t, store.Config{FS: mem, SegmentSize: 83})
	l := r.log(0)
	if got, err := readAll(l, 0, 50); err != nil || string(got) != strings.Repeat(string(data), 3) {
		t.Errorf("got %d bytes, %v, want %d", len(got), err, 3*len(data))
	}
	r.put(l, "x")
	want := []string{"0.meta 83", "00000000000000000000000000000083.meta 83", "00000000000000000270.meta 0", "00166.meta 104"}
	if got := names(t, mem, dir+"/t-0"); !slices.Equal(got, want) {
		t.Errorf("files are %s, want %s", got, want)
	}
}

// TestSegmentsDoNotJoin: the start is refused, with an error that names both files, and nothing is changed.
func TestSegmentsDoNotJoin(t *testing.T) {
	data := example(t)
	for name, files := range map[string]map[string][]byte{
		"gap":           {"00000000000000000000.meta": data, "00000000000000000084.meta": data},
		"overlap":       {"00000000000000000000.meta": data, "00000000000000000058.meta": data},
		"missing":       {"00000000000000000000.meta": data, "00000000000000000166.meta": data},
		"gap, empty":    {"00000000000000000000.meta": data, "00000000000000000084.meta": nil},
		"twice":         {"00000000000000000000.meta": data, "0.meta": data},
		"first one cut": {"00000000000000000000.meta": data[:82], "00000000000000000083.meta": data},
		"middle":        {"0.meta": data, "83.meta": data, "167.meta": data, "250.meta": data},
		"last offsets":  {"9223372036854775800.meta": data, "9223372036854775807.meta": data},
	} {
		t.Run(name, func(t *testing.T) {
			mem := vfs.NewMem()
			for file, data := range files {
				write(t, mem, dir+"/t-0/"+file, data)
			}
			write(t, mem, dir+"/other-0/00000000000000000000.meta", data)
			before := names(t, mem, dir+"/t-0")
			s, err := store.Open(store.Config{FS: mem, Dir: dir})
			if err == nil {
				s.Close()
				t.Fatal("the store opens")
			}
			if text := err.Error(); strings.Count(text, ".meta") < 1 || !strings.Contains(text, "t-0") || !strings.Contains(text, "partition") {
				t.Errorf("error %q does not say where", text)
			}
			if after := names(t, mem, dir+"/t-0"); !slices.Equal(after, before) {
				t.Errorf("files were %s, are %s", before, after)
			}
			if _, err := store.Open(store.Config{FS: mem, Dir: dir}); errors.Is(err, vfs.ErrLocked) {
				t.Error("the folder stays locked")
			}
		})
	}
}

// TestEmptySegmentAside: an empty file in the place of a segment that was never begun does not keep a store from starting.
func TestEmptySegmentAside(t *testing.T) {
	data := example(t)
	for name, files := range map[string]map[string][]byte{
		"within another":       {"00000000000000000000.meta": data, "00000000000000000058.meta": nil},
		"same start":           {"00000000000000000000.meta": data, "0.meta": nil},
		"several":              {"0.meta": data, "00.meta": nil, "000.meta": nil, "58.meta": nil, "83.meta": data},
		"before the last":      {"0.meta": data, "83.meta": nil, "083.meta": data},
		"two empty at the end": {"0.meta": data, "83.meta": nil, "083.meta": nil},
	} {
		t.Run(name, func(t *testing.T) {
			mem := vfs.NewMem()
			var want int
			for file, data := range files {
				write(t, mem, dir+"/t-0/"+file, data)
				want += len(data)
			}
			r := open(t, store.Config{FS: mem})
			got, err := readAll(r.log(0), 0, 1000)
			if err != nil || len(got) != want {
				t.Errorf("partition holds %d bytes, %v, want %d", len(got), err, want)
			}
			r.put(r.log(0), "more")
			check(t, r.Close())
			open(t, store.Config{FS: mem}) // nothing is in the way any more
			if n := len(names(t, mem, dir+"/t-0")); n != len(files) {
				t.Errorf("%d files, want %d: the empty ones under another name", n, len(files))
			}
		})
	}
}
