package client

import (
	"context"
	"slices"
)

// sender is a send that waits for room.
type sender struct {
	size    int
	ready   chan struct{} // closed when it has the room, or the producer is closed
	granted bool
}

// acquire takes room for size bytes, waiting for it behind those who came before; p.mu is held before and after.
func (p *Producer) acquire(ctx context.Context, size int) error {
	if p.closed {
		return ErrClosed
	}
	if len(p.senders) == 0 && p.inFlight+size <= p.cfg.MaxInFlight {
		p.inFlight += size
		return nil
	}
	s := &sender{size: size, ready: make(chan struct{})}
	p.senders = append(p.senders, s)
	p.mu.Unlock()
	select {
	case <-s.ready:
	case <-ctx.Done():
	}
	p.mu.Lock()
	switch {
	case s.granted && !p.closed:
		return nil
	case s.granted:
		p.release(size)
	default:
		p.senders = slices.DeleteFunc(p.senders, func(x *sender) bool { return x == s })
		p.grant() // those behind may have asked for less
	}
	if p.closed {
		return ErrClosed
	}
	return context.Cause(ctx)
}

// release gives room back; p.mu is held.
func (p *Producer) release(size int) {
	p.inFlight -= size
	p.grant()
}

// grant gives room to those who wait, in order; p.mu is held.
func (p *Producer) grant() {
	for len(p.senders) > 0 && p.inFlight+p.senders[0].size <= p.cfg.MaxInFlight {
		s := p.senders[0]
		p.inFlight += s.size
		p.senders = slices.Delete(p.senders, 0, 1)
		s.granted = true
		close(s.ready)
	}
}

// refuse lets no more messages in.
func (p *Producer) refuse() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.closed = true
	for _, s := range p.senders {
		close(s.ready)
	}
	p.senders = nil
}

// end sends nothing more: what was not sent fails with err, of a partition with a batch on its way after that.
func (p *Producer) end(err error) {
	p.mu.Lock()
	p.over = err
	p.mu.Unlock()
	p.cancel()
	p.failAll(err)
}

// epoch counts the messages between two calls of Flush that are not done.
type epoch struct {
	messages int
	done     chan struct{} // closed when there are none left and none can be added
}

func newEpoch() *epoch { return &epoch{done: make(chan struct{})} }

// mark returns the epochs that are not done, and begins a new one.
func (p *Producer) mark() []*epoch {
	p.mu.Lock()
	defer p.mu.Unlock()
	open := slices.Clone(p.epochs)
	last := open[len(open)-1]
	if last.messages == 0 {
		return open[:len(open)-1]
	}
	p.epochs = append(p.epochs, newEpoch())
	return open
}

// passed notes that n messages of an epoch are done; p.mu is held.
func (p *Producer) passed(e *epoch, n int) {
	if e.messages -= n; e.messages == 0 && e != p.epochs[len(p.epochs)-1] {
		close(e.done)
		p.epochs = slices.DeleteFunc(p.epochs, func(x *epoch) bool { return x == e })
	}
}
