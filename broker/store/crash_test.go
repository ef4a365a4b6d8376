package store_test

import (
	"bytes"
	"fmt"
	"hash/fnv"
	"log/slog"
	"math/rand/v2"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/metaq-go/metaq/broker/store"
	"github.com/metaq-go/metaq/internal/vfs"
	"github.com/metaq-go/metaq/protocol"
)

// crasher puts a store through a random life on a disk that may lose power at any moment. Before each operation on the
// disk it looks at what would be found if the power failed, or the process was killed, just then.
type crasher struct {
	t      testing.TB
	rng    *rand.Rand // of the life
	seed   uint64
	steps  int
	starts atomic.Int64
	fails  atomic.Int64
	mem    *vfs.Mem
	cfg    store.Config
	rig    *rig
	books  map[int]*ledger
	safe   map[int][]run // must survive a power failure
	acked  map[int][]run // must survive a kill
}

const crashPartitions = 3

func newCrasher(t testing.TB, seed uint64, relaxed bool) *crasher {
	c := &crasher{
		t: t, seed: seed, rng: rand.New(rand.NewPCG(seed, 1)), mem: vfs.NewMem(),
		books: make(map[int]*ledger), safe: make(map[int][]run), acked: make(map[int][]run),
	}
	c.cfg = store.Config{
		FS: c.mem, Dir: dir, Relaxed: relaxed, Log: slog.New(slog.DiscardHandler),
		SegmentSize: []int64{2 << 10, 8 << 10, 64 << 10}[seed%3],
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
	for c.steps = range steps {
		c.step()
		if c.t.Failed() {
			c.t.Fatalf("seed %d", c.seed)
		}
	}
	check(c.t, c.rig.Close())
	c.mem.Before(nil)
}

func (c *crasher) step() {
	time.Sleep(time.Duration(c.rng.IntN(5)) * time.Millisecond)
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

// records draws some records: most are small, some have no body, some are bigger than a segment, some hold zeros or
// older records.
func (c *crasher) records() (data []byte, n int) {
	n = 1 + c.rng.IntN(6)
	for range n {
		body := make([]byte, []int{0, 1 + c.rng.IntN(100), c.rng.IntN(1500), c.rng.IntN(5000)}[c.rng.IntN(4)])
		switch c.rng.IntN(8) {
		case 0: // zeros
		case 1:
			for _, a := range c.books[c.rng.IntN(crashPartitions)].runs {
				if len(body) < 2000 {
					body = append(body, a.data...)
				}
			}
		default:
			for i := range body {
				body[i] = byte(c.rng.Uint32())
			}
		}
		data = protocol.AppendRecord(data, 0, 0, body)
	}
	return data, n
}

// draw returns a source of chance that depends only on the seed and on what happens: looks may happen at once.
func (c *crasher) draw(what string) *rand.Rand {
	h := fnv.New64a()
	h.Write([]byte(what))
	return rand.New(rand.NewPCG(c.seed, h.Sum64()))
}

func (c *crasher) look(op vfs.Op) {
	at := fmt.Sprintf("step %d, %s %s %d+%d", c.steps, op.Kind, op.Name, op.Off, op.Len)
	for i := range 2 {
		what := fmt.Sprintf("%s, power failure %d", at, i)
		c.verify(what, c.mem.Crash(c.draw(what)), c.safe, 1)
	}
	if c.draw(at+"?").IntN(4) == 0 {
		c.verify(at+", kill", c.mem.Kill(), c.acked, 1)
	}
}

// fail reports what is wrong, but not a hundred times.
func (c *crasher) fail(format string, args ...any) {
	if c.fails.Add(1) <= 4 {
		c.t.Errorf(format, args...)
	}
}

// verify starts a store on what a crash left, where everything in must has to be. depth is how many times starting it may
// be interrupted by further crashes.
func (c *crasher) verify(at string, mem *vfs.Mem, must map[int][]run, depth int) {
	if depth > 0 {
		mem.Before(func(op vfs.Op) {
			what := fmt.Sprintf("%s, power failure at start before %s %s %d", at, op.Kind, op.Name, op.Off)
			if rng := c.draw(what); rng.IntN(6) == 0 {
				c.verify(what, mem.Crash(rng), c.safe, depth-1)
			}
		})
	}
	c.starts.Add(1)
	cfg := c.cfg
	cfg.FS = mem
	s, err := store.Open(cfg)
	if err != nil {
		c.fail("%s: the store does not open: %v", at, err)
		return
	}
	defer s.Close()
	mem.Before(nil)
	shown := c.content(at, s, must)
	after := at + ", power failure after start"
	c.stays(after, mem.Crash(c.draw(after)), shown)
	c.goesOn(at, s, shown)
}

// content checks what the store serves and returns it.
func (c *crasher) content(at string, s *store.Store, must map[int][]run) map[int][]byte {
	shown := make(map[int][]byte)
	for p, b := range c.books {
		l := s.Log([]byte("t"), p)
		if l == nil {
			if len(must[p]) > 0 {
				c.fail("%s: partition %d is missing", at, p)
			}
			continue
		}
		var err error
		if shown[p], err = b.verify(l, must[p]); err != nil {
			c.fail("%s: partition %d: %v", at, p, err)
		}
	}
	return shown
}

// stays checks that what was shown to readers is still there.
func (c *crasher) stays(at string, mem *vfs.Mem, shown map[int][]byte) {
	c.starts.Add(1)
	cfg := c.cfg
	cfg.FS = mem
	s, err := store.Open(cfg)
	if err != nil {
		c.fail("%s: the store does not open: %v", at, err)
		return
	}
	defer s.Close()
	for p, data := range c.content(at, s, nil) {
		if !bytes.Equal(data, shown[p]) {
			c.fail("%s: partition %d has %d bytes, %d were shown", at, p, len(data), len(shown[p]))
		}
		delete(shown, p)
	}
	for p, data := range shown {
		if len(data) > 0 {
			c.fail("%s: partition %d is missing", at, p)
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
			c.fail("%s: create: %v", at, err)
			return
		}
		end := l.End()
		a, err := appendTo(l, "new", strings.Repeat("N", 700))
		if err != nil {
			c.fail("%s: append: %v", at, err)
			return
		}
		h.Commit()
		if err := a.err(c.t); err != nil || a.Offset != end || a.ID <= above {
			c.fail("%s: append at %d with id %d: %v; want it at %d with an id above %d", at, a.Offset, a.ID, err, end, above)
		}
		if got, err := readAll(l, end, 100); err != nil || !bytes.Equal(got, a.data) {
			c.fail("%s: new records read back: %v\n%s", at, err, brief(got))
		}
	}
}

// TestPowerFailure: whatever a power failure or a kill leaves of the disk, at any moment of the life of a store and of its
// recovery, everything committed is there, once and in order, nothing torn is served, and the store goes on. C17 of the
// known cases: a crash between any two file operations of a roll never blocks the start.
func TestPowerFailure(t *testing.T) {
	for seed := range uint64(12 * rounds(t)) {
		relaxed := seed%4 == 3
		t.Run(fmt.Sprintf("seed=%d/relaxed=%t", seed, relaxed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				time.Sleep(40 * 365 * 24 * time.Hour) // from the year 2000 to one in which ids can be made
				c := newCrasher(t, seed, relaxed)
				c.live(9)
				t.Logf("%d starts", c.starts.Load())
			})
		})
	}
}
