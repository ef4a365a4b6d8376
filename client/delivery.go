package client

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/metaq-go/metaq/protocol"
)

// verdict is what may be done about a failure.
type verdict uint8

const (
	giveUp verdict = iota // trying again would not help, or the caller has to decide
	again                 // nothing was stored: trying again is safe
	doubt                 // it may have been stored
)

// judge is the one place that decides on retries.
func judge(err error) verdict {
	var status *protocol.StatusError
	switch {
	case errors.As(err, &status):
		// 503: the broker is starting or stopping and took nothing. Everything else it refuses for good: an unknown topic, a
		// closed partition, a failed disk; only the caller knows whether waiting makes sense.
		if status.Code == protocol.Unavailable {
			return again
		}
		return giveUp
	case errors.Is(err, ErrClosed), errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return giveUp
	case errors.Is(err, ErrNoBroker):
		return again // the network said so before anything was sent
	}
	return doubt // a connection that ended, or an answer that made no sense
}

const (
	firstPause = 50 * time.Millisecond
	lastPause  = 2 * time.Second
)

// retry calls f, which must be free to repeat, until it succeeds, fails for good, or ctx ends.
func retry(ctx context.Context, f func() error) error {
	for pause := firstPause; ; pause = min(2*pause, lastPause) {
		err := f()
		if err == nil || judge(err) == giveUp {
			return err
		}
		if !sleep(ctx, pause) {
			return err
		}
	}
}

// sleep waits for d or the end of ctx, and reports whether it was d.
func sleep(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// connect gets a connection whenever batches wait for one, and fails those for which none comes in time.
func (p *Producer) connect() {
	for {
		select {
		case <-p.kick:
		case <-p.ctx.Done():
			return
		}
		for pause := firstPause; p.needsConn(); pause = min(2*pause, lastPause) {
			conn, err := p.client.connection(p.ctx)
			if err == nil {
				p.resume(conn)
				break
			}
			if judge(err) == giveUp {
				p.failAll(err)
				break
			}
			p.expire(err)
			if !sleep(p.ctx, pause) {
				return
			}
		}
	}
}

// needsConn reports whether batches wait for a connection.
func (p *Producer) needsConn() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.conn == nil && len(p.waiting) > 0
}

// resume sends what waited on a new connection.
func (p *Producer) resume(c *conn) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.conn = c
	p.offerAll()
}

// expire fails the batches that have waited too long for a connection.
func (p *Producer) expire(cause error) {
	now := time.Now()
	p.failQueued(fmt.Errorf("%w: %w", ErrTimeout, cause), func(b *batch) bool { return now.After(b.deadline) })
}

// failAll fails every batch that is not on its way.
func (p *Producer) failAll(err error) { p.failQueued(err, func(*batch) bool { return true }) }

func (p *Producer) failQueued(err error, which func(*batch) bool) {
	var failed []*batch
	p.mu.Lock()
	for _, t := range p.topics {
		for _, l := range t.lanes {
			for len(l.queue) > 0 && which(l.queue[0]) {
				failed = append(failed, l.queue[0])
				l.queue = l.queue[1:]
			}
		}
	}
	p.mu.Unlock()
	for _, b := range failed {
		b.unknown(err)
	}
}

// lost takes back a batch whose connection ended before it was answered: for another try if the configuration allows
// it, otherwise to fail with ErrUnknown.
func (p *Producer) lost(b *batch, err error) {
	p.mu.Lock()
	if !p.cfg.Resend || p.closed || time.Now().After(b.deadline) {
		p.mu.Unlock()
		b.unknown(fmt.Errorf("%w: %w", ErrUnknown, err))
		return
	}
	l := b.lane
	rest := b.split()
	l.queue = append([]*batch{rest}, l.queue...)
	l.sent = nil
	p.sending--
	p.conn = nil
	p.park(l)
	p.mu.Unlock()
	b.finishPlain(false) // those that were answered
}

// finished accounts for a batch that is over and lets the next ones go.
func (p *Producer) finished(b *batch, failed int, reuse bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.inFlight -= len(b.records)
	p.messages -= len(b.sums)
	p.stats.Failed += int64(failed)
	p.stats.Messages += int64(len(b.sums) - failed)
	if failed == 0 {
		p.stats.Bytes += int64(len(b.records))
	}
	if l := b.lane; l.sent == b {
		l.sent = nil
		p.sending--
		if len(l.queue) > 0 {
			p.dispatch(l)
		}
	}
	if reuse {
		p.recycle(b)
	}
	p.offerAll()
	p.room.Broadcast()
}
