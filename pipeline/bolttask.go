package pipeline

import (
	"context"
	"fmt"
	"time"
)

// boltTask runs one bolt, or one function of Map: it takes batches from its queue, gives the bolt one tuple at a time and sends what it emitted.
type boltTask[T, U any] struct {
	run     *run
	node    *node
	in      *inlet[T]
	queue   <-chan *batch[T] // nil: has ended
	second  <-chan *batch[T] // the same
	bolt    Bolter[T, U]
	out     *outlet[U]
	letters *letters
	counts  *counters

	one  func(context.Context, T) (U, error) // instead of bolt, for Map
	emit func(U)
	at   int  // the tuple being processed
	user bool // the bolt is running

	flushed time.Time // when receive last flushed
	parked  parking[T]
	timer   *time.Timer // for parked tuples
}

func newBoltTask[T, U any](in *inlet[T], i int, b Bolter[T, U], out *outlet[U]) *boltTask[T, U] {
	r := out.run
	t := &boltTask[T, U]{
		run: r, node: in.node, in: in, bolt: b, out: out,
		letters: out.letters, counts: out.letters.counts,
		parked: parking[T]{ordered: r.top.cfg.Mode == Ordered},
	}
	t.queue, t.second = in.of(i)
	if f, ok := b.(mapper[T, U]); ok {
		t.one = f
	}
	t.emit = func(u U) {
		if !t.user { // it would count as made from another tuple
			panic("pipeline: emit called after Process returned")
		}
		out.put(u)
	}
	return t
}

func (t *boltTask[T, U]) loop() {
	defer t.letters.leave()
	defer t.out.close()
	for t.run.work.Err() == nil && t.step() {
	}
	if t.timer != nil {
		t.timer.Stop()
	}
}

// step does one batch or one parked tuple, or waits for the next; it returns false when there is nothing more to come.
func (t *boltTask[T, U]) step() bool {
	if l := t.parked.due(); l != nil {
		t.process(l.values, l.anchors, l.attempt)
		return true
	}
	queue, second := t.queue, t.second
	if t.parked.full() {
		queue, second = nil, nil
	}
	select {
	case b, ok := <-queue:
		t.receive(b, ok, &t.queue)
		return true
	default:
	}
	t.out.flush()
	t.counts.publish()
	if t.queue == nil && t.second == nil && t.parked.empty() {
		return false
	}
	select {
	case b, ok := <-queue:
		t.receive(b, ok, &t.queue)
	case b, ok := <-second:
		t.receive(b, ok, &t.second)
	case <-t.alarm():
	case <-t.run.work.Done():
	}
	return true
}

// alarm rings when the first parked tuple is due.
func (t *boltTask[T, U]) alarm() <-chan time.Time {
	if t.parked.empty() {
		return nil
	}
	wait := time.Until(t.parked.next())
	if t.timer == nil {
		t.timer = time.NewTimer(wait)
	} else {
		t.timer.Reset(wait)
	}
	return t.timer.C
}

// receive takes what came from a queue, which is set to nil at its end.
func (t *boltTask[T, U]) receive(b *batch[T], ok bool, queue *<-chan *batch[T]) {
	if !ok {
		*queue = nil
		return
	}
	t.counts.in.n += int64(b.n)
	t.counts.batches.n++
	start, blocked := time.Now(), t.out.blocked
	t.process(b.values[:b.n], b.anchors[:b.n], 1)
	now := time.Now()
	t.in.pace(b.n, now.Sub(start)-(t.out.blocked-blocked))
	t.in.pool.put(b)
	t.counts.publish()
	if now.Sub(t.flushed) >= paceTarget { // what was emitted must not wait for a long queue to run empty
		t.out.flush()
		t.flushed = now
	}
}

// process gives tuples to the bolt; attempt counts for the first.
func (t *boltTask[T, U]) process(values []T, anchors []anchor, attempt int) {
	parked := t.parked.size
	for t.at = 0; t.at < len(values); {
		t.span(values, anchors, attempt)
	}
	t.out.deliver()
	t.node.finished.Add(int64(len(values) - (t.parked.size - parked)))
}

// span processes from t.at on, until the bolt panics. So one recover serves many tuples.
func (t *boltTask[T, U]) span(values []T, anchors []anchor, first int) {
	attempt := func() int {
		if t.at == 0 {
			return first
		}
		return 1
	}
	defer func() {
		if !t.user {
			return
		}
		t.user = false
		if err := caught(recover()); err != nil {
			t.fail(values[t.at], anchors[t.at], attempt(), err)
			t.at++
		}
	}()
	ctx := t.run.work
	for ; t.at < len(values); t.at++ {
		v, a := values[t.at], anchors[t.at]
		if !t.parked.empty() && t.parked.behind(v, a) {
			continue
		}
		t.user = true
		var err error
		if t.one != nil {
			var u U
			if u, err = t.one(ctx, v); err == nil {
				t.out.put(u)
			}
		} else {
			err = t.bolt.Process(ctx, v, t.emit)
		}
		t.user = false
		if err != nil {
			t.fail(v, a, attempt(), err)
			continue
		}
		t.counts.out.n += int64(t.out.accept(a))
	}
}

// fail drops what the bolt emitted and parks the tuple for its next attempt, or gives it up.
func (t *boltTask[T, U]) fail(v T, a anchor, attempt int, err error) {
	t.out.drop()
	cfg := &t.run.top.cfg
	if attempt >= cfg.Attempts || isPermanent(err) {
		t.letters.reject(a, err, attempt, v)
		return
	}
	t.counts.retried.n++
	pause := cfg.pause(attempt)
	t.letters.report(a, err, attempt, pause)
	t.parked.park(v, a, attempt+1, time.Now().Add(pause))
}

func (t *boltTask[T, U]) close(context.Context) (err error) {
	c, ok := t.bolt.(interface{ Close() error })
	if !ok {
		return nil
	}
	defer func() {
		if err != nil {
			err = fmt.Errorf("close stage %q: %w", t.node.name, err)
		}
	}()
	defer catch(&err)
	return c.Close()
}
