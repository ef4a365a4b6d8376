package client

import (
	"context"
	"errors"
	"fmt"
	"slices"
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
	case errors.Is(err, ErrClosed):
		return giveUp
	case errors.Is(err, ErrNoBroker):
		return again // nothing was sent; that a dial or a greeting took too long, or was refused, may be over soon
	case errors.As(err, &status):
		// 503: the broker is starting or stopping and took nothing. Everything else it refuses for good: an unknown topic, a
		// closed partition, a failed disk; only the caller knows whether waiting makes sense.
		if status.Code == protocol.Unavailable {
			return again
		}
		return giveUp
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return giveUp
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

// connect gets a connection whenever batches wait for one, and fails those for which none comes in time. A connection
// that did not last is followed by the next one after a pause.
func (p *Producer) connect() {
	pause := firstPause
	for last := (time.Time{}); ; last = time.Now() {
		select {
		case <-p.kick:
		case <-p.ctx.Done():
			return
		}
		if time.Since(last) > lastPause {
			pause = firstPause
		} else if !sleep(p.ctx, min(pause, p.patience())) {
			return
		}
		var cause error
		for ; p.needsConn(); pause = min(2*pause, lastPause) {
			cause = p.reach(cause)
			if p.needsConn() && !sleep(p.ctx, min(pause, p.patience())) {
				return
			}
		}
	}
}

// reach tries to get a connection and sends what waits for it, or fails what has waited too long. It returns why there
// is none; cause is what it returned before.
func (p *Producer) reach(cause error) error {
	ctx, cancel := context.WithTimeout(p.ctx, p.patience())
	defer cancel()
	conn, err := p.client.connection(ctx)
	switch {
	case err == nil:
		p.resume(conn)
	case p.ctx.Err() != nil:
	case ctx.Err() != nil: // the attempt goes on, but somebody's time is up
		if cause == nil {
			cause = ErrNoBroker
		}
		p.expire(cause)
		return cause
	case judge(err) == giveUp:
		p.failAll(err)
	default:
		p.expire(err)
	}
	return err
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
	p.conn, p.away = c, time.Time{}
	p.offerAll()
}

// deadline is until when a batch may wait; p.mu is held.
func (p *Producer) deadline(b *batch) time.Time {
	since := b.begun
	if p.away.After(since) {
		since = p.away
	}
	return since.Add(p.cfg.Timeout)
}

// patience is how long it takes until the first batch expires, at least a moment.
func (p *Producer) patience() time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	left := p.cfg.Timeout
	for _, l := range p.waiting {
		if l.sent == nil && len(l.queue) > 0 {
			left = min(left, time.Until(p.deadline(l.queue[0])))
		}
	}
	return max(left, time.Millisecond)
}

// expire fails the batches that have waited too long for a connection.
func (p *Producer) expire(cause error) {
	now := time.Now()
	p.failQueued(fmt.Errorf("%w: %w", ErrTimeout, cause), func(b *batch) bool { return !now.Before(p.deadline(b)) })
}

// failAll fails every batch that was not sent.
func (p *Producer) failAll(err error) { p.failQueued(err, func(*batch) bool { return true }) }

// failQueued fails batches that were not sent. A partition that has one on its way is left alone, so that its callbacks
// come in order; finished sees to the rest.
func (p *Producer) failQueued(err error, which func(*batch) bool) {
	var failed []*batch
	p.mu.Lock()
	for _, t := range p.topics {
		for _, l := range t.lanes {
			if l.sent != nil {
				continue
			}
			for len(l.queue) > 0 && which(l.queue[0]) {
				failed = append(failed, l.queue[0])
				l.sent = l.queue[0] // nobody passes it while it fails
				l.queue = l.queue[1:]
			}
			if l.sent != nil {
				p.sending++
			}
		}
	}
	p.mu.Unlock()
	for _, b := range failed {
		b.fail(err)
	}
}

// lost takes back a batch whose connection ended before it was answered: for another try if the configuration allows
// it, otherwise to fail with ErrUnknown.
func (p *Producer) lost(b *batch, err error) {
	p.mu.Lock()
	again := p.cfg.Resend && p.over == nil && (b.lostAt.IsZero() || time.Since(b.lostAt) < p.cfg.Timeout)
	if !again {
		p.mu.Unlock()
		b.fail(fmt.Errorf("%w: %w", ErrUnknown, err))
		return
	}
	if b.lostAt.IsZero() {
		b.lostAt = time.Now()
	}
	l := b.lane
	rest := b.split()
	l.queue = slices.Insert(l.queue, 0, rest)
	l.sent = nil
	p.sending--
	p.conn = nil
	p.park(l)
	p.mu.Unlock()
	if len(b.sums) > 0 {
		b.finishPlain(false) // those that were answered
	}
}

// finished accounts for a batch that is over and lets the next ones go.
func (p *Producer) finished(b *batch, failed, failedBytes int, reuse bool) {
	p.mu.Lock()
	p.stats.Failed += int64(failed)
	p.stats.Messages += int64(len(b.sums) - failed)
	p.stats.Bytes += int64(len(b.records) - failedBytes)
	p.passed(b.epoch, len(b.sums))
	l := b.lane
	if l.sent == b {
		l.sent = nil
		p.sending--
	}
	p.release(len(b.records))
	if reuse {
		p.recycle(b)
	}
	over := p.over
	if over == nil {
		if l.sent == nil && len(l.queue) > 0 {
			p.dispatch(l)
		}
		p.offerAll()
	}
	p.mu.Unlock()
	if over != nil {
		p.failAll(over) // what waited for this one
	}
}
