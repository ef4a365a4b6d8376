package pipeline

import (
	"context"
	"errors"
	"fmt"
	"io"
)

// spoutTask runs one spout: it asks for tuples as long as the window has room, decodes them and sends them on.
type spoutTask[M, T any] struct {
	run     *run
	node    *node
	spout   Spout[M]
	decode  func(M) (T, error)
	out     *outlet[T]
	ring    *ring
	letters *letters
	counts  *counters

	dst   []Tuple[M]
	at    int    // the tuple of dst being decoded
	user  bool   // decode is running
	order bool   // Ordered mode
	part  string // the last partition seen and its hash
	hash  uint32
}

func newSpoutTask[M, T any](s Spout[M], decode func(M) (T, error), out *outlet[T]) *spoutTask[M, T] {
	r, n := out.run, out.letters.node
	t := &spoutTask[M, T]{
		run: r, node: n, spout: s, decode: decode, out: out, ring: r.newRing(), letters: out.letters, counts: out.letters.counts,
		dst: make([]Tuple[M], spoutBatch), order: r.top.cfg.Mode == Ordered, hash: hashString(""),
	}
	n.addRing(t.ring)
	return t
}

func (t *spoutTask[M, T]) loop() {
	defer t.letters.leave()
	defer t.out.close()
	empty := 0
	for t.run.stop.Err() == nil {
		free := t.ring.free()
		if free == 0 {
			t.run.starve()
			t.ring.wait(t.run.stop)
			t.run.fed()
			continue
		}
		n, err := t.next(t.dst[:min(free, len(t.dst))])
		t.ingest(t.dst[:n])
		t.out.flush()
		t.counts.publish()
		if empty++; n > 0 {
			empty = 0
		}
		if err == nil && empty == maxEmptyReads {
			err = io.ErrNoProgress
		}
		if err != nil {
			t.end(err)
			return
		}
	}
}

// maxEmptyReads is how often Next may return neither a tuple nor an error, which it should never do, before the run ends.
const maxEmptyReads = 100

func (t *spoutTask[M, T]) next(dst []Tuple[M]) (n int, err error) {
	defer catch(&err)
	n, err = t.spout.Next(t.run.stop, dst)
	if n < 0 || n > len(dst) {
		return 0, fmt.Errorf("%d tuples returned by Next for %d places", n, len(dst))
	}
	return n, err
}

func (t *spoutTask[M, T]) end(err error) {
	stopped := t.run.stop.Err() != nil && (errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded))
	if err == io.EOF || stopped { //nolint:errorlint // as with io.Reader, an io.EOF inside another error is a failure
		return
	}
	t.run.giveUp(fmt.Errorf("source %q: %w", t.node.name, err))
}

func (t *spoutTask[M, T]) ingest(in []Tuple[M]) {
	t.counts.in.n += int64(len(in))
	t.counts.out.n += int64(len(in))
	first := enter(t.ring, in)
	for t.at = 0; t.at < len(in); {
		t.span(in, first)
	}
	t.out.deliver()
	clear(in)
}

// span decodes from t.at on, until a decode panics. So one recover serves many tuples. in[i] is number first+i of the ring.
func (t *spoutTask[M, T]) span(in []Tuple[M], first uint64) {
	values, anchors := t.out.room(len(in) - t.at)
	n := 0
	defer func() {
		t.out.acceptEach(n)
		if !t.user {
			return
		}
		t.user = false
		if err := caught(recover()); err != nil {
			t.refuse(in[t.at], t.anchor(first), err)
			t.at++
		}
	}()
	for ; t.at < len(in); t.at++ {
		m := &in[t.at]
		a := t.anchor(first)
		if t.order {
			a = a.withKey(t.orderKey(m.Origin.Partition))
		}
		t.user = true
		v, err := t.decode(m.Value)
		t.user = false
		if err != nil {
			t.refuse(*m, a, err)
			continue
		}
		values[n], anchors[n] = v, a
		n++
	}
}

func (t *spoutTask[M, T]) anchor(first uint64) anchor {
	return newAnchor(t.ring.id, t.ring.index(first+uint64(t.at)))
}

func (t *spoutTask[M, T]) refuse(m Tuple[M], a anchor, err error) {
	t.counts.out.n--
	t.letters.reject(a, fmt.Errorf("decode: %w", err), 1, m.Value)
}

func (t *spoutTask[M, T]) orderKey(partition string) uint32 {
	if partition != t.part {
		t.part, t.hash = partition, hashString(partition)
	}
	return t.hash
}

// close answers what is not done, which is nothing after a clean run, and closes the spout. All tasks have ended.
func (t *spoutTask[M, T]) close(ctx context.Context) (err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("close source %q: %w", t.node.name, err)
		}
	}()
	defer catch(&err)
	return t.spout.Close(ctx)
}
