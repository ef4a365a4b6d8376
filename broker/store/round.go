package store

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/metaq-go/metaq/protocol"
)

// rounds is the queue of partitions that have something to commit, and the committer that serves it.
type rounds struct {
	mu    sync.Mutex
	queue []*Log
	wake  chan struct{} // a token while queue may be non-empty
}

func (q *rounds) add(l *Log) {
	q.mu.Lock()
	q.queue = append(q.queue, l)
	q.mu.Unlock()
	select {
	case q.wake <- struct{}{}:
	default:
	}
}

// swap returns the queue and begins a new one in spare's memory.
func (q *rounds) swap(spare []*Log) []*Log {
	q.mu.Lock()
	defer q.mu.Unlock()
	logs := q.queue
	q.queue = spare[:0]
	return logs
}

// run is the committer. There is one for the store, so that one disk sees one round at a time, as large as possible.
func (q *rounds) run(ctx context.Context, s *Store) error {
	c := committer{store: s}
	var flush <-chan time.Time
	if s.cfg.Relaxed {
		t := time.NewTicker(s.cfg.FlushInterval)
		defer t.Stop()
		flush = t.C
	}
	for {
		select {
		case <-q.wake:
			c.commit(q.swap(c.logs))
		case <-flush:
			c.flush()
		case <-ctx.Done():
			s.refuseAll()
			c.commit(q.swap(c.logs))
			c.flush()
			return nil
		}
	}
}

// refuseAll ends appending for good. What was appended before is in the queue afterwards.
func (s *Store) refuseAll() {
	s.mu.Lock()
	s.stopped = true
	s.mu.Unlock()
	for _, l := range s.Logs() {
		l.refuse(ErrClosed)
	}
}

// committer carries out rounds. Its slices are kept from round to round.
type committer struct {
	store  *Store
	logs   []*Log
	rounds []round
	dirty  []*Log // relaxed: written, not synced
}

// commit writes what every log collected, syncs what was written, and publishes it.
func (c *committer) commit(logs []*Log) {
	c.logs = logs
	c.rounds = c.rounds[:0]
	for _, l := range logs {
		if r := l.take(); r.commit != nil {
			c.rounds = append(c.rounds, r)
		}
	}
	for i := range c.rounds {
		r := &c.rounds[i]
		r.err = r.log.write(r.records)
	}
	if c.store.cfg.Relaxed {
		for _, r := range c.rounds {
			if !r.log.unsynced && r.err == nil {
				r.log.unsynced = true
				c.dirty = append(c.dirty, r.log)
			}
		}
	} else {
		parallel(len(c.rounds), func(i int) {
			if r := &c.rounds[i]; r.err == nil {
				r.err = r.log.sync()
			}
		})
	}
	for _, r := range c.rounds {
		c.store.settle(r)
		c.store.recycle(r.records)
	}
	clear(c.rounds)
}

// flush syncs what relaxed rounds wrote.
func (c *committer) flush() {
	parallel(len(c.dirty), func(i int) {
		l := c.dirty[i]
		if err := l.sync(); err != nil {
			c.store.cfg.Log.Error("background sync failed, partition takes no more messages",
				"topic", l.topic, "partition", l.partition, "err", err)
			l.abort(round{err: err}, err)
		}
	})
	for _, l := range c.dirty {
		l.unsynced = false
	}
	c.dirty = c.dirty[:0]
}

// settle publishes a round or fails it.
func (s *Store) settle(r round) {
	l := r.log
	if r.err == nil {
		l.publish(r)
		if l.failing {
			s.cfg.Log.Info("messages are stored again", "topic", l.topic, "partition", l.partition, "offset", l.End())
		}
		l.failing = false
		return
	}
	var closed error
	undo := l.unwrite()
	switch {
	case errors.Is(r.err, ErrUnsafe):
		closed = r.err
	case undo != nil:
		closed = fmt.Errorf("%w: %w, and it can't be undone: %w", ErrUnsafe, r.err, undo)
	}
	if !l.failing || closed != nil { // once, not for every round while a disk is full
		s.cfg.Log.Error("messages not stored", "topic", l.topic, "partition", l.partition, "offset", l.End(),
			"messages", r.count, "closed", closed != nil, "err", cmp.Or(closed, r.err))
	}
	l.failing = true
	l.abort(r, closed)
}

// syncers is how many syncs are in flight at once: file systems merge what comes together into fewer flushes. Measured
// with 64 files on ext4, 8 at once take half the time of one after the other, and more gain nothing.
const syncers = 8

// parallel calls f(0) … f(n-1), up to syncers at a time, and returns when all are done.
func parallel(n int, f func(int)) {
	if n == 1 {
		f(0)
		return
	}
	var next atomic.Int64
	var group sync.WaitGroup
	for range min(n, syncers) {
		group.Go(func() {
			for i := int(next.Add(1)) - 1; i < n; i = int(next.Add(1)) - 1 {
				f(i)
			}
		})
	}
	group.Wait()
}

// write appends records to the last segment, and where that reaches its size closes it between two records and begins
// the next.
func (l *Log) write(records []byte) error {
	for len(records) > 0 {
		seg := l.last()
		n := l.fit(seg, records)
		if err := seg.write(records[:n], l.store.cfg.SegmentSize); err != nil {
			return fmt.Errorf("write %s: %w", seg.name, err)
		}
		records = records[n:]
		if seg.size >= l.store.cfg.SegmentSize {
			if err := l.roll(seg); err != nil {
				return err
			}
		}
	}
	return nil
}

// fit returns how many bytes of records belong into seg: up to and with the record that makes it reach its size.
func (l *Log) fit(seg *segment, records []byte) int {
	limit := l.store.cfg.SegmentSize - seg.size
	if int64(len(records)) <= limit {
		return len(records)
	}
	n := 0
	for n < len(records) && int64(n) < limit || n == 0 {
		size, ok := protocol.RecordSize(records[n:])
		if !ok {
			return len(records)
		}
		n += size
	}
	return min(n, len(records))
}

// sync makes what was written to the last segment safe. Its errors are ErrUnsafe: after a failed sync the system may
// have dropped the pages it could not write and will not fail again, so a second try would prove nothing.
func (l *Log) sync() error {
	seg := l.last()
	if err := seg.file.Datasync(); err != nil {
		return fmt.Errorf("%w: sync %s: %w", ErrUnsafe, seg.name, err)
	}
	return nil
}

// buffer returns an empty buffer for a round.
func (s *Store) buffer() []byte {
	if b, ok := s.buffers.Get().(*[]byte); ok {
		return (*b)[:0]
	}
	return make([]byte, 0, 64<<10)
}

// recycle takes the buffer of a round that is over.
func (s *Store) recycle(b []byte) {
	if b != nil && cap(b) <= 2*s.cfg.MaxPending {
		s.buffers.Put(&b)
	}
}
