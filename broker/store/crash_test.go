package store_test

import (
	"bytes"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/metaq-go/metaq/broker/store"
	"github.com/metaq-go/metaq/internal/vfs"
	"github.com/metaq-go/metaq/protocol"
)

// crasher puts a store through a random life on a disk that may lose power at any moment. Before each operation on the
// disk it looks at what would be found if the power failed, or the process was killed, just then.
type crasher struct {
	t     testing.TB
	rng   *rand.Rand // of the life
	seed  uint64
	looks atomic.Uint64
	mem   *vfs.Mem
	cfg   store.Config
	rig   *rig
	books map[int]*ledger
	safe  map[int][]run // must survive a power failure
	acked map[int][]run // must survive a kill
}

const crashPartitions = 3

func newCrasher(t testing.TB, seed uint64, relaxed bool) *crasher {
	c := &crasher{
		t: t, seed: seed, rng: rand.New(rand.NewPCG(seed, 1)), mem: vfs.NewMem(),
		books: make(map[int]*ledger), safe: make(map[int][]run), acked: make(map[int][]run),
	}
	c.cfg = store.Config{
		FS: c.mem, Dir: dir, Relaxed: relaxed, MaxPending: 16 << 10, Log: slog.New(slog.DiscardHandler),
		SegmentSize: []int64{1 << 10, 4 << 10, 64 << 10}[seed%3],
	}
	for p := range crashPartitions {
		c.books[p] = new(ledger)
	}
	return c
}

// live runs steps of the life.
func (c *crasher) live(steps int) {
	c.mem.Before(func(op vfs.Op) { c.look(op) })
	c.rig = open(c.t, c.cfg)
	for range steps {
		c.step()
		if c.t.Failed() {
			c.t.Fatalf("seed %d", c.seed)
		}
	}
	check(c.t, c.rig.Close())
	c.mem.Before(nil)
}

func (c *crasher) step() {
	switch c.rng.IntN(12) {
	case 0:
		check(c.t, c.rig.Close())
		c.sync()
		c.rig = open(c.t, c.cfg)
	case 1:
		c.rig.Flush()
		c.sync()
	default:
		var all []run
		for range 1 + c.rng.IntN(4) {
			p := c.rng.IntN(crashPartitions)
			l, err := c.rig.Create("t", p)
			check(c.t, err)
			data, n := c.records()
			a, err := appendRecords(l, data, n)
			check(c.t, err)
			c.books[p].add(a)
			all = append(all, a)
		}
		c.rig.Commit()
		for _, a := range all {
			check(c.t, a.err(c.t))
		}
		if !c.cfg.Relaxed {
			c.sync()
		}
	}
	for p, b := range c.books {
		c.acked[p] = b.acked()
	}
}

// sync notes that all that is committed is on disk.
func (c *crasher) sync() {
	for p, b := range c.books {
		c.safe[p] = b.acked()
	}
}

// records draws some records: most are small, some have no body, some are bigger than a segment.
func (c *crasher) records() (data []byte, n int) {
	n = 1 + c.rng.IntN(6)
	for range n {
		size := []int{0, 1 + c.rng.IntN(100), c.rng.IntN(1500), c.rng.IntN(5000)}[c.rng.IntN(4)]
		body := make([]byte, size)
		for i := range body {
			body[i] = byte(1 + c.rng.IntN(255)) // no zeros: see the package comment on holes
		}
		flag := int32(0)
		if size >= 4 && c.rng.IntN(4) == 0 {
			copy(body, "\x00\x00\x00\x00")
			flag = protocol.FlagAttr
		}
		data = protocol.AppendRecord(data, 0, flag, body)
	}
	return data, n
}

// draw returns a source of chance of its own: looks may happen at once.
func (c *crasher) draw() *rand.Rand { return rand.New(rand.NewPCG(c.seed, 1000+c.looks.Add(1))) }

func (c *crasher) look(op vfs.Op) {
	at := fmt.Sprintf("%s %s %d+%d", op.Kind, op.Name, op.Off, op.Len)
	for range 2 {
		c.verify(at+", power failure", c.mem.Crash(c.draw()), c.safe, 1)
	}
	if c.draw().IntN(4) == 0 {
		c.verify(at+", kill", c.mem.Kill(), c.acked, 1)
	}
}

