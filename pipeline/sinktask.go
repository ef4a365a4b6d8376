package pipeline

import (
	"context"
	"fmt"
	"time"
)

// sinkTask runs one sink: it collects tuples into batches, has them written, and gives back their tokens.
type sinkTask[T any] struct {
	run     *run
	node    *node
	queue   <-chan *batch[T] // nil: has ended
	second  <-chan *batch[T] // the same
	in      *inlet[T]
	sink    Sink[T]
	when    batching
	size    func(*T) int // nil: bytes don't count
	letters *letters
	counts  *counters

	batch   []T
	anchors []anchor // of batch
	bytes   int
	due     *time.Timer   // runs while a batch is open, if when.every is set
	poke    chan struct{} // a source has run out of room
}

// newSinkTask always returns a task, so that the sink will be closed.
func newSinkTask[T any](r *run, in *inlet[T], i int, sink Sink[T], when batching) (*sinkTask[T], error) {
	l := newLetters(r, in.node)
	t := &sinkTask[T]{
		run: r, node: in.node, in: in, sink: sink, when: when,
		letters: l, counts: l.counts, poke: make(chan struct{}, 1),
	}
	t.queue, t.second = in.of(i)
	in.limit.Store(maxBatch) // a sink makes batches of its own
	if when.count == 0 {
		t.when.count = defaultBatch
	}
	if when.bytes > 0 {
		if t.size = sizer(sink); t.size == nil {
			return t, unmeasured[T]()
		}
	}
	if when.every > 0 {
		t.due = time.NewTimer(when.every)
		t.due.Stop()
	}
	if when.wait {
		r.pokes = append(r.pokes, t.poke)
	}
	return t, nil
}

func (t *sinkTask[T]) loop() {
	defer t.letters.leave()
	for t.run.work.Err() == nil && (t.queue != nil || t.second != nil) {
		t.step()
	}
	if t.run.work.Err() == nil {
		t.flush()
	}
	if t.due != nil {
		t.due.Stop()
	}
	t.counts.publish()
}

// step takes one batch from a queue, or waits for it and for all that may have to be done before it comes.
func (t *sinkTask[T]) step() {
	var due <-chan time.Time
	if t.due != nil && len(t.batch) > 0 {
		due = t.due.C
	}
	select {
	case b, ok := <-t.queue:
		t.receive(b, ok, &t.queue)
		return
	case <-due:
		t.flush()
		return
	default:
	}
	if !t.when.wait {
		t.flush()
	}
	t.counts.publish()
	idle := t.idle()
	if idle != nil {
		defer idle.Stop()
	}
	select {
	case b, ok := <-t.queue:
		t.receive(b, ok, &t.queue)
	case b, ok := <-t.second:
		t.receive(b, ok, &t.second)
	case <-due:
		t.flush()
	case <-timerC(idle):
		t.flush()
	case <-t.poke:
	case <-t.run.work.Done():
	}
}

// receive takes what came from a queue, which is set to nil at its end.
func (t *sinkTask[T]) receive(b *batch[T], ok bool, queue *<-chan *batch[T]) {
	if !ok {
		*queue = nil
		return
	}
	t.take(b)
}

// starveGrace is how long nothing must arrive before a batch is written early because a source waits for room.
const starveGrace = 5 * time.Millisecond

// idle is the timer after which an open batch is to be written, full or not, because it may be what a source waits
// for: otherwise a batch by count that needs more source tuples than MaxPending would wait for ever.
func (t *sinkTask[T]) idle() *time.Timer {
	if !t.when.wait || len(t.batch) == 0 || t.run.starved.Load() == 0 {
		return nil
	}
	return time.NewTimer(starveGrace)
}

func timerC(t *time.Timer) <-chan time.Time {
	if t == nil {
		return nil
	}
	return t.C
}

func (t *sinkTask[T]) take(b *batch[T]) {
	t.counts.in.n += int64(b.n)
	for i := 0; i < b.n; {
		if len(t.batch) == 0 && t.due != nil {
			t.due.Reset(t.when.every)
		}
		n := min(b.n-i, t.when.count-len(t.batch))
		if t.size != nil {
			n = t.measure(b.values[i : i+n])
		}
		t.batch = append(t.batch, b.values[i:i+n]...)
		t.anchors = append(t.anchors, b.anchors[i:i+n]...)
		i += n
		if len(t.batch) == t.when.count || t.size != nil && t.bytes >= t.when.bytes {
			t.flush()
		}
	}
	t.in.pool.put(b)
	t.counts.publish()
}

// measure returns how many of the values the open batch takes until it has enough bytes, and counts them.
func (t *sinkTask[T]) measure(values []T) int {
	for i := range values {
		t.bytes += t.size(&values[i])
		if t.bytes >= t.when.bytes {
			return i + 1
		}
	}
	return len(values)
}

// flush writes the open batch.
func (t *sinkTask[T]) flush() {
	if len(t.batch) == 0 {
		return
	}
	if t.due != nil {
		t.due.Stop()
	}
	t.store(t.batch, t.anchors)
	t.node.finished.Add(int64(len(t.batch)))
	clear(t.batch)
	t.batch, t.anchors, t.bytes = t.batch[:0], t.anchors[:0], 0
}

// store writes a batch until it is stored, or given up tuple by tuple, or the run is. Order is kept: nothing is written
// before what came before it is stored or given up.
func (t *sinkTask[T]) store(batch []T, anchors []anchor) {
	for attempt := 1; t.run.work.Err() == nil; attempt++ {
		err := t.write(batch)
		if err == nil {
			t.counts.out.n += int64(len(batch))
			t.counts.batches.n++
			t.release(anchors)
			return
		}
		if t.run.work.Err() != nil {
			return
		}
		if isPermanent(err) {
			t.halve(batch, anchors, err, attempt)
			return
		}
		t.counts.retried.n++
		t.counts.publish()
		pause := t.run.top.cfg.pause(attempt)
		t.letters.report(anchors[0], err, attempt, pause)
		t.run.sleep(pause)
	}
}

func (t *sinkTask[T]) halve(batch []T, anchors []anchor, err error, attempt int) {
	if len(batch) == 1 {
		t.letters.reject(anchors[0], err, attempt, batch[0])
		return
	}
	half := len(batch) / 2
	t.store(batch[:half], anchors[:half])
	t.store(batch[half:], anchors[half:])
}

// write has the sink store a batch. A panic won't go away by waiting, so it counts as permanent.
func (t *sinkTask[T]) write(batch []T) (err error) {
	defer func() {
		if p := caught(recover()); p != nil {
			err = Permanent(p)
		}
	}()
	return t.sink.Write(t.run.work, batch[:len(batch):len(batch)])
}

func (t *sinkTask[T]) release(anchors []anchor) {
	rings := t.run.rings
	for _, a := range anchors {
		rings[a.ring()].release(a.slot(), 1)
	}
}

func (t *sinkTask[T]) close(ctx context.Context) (err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("close sink %q: %w", t.node.name, err)
		}
	}()
	defer catch(&err)
	return t.sink.Close(ctx)
}
