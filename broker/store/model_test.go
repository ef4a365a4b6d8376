package store_test

import (
	"bytes"
	"errors"
	"log/slog"
	"math"
	"math/rand/v2"
	"syscall"
	"testing"

	"pgregory.net/rapid"

	"github.com/metaq-go/metaq/broker/store"
	"github.com/metaq-go/metaq/internal/vfs"
	"github.com/metaq-go/metaq/internal/vfs/faultfs"
	"github.com/metaq-go/metaq/protocol"
)

// model is a partition in the plainest form: its bytes, and where its segments begin.
type model struct {
	data    []byte
	borders []int64
	size    int64
}

func (m *model) append(records []byte) {
	for pos, r := range protocol.Records(records) {
		m.data = append(m.data, records[pos:pos+r.Size()]...)
		if end := int64(len(m.data)); end-m.borders[len(m.borders)-1] >= m.size {
			m.borders = append(m.borders, end)
		}
	}
}

// segment returns where the segment of an offset begins and ends.
func (m *model) segment(offset int64) (start, end int64) {
	end = int64(len(m.data))
	for _, b := range m.borders {
		if b > offset {
			return start, b
		}
		start = b
	}
	return start, end
}

// machine is a store beside its model.
type machine struct {
	t     *rapid.T
	cfg   store.Config
	mem   *vfs.Mem
	disk  *faultfs.FS
	store *store.Store
	hand  *store.Hand
	model *model
	open  []run // appended and not committed
	next  int64 // offset
	id    int64
	seed  uint64
}

func (m *machine) start() {
	m.disk = faultfs.New(m.mem)
	m.cfg.FS = m.disk
	s, err := store.Open(m.cfg)
	if err != nil {
		m.t.Fatal(err)
	}
	m.store, m.hand = s, store.ByHand(s)
	m.open, m.id = nil, lastID(m.model.data) // ids of what was never stored may come again
}

func (m *machine) log() *store.Log {
	l, err := m.store.Create("t", 0)
	if err != nil {
		m.t.Fatal(err)
	}
	return l
}

func (m *machine) appendRun(t *rapid.T) {
	var data []byte
	sizes := rapid.SliceOfN(rapid.OneOf(rapid.IntRange(0, 60), rapid.IntRange(0, 3*int(m.model.size))), 1, 8).Draw(t, "sizes")
	for i, size := range sizes {
		data = protocol.AppendMessage(data, 0, nil, bytes.Repeat([]byte{byte(len(m.model.data) + i)}, size))
	}
	a, err := appendRecords(m.log(), data, len(sizes))
	if err != nil {
		t.Fatal(err)
	}
	if a.Offset != m.next || a.ID <= m.id {
		t.Fatalf("append is at %d with id %d, want %d and above %d", a.Offset, a.ID, m.next, m.id)
	}
	m.next, m.id = a.end(), protocol.IDAfter(a.ID, a.n-1)
	m.open = append(m.open, a)
}

func (m *machine) commit(t *rapid.T) {
	m.hand.Commit()
	for _, a := range m.open {
		if done, err := a.Commit.Done(); !done || err != nil {
			t.Fatalf("round: done %t, %v", done, err)
		}
		m.model.append(a.data)
	}
	m.open = nil
}

// failedCommit is a round in which the n-th write fails.
func (m *machine) failedCommit(t *rapid.T) {
	if len(m.open) == 0 {
		t.Skip("nothing is appended")
	}
	fault := m.disk.Add(faultfs.Rule{
		Op: vfs.OpWrite, Times: 1, Err: syscall.ENOSPC,
		After: rapid.IntRange(0, 3).Draw(t, "write"), Partial: rapid.IntRange(0, 100).Draw(t, "partial"),
	})
	m.hand.Commit()
	fault.Remove()
	for _, a := range m.open {
		if done, err := a.Commit.Done(); !done || (err != nil) != (fault.Acted() > 0) {
			t.Fatalf("round: done %t, %v; %d writes failed", done, err, fault.Acted())
		}
		if fault.Acted() == 0 {
			m.model.append(a.data)
		}
	}
	m.open, m.next = nil, int64(len(m.model.data))
}