// verify starts a store on what a crash left, where everything in must has to be. depth is how many times starting it may
// be interrupted by further crashes.
func (c *crasher) verify(at string, mem *vfs.Mem, must map[int][]run, depth int) {
	if depth > 0 {
		mem.Before(func(op vfs.Op) {
			if rng := c.draw(); rng.IntN(6) == 0 {
				c.verify(fmt.Sprintf("%s, power failure at start before %s %s", at, op.Kind, op.Name), mem.Crash(rng), c.safe, depth-1)
			}
		})
	}
	cfg := c.cfg
	cfg.FS = mem
	s, err := store.Open(cfg)
	if err != nil {
		c.t.Errorf("%s: the store does not open: %v", at, err)
		return
	}
	defer s.Close()
	mem.Before(nil)
	shown := c.content(at, s, must)
	c.stays(at+", power failure after start", mem.Crash(c.draw()), shown)
	c.goesOn(at, s, shown)
}

// content checks what the store serves and returns it.
func (c *crasher) content(at string, s *store.Store, must map[int][]run) map[int][]byte {
	shown := make(map[int][]byte)
	for p, b := range c.books {
		l := s.Log([]byte("t"), p)
		if l == nil {
			if len(must[p]) > 0 {
				c.t.Errorf("%s: partition %d is missing", at, p)
			}
			continue
		}
		var err error
		if shown[p], err = b.verify(l, must[p]); err != nil {
			c.t.Errorf("%s: partition %d: %v", at, p, err)
		}
	}
	return shown
}

// stays checks that what was shown to readers is still there.
func (c *crasher) stays(at string, mem *vfs.Mem, shown map[int][]byte) {
	cfg := c.cfg
	cfg.FS = mem
	s, err := store.Open(cfg)
	if err != nil {
		c.t.Errorf("%s: the store does not open: %v", at, err)
		return
	}
	defer s.Close()
	for p, data := range c.content(at, s, nil) {
		if !bytes.Equal(data, shown[p]) {
			c.t.Errorf("%s: partition %d has %d bytes, %d were shown", at, p, len(data), len(shown[p]))
		}
		delete(shown, p)
	}
	for p, data := range shown {
		if len(data) > 0 {
			c.t.Errorf("%s: partition %d is missing", at, p)
		}
	}
}

// goesOn checks that a store takes new appends, with ids above all that it serves.
func (c *crasher) goesOn(at string, s *store.Store, shown map[int][]byte) {
	h, above := store.ByHand(s), int64(0)
	for _, data := range shown {
		above = max(above, lastID(data))
	}
	for p := range crashPartitions {
		l, err := s.Create("t", p)
		if err != nil {
			c.t.Errorf("%s: create: %v", at, err)
			return
		}
		end := l.End()
		a, err := appendTo(l, "new", strings.Repeat("N", 700))
		if err != nil {
			c.t.Errorf("%s: append: %v", at, err)
			return
		}
		h.Commit()
		if err := a.err(c.t); err != nil || a.Offset != end || a.ID <= above {
			c.t.Errorf("%s: append at %d with id %d: %v; want it at %d with an id above %d", at, a.Offset, a.ID, err, end, above)
		}
		if got, err := readAll(l, end, 100); err != nil || !bytes.Equal(got, a.data) {
			c.t.Errorf("%s: new records read back: %v\n%s", at, err, brief(got))
		}
	}
}

// TestPowerFailure: whatever a power failure or a kill leaves of the disk, at any moment of the life of a store and of its
// recovery, everything committed is there, once and in order, nothing torn is served, and the store goes on. C17 of the
// known cases: a crash between any two file operations of a roll never blocks the start.
func TestPowerFailure(t *testing.T) {
	for _, relaxed := range []bool{false, true} {
		for seed := range uint64(6) {
			t.Run(fmt.Sprintf("relaxed=%t/seed=%d", relaxed, seed), func(t *testing.T) {
				c := newCrasher(t, seed, relaxed)
				c.live(crashSteps(t))
				t.Logf("looked %d times", c.looks.Load())
			})
		}
	}
}

func crashSteps(testing.TB) int { return 40 }
