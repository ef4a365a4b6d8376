package store

import (
	"context"
	"sync"
	"sync/atomic"
)

// Commit is the fate of one round of appends to one partition: everything that was collected between two writes. Many
// appends share one. Safe for concurrent use.
type Commit struct {
	done atomic.Bool
	err  error // set before done
	wake waiters
}

// Done reports whether the round is over, and how: nil means that its records are safe and readable.
func (c *Commit) Done() (bool, error) {
	if !c.done.Load() {
		return false, nil
	}
	return true, c.err
}

// Notify arranges that ch gets a token (without blocking: give it room for one) when the round is over. It reports
// false, and arranges nothing, if it is over already.
func (c *Commit) Notify(ch chan<- struct{}) bool {
	return c.wake.add(ch, func() bool { return !c.done.Load() })
}

// Wait blocks until the round is over or ctx ends, and returns the round's error or ctx's.
func (c *Commit) Wait(ctx context.Context) error {
	ch := make(chan struct{}, 1)
	for c.Notify(ch) {
		select {
		case <-ch:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	_, err := c.Done()
	return err
}

func (c *Commit) finish(err error) {
	c.err = err
	c.done.Store(true)
	c.wake.all()
}

// waiters is a set of channels to be poked once. A channel that is added twice is in it once, so that a connection that
// polls again and again does not make it grow.
type waiters struct {
	mu  sync.Mutex
	set map[chan<- struct{}]struct{}
}

// add puts ch into the set if still says so, under the lock that all takes: a wake-up can't fall between the two.
func (w *waiters) add(ch chan<- struct{}, still func() bool) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !still() {
		return false
	}
	if w.set == nil {
		w.set = make(map[chan<- struct{}]struct{})
	}
	w.set[ch] = struct{}{}
	return true
}

func (w *waiters) remove(ch chan<- struct{}) {
	w.mu.Lock()
	delete(w.set, ch)
	w.mu.Unlock()
}

// all pokes everyone and empties the set.
func (w *waiters) all() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for ch := range w.set {
		select {
		case ch <- struct{}{}:
		default: // it has a token already
		}
	}
	clear(w.set)
}
