package pipeline

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"
)

// run is one run of a topology: its tasks and how they are stopped.
type run struct {
	top *Topology

	// stop ends when the spouts must: the caller's ctx ended, a source failed, or work ended. What is in flight goes on.
	stop context.Context
	halt context.CancelFunc
	// work ends when everything must: the drain deadline passed or a tuple failed for good. What is in flight is left undone.
	work    context.Context
	endWork context.CancelCauseFunc

	rings  []*ring         // by anchor.ring
	spouts []task          // closed when all tasks are
	tasks  []task          // closed when their loop ends
	pokes  []chan struct{} // of sinks that hold batches back

	starved atomic.Int32 // spout tasks that wait for room

	mu    sync.Mutex
	errs  []error
	drain time.Time // the deadline; zero before stop
}

// task is one goroutine of a stage: loop until the input ends, then close.
type task interface {
	loop()
	close(ctx context.Context) error
}

var (
	errDrain = errors.New("not done before the drain deadline")
	errLeft  = errors.New("not done when the topology ended")
)

// Run opens all sources, bolts and sinks and runs until all sources are finished and everything is done, or until ctx
// ends. Then it stops in this order: the spouts are not asked any more; what is in flight goes its way, through retries
// too; sinks write their last batch and are closed; the acknowledgements are with the spouts; the spouts are closed.
//
// It returns nil after either end. Otherwise the error names what happened: a source that can't be opened or failed, a tuple given
// up without Config.DeadLetters (stage and origin are named; nothing more is written, and nothing that is not stored is
// acknowledged), an error of a Close, or tuples still not done Config.DrainTimeout after ctx ended; those come again.
//
// All goroutines have ended when Run returns, so a bolt or sink that ignores its ctx holds it up. Run can be called once.
func (t *Topology) Run(ctx context.Context) error {
	if err := t.Build(); err != nil {
		return err
	}
	if !t.started.CompareAndSwap(false, true) {
		return fmt.Errorf("topology %q: Run was called before; make a new topology", t.name)
	}
	r := &run{top: t}
	r.work, r.endWork = context.WithCancelCause(context.WithoutCancel(ctx))
	r.stop, r.halt = context.WithCancel(ctx)
	defer r.kill(nil)

	if err := r.open(); err != nil {
		r.note(err)
		r.kill(err)
		for _, t := range r.tasks {
			r.end(t)
		}
	} else {
		r.loop()
	}
	r.settle()
	if err := errors.Join(r.errs...); err != nil {
		return fmt.Errorf("topology %q: %w", t.name, err)
	}
	return nil
}

// open makes the queues of all stages, then their tasks.
func (r *run) open() error {
	nodes := r.top.all()
	for _, n := range nodes {
		n.layout(r)
	}
	for _, n := range nodes {
		if err := n.open(r); err != nil {
			return err
		}
	}
	if in := r.top.letters; in != nil {
		in.senders.Add(int64(len(r.spouts) + len(r.tasks) - 1)) // all tasks but its own
	}
	return nil
}

// loop starts the tasks and waits for them.
func (r *run) loop() {
	var wg sync.WaitGroup
	for _, t := range r.tasks {
		wg.Go(func() {
			defer r.end(t)
			r.loopOf(t)
		})
	}
	for _, s := range r.spouts {
		wg.Go(func() { r.loopOf(s) })
	}
	ended := make(chan struct{})
	var watch sync.WaitGroup
	watch.Go(func() { r.watch(ended) })
	wg.Wait()
	close(ended)
	watch.Wait()
}

var errGoexit = errors.New("a task's goroutine was ended from inside, by runtime.Goexit or t.FailNow")

// loopOf runs a task. If user code ends the goroutine nobody takes what others send it, so the run is given up.
func (r *run) loopOf(t task) {
	returned := false
	defer func() {
		if !returned {
			r.fail(errGoexit)
		}
	}()
	t.loop()
	returned = true
}

// end closes a task that has ended, or a spout when all tasks have.
func (r *run) end(t task) {
	ctx, cancel := r.closing()
	defer cancel()
	r.note(t.close(ctx))
}

// watch sets the deadline when the spouts were stopped, and gives up what is in flight when it has passed.
func (r *run) watch(ended <-chan struct{}) {
	select {
	case <-r.stop.Done():
	case <-ended:
		return
	}
	limit := r.top.cfg.DrainTimeout
	r.mu.Lock()
	r.drain = time.Now().Add(limit)
	r.mu.Unlock()
	timer := time.NewTimer(limit)
	defer timer.Stop()
	select {
	case <-timer.C:
		r.kill(errDrain)
	case <-ended:
	}
}

// settle answers for every tuple that is still not done and closes the spouts. All tasks have ended.
func (r *run) settle() {
	cause := context.Cause(r.work)
	if cause == nil {
		cause = errLeft
	}
	left := 0
	var lowest Origin
	for _, ring := range r.rings {
		n, o := ring.abandon(cause)
		if left == 0 {
			lowest = o
		}
		left += n
	}
	if left > 0 && (errors.Is(cause, errDrain) || errors.Is(cause, errLeft)) {
		r.note(fmt.Errorf("%d tuples, the first of them %v, were %w; they come again", left, lowest, cause))
	}
	for _, s := range r.spouts {
		r.end(s)
	}
}

// closing is the context for Close: it ends with the drain deadline, but leaves a few seconds in any case.
func (r *run) closing() (context.Context, context.CancelFunc) {
	r.mu.Lock()
	end := r.drain
	r.mu.Unlock()
	now := time.Now()
	if end.IsZero() {
		end = now.Add(r.top.cfg.DrainTimeout)
	}
	if least := now.Add(closeGrace); end.Before(least) {
		end = least
	}
	return context.WithDeadline(context.WithoutCancel(r.work), end)
}

// note keeps an error for Run to return.
func (r *run) note(err error) {
	if err != nil {
		r.mu.Lock()
		r.errs = append(r.errs, err)
		r.mu.Unlock()
	}
}

func (r *run) kill(cause error) {
	r.endWork(cause)
	r.halt()
}

// giveUp ends the run because a source failed: what is in flight is completed.
func (r *run) giveUp(err error) {
	r.note(err)
	r.halt()
}

// fail ends the run because a tuple can't be processed: what is in flight is left undone. Only the first failure counts, the others
// follow from it.
func (r *run) fail(err error) {
	r.mu.Lock()
	first := r.work.Err() == nil
	if first {
		r.errs = append(r.errs, err)
		r.kill(err)
	}
	r.mu.Unlock()
}

// starve says that a spout has to wait for room, so that sinks write what they hold back; fed takes it back.
func (r *run) starve() {
	r.starved.Add(1)
	for _, p := range r.pokes {
		select {
		case p <- struct{}{}:
		default:
		}
	}
}

func (r *run) fed() { r.starved.Add(-1) }

// sleep waits for d, or less if the run is given up.
func (r *run) sleep(d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-r.work.Done():
	}
}

func (r *run) newRing() *ring {
	ring := newRing(uint16(len(r.rings)), r.top.cfg.MaxPending)
	r.rings = append(r.rings, ring)
	return ring
}

func (r *run) task(n *node, i int) Task {
	return Task{Topology: r.top.name, Stage: n.name, Index: i, Count: n.tasks, Mode: r.top.cfg.Mode}
}