func (m *machine) read(t *rapid.T) {
	l, end := m.log(), int64(len(m.model.data))
	offset := rapid.OneOf(rapid.Int64Range(-1, end+1), rapid.SampledFrom(m.model.borders), rapid.Just(end), rapid.Just(int64(math.MaxInt64))).Draw(t, "offset")
	limit := rapid.IntRange(1, 5000).Draw(t, "limit")
	start, border := m.model.segment(offset)
	chunk, err := l.Locate(offset, limit)
	var want error
	switch {
	case offset < 0:
		want, start = store.ErrBelow, 0
	case offset > end:
		want, start = store.ErrAbove, end
	case offset == end:
		want, start = store.ErrAtEnd, end
	}
	if !errors.Is(err, want) {
		t.Fatalf("Locate(%d, %d) of %d: got error %v, want %v", offset, limit, end, err, want)
	}
	if got := l.Nearest(offset); got != start {
		t.Fatalf("Nearest(%d) of %d: got %d, want %d", offset, end, got, start)
	}
	if err != nil {
		return
	}
	got, err := chunk.AppendTo(nil)
	if want := m.model.data[offset:min(offset+int64(limit), border)]; err != nil || !bytes.Equal(got, want) {
		t.Fatalf("at %d: got %d bytes, %v, want %d", offset, len(got), err, len(want))
	}
}

func (m *machine) reopen(t *rapid.T) {
	if err := m.store.Close(); err != nil {
		t.Fatal(err)
	}
	m.next = int64(len(m.model.data))
	m.start()
}

// kill goes on with what a killed process leaves: what was written and not acknowledged is not there, since rounds are
// carried out here while nobody kills.
func (m *machine) kill(*rapid.T) {
	mem := m.mem.Kill()
	m.store.Close()
	m.mem, m.next = mem, int64(len(m.model.data))
	m.start()
}

// crash goes on with what a power failure in the middle of a round leaves: of that round, some records from the first on.
func (m *machine) crash(t *rapid.T) {
	m.seed++
	rng := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), m.seed))
	after := rapid.IntRange(0, 8).Draw(t, "operation")
	crashed := m.mem
	m.mem.Before(func(vfs.Op) {
		if after--; after == 0 {
			crashed = m.mem.Crash(rng)
		}
	})
	m.hand.Commit()
	m.mem.Before(nil)
	if crashed == m.mem {
		crashed = m.mem.Crash(rng)
	}
	all := bytes.Clone(m.model.data)
	for _, a := range m.open {
		all = append(all, a.data...)
	}
	m.store.Close()
	m.mem = crashed
	m.start()
	l := m.log()
	got, err := readAll(l, 0, math.MaxInt)
	if err != nil || len(got) < len(m.model.data) || !bytes.HasPrefix(all, got) {
		t.Fatalf("%d bytes after a power failure, %v, %d were committed", len(got), err, len(m.model.data))
	}
	m.model.append(all[len(m.model.data):l.End()])
	m.next = l.End()
	m.lateRoll()
}

// lateRoll lets the model forget its last border if the crash came between the write and the roll: that is made up for
// behind the next append (storage.md 6).
func (m *machine) lateRoll() {
	last := m.model.borders[len(m.model.borders)-1]
	if last > 0 && last == m.next && !exists(m.mem, segment(last)) {
		m.model.borders = m.model.borders[:len(m.model.borders)-1]
	}
}

// check compares everything.
func (m *machine) check(t *rapid.T) {
	l := m.log()
	got, err := readAll(l, 0, math.MaxInt)
	if err != nil || !bytes.Equal(got, m.model.data) || l.End() != int64(len(got)) || l.Start() != 0 || l.Err() != nil {
		t.Fatalf("partition is %d…%d, %d bytes, %v, %v; want %d bytes", l.Start(), l.End(), len(got), err, l.Err(), len(m.model.data))
	}
}

// TestModel compares a store with a plain model of it over random histories of appends, failures, reads, restarts and
// crashes.
func TestModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		size := rapid.SampledFrom([]int64{20, 100, 1000, 100_000}).Draw(t, "segment size")
		m := &machine{
			t: t, mem: vfs.NewMem(), model: &model{borders: []int64{0}, size: size},
			cfg: store.Config{Dir: dir, SegmentSize: size, Log: slog.New(slog.DiscardHandler)},
		}
		m.start()
		t.Repeat(map[string]func(*rapid.T){
			"append": m.appendRun, "append again": m.appendRun, "commit": m.commit, "failed commit": m.failedCommit,
			"read": m.read, "read again": m.read, "reopen": m.reopen, "kill": m.kill, "crash": m.crash, "": m.check,
		})
		if err := m.store.Close(); err != nil {
			t.Error(err)
		}
	})
}
