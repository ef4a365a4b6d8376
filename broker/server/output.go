package server

import (
	"errors"
	"os"
	"time"

	"github.com/metaq-go/metaq/broker/store"
	"github.com/metaq-go/metaq/protocol"
)

// replyKind says how a reply is made when its turn comes.
type replyKind uint8

const (
	kindText   replyKind = iota // code and text are known
	kindFunc                    // f tells
	kindRun                     // a run of puts, answered one by one when commit is done
	kindAppend                  // an append, answered when commit is done
	kindRead                    // a get or poll: read now
)

// reply is what the writer owes the client for one request or one run of puts.
type reply struct {
	kind      replyKind
	count     int // requests it answers
	opaque    int32
	code      protocol.Code
	text      string
	f         func() (protocol.Code, string)
	log       *store.Log
	commit    *store.Commit
	err       error // the append was refused; commit is nil
	id        int64
	offset    int64
	messages  int
	entries   []entry
	last      *chunk // entries are the last of it; nil: others follow
	read      read
	partition int32
}

const (
	flushBytes  = 64 << 10 // what has come together is sent at this size, or when there is nothing more to add
	keepBytes   = 2 << 20  // a buffer made bigger than this by large answers is given up
	keepReplies = 256      // a queue made longer than this is passed on when the connection is idle
)

// output is the writer of a session. Its fields belong to the goroutine that calls run.
type output struct {
	*session
	queue   []reply // fetched, the head not answered yet
	head    int
	parked  []reply                 // polls that wait
	watched map[*store.Log]struct{} // partitions that may still poke us
	buf     []byte
	pooled  *[]byte // where buf came from and goes; nil while the connection is idle
	timer   *time.Timer
	err     error // of the connection: nothing can be sent any more
}

// run answers until the reader has ended and everything it queued is answered, or the connection breaks.
func (o *output) run() {
	for {
		o.takeBuffer()
		blocked, ended := o.answerAll()
		o.answerParked()
		o.flush()
		o.giveBuffer()
		if o.err != nil || ended && !blocked {
			break
		}
		if blocked && !o.queue[o.head].commit.Notify(o.wake) {
			continue
		}
		o.wait()
	}
	o.finish()
}

// wait blocks until a token comes or the first parked poll is due.
func (o *output) wait() {
	var due <-chan time.Time
	if len(o.parked) > 0 {
		first := o.parked[0].read.deadline
		for _, r := range o.parked[1:] {
			if r.read.deadline.Before(first) {
				first = r.read.deadline
			}
		}
		if o.timer == nil {
			o.timer = time.NewTimer(time.Until(first))
		} else {
			o.timer.Reset(time.Until(first))
		}
		due = o.timer.C
	}
	select {
	case <-o.wake:
	case <-due:
	}
}

// answerAll answers what is queued, up to a commit that is not done (blocked) or to the end of all requests (ended). It
// looks for more until there is none: the token that came with it may have been taken while we were blocked.
func (o *output) answerAll() (blocked, ended bool) {
	for {
		if blocked = o.answerQueue(); blocked || o.err != nil {
			return blocked, false
		}
		o.mu.Lock()
		clear(o.queue)
		o.queue, o.incoming = o.incoming, o.queue[:0]
		o.head = 0
		ended = o.ended
		idle := len(o.queue) == 0
		if idle && cap(o.queue)+cap(o.incoming) > 2*keepReplies {
			o.srv.giveQueue(o.queue)
			o.srv.giveQueue(o.incoming)
			o.queue, o.incoming = nil, nil
		}
		o.mu.Unlock()
		if idle {
			return false, ended
		}
	}
}

// answerQueue answers from the head of the queue and reports whether it stopped at a commit that is not done.
func (o *output) answerQueue() (blocked bool) {
	answered := 0
	for ; o.head < len(o.queue) && o.err == nil; o.head++ {
		r := &o.queue[o.head]
		if r.commit != nil {
			done, err := r.commit.Done()
			if !done {
				blocked = true
				break
			}
			r.err = err
		}
		o.answer(r)
		answered += r.count
		if len(o.buf) >= flushBytes {
			o.flush()
		}
	}
	if answered > 0 {
		o.mu.Lock()
		o.waiting -= answered
		o.mu.Unlock()
		o.room.Signal()
	}
	return blocked
}

func (o *output) answer(r *reply) {
	switch r.kind {
	case kindText:
		o.buf = protocol.AppendResult(o.buf, r.code, r.opaque, r.text)
	case kindFunc:
		code, text := r.f()
		o.buf = protocol.AppendResult(o.buf, code, r.opaque, text)
	case kindRun:
		o.answerRun(r)
	case kindAppend:
		if r.err != nil {
			o.srv.counters.putFailed.Add(int64(r.messages))
			o.buf = o.srv.appendFailed(o.buf, r, r.opaque)
			return
		}
		o.buf = protocol.AppendStored(o.buf, r.opaque, r.id, r.partition, r.offset)
	case kindRead:
		if len(o.parked) >= o.srv.cfg.Outstanding {
			r.read.deadline = time.Time{} // as many as may wait are waiting: this poll is a get
		}
		if !o.answerRead(r) {
			o.parked = append(o.parked, *r)
		}
	}
}

func (o *output) answerRun(r *reply) {
	if r.err != nil {
		o.srv.counters.putFailed.Add(int64(r.count))
		for _, e := range r.entries {
			o.buf = o.srv.appendFailed(o.buf, r, e.opaque)
		}
	} else {
		id, offset := r.id, r.offset
		for _, e := range r.entries {
			o.buf = protocol.AppendStored(o.buf, e.opaque, id, r.partition, offset)
			id = protocol.NextID(id)
			offset += int64(e.size)
		}
	}
	if r.last != nil {
		r.last.used = 0
		o.srv.chunks.Put(r.last)
	}
}

// answerParked answers the polls for which data has come or whose time is up.
func (o *output) answerParked() {
	left := o.parked[:0]
	for i := range o.parked {
		r := o.parked[i]
		if o.err != nil || !o.answerRead(&r) {
			left = append(left, r)
		}
		if len(o.buf) >= flushBytes {
			o.flush()
		}
	}
	clear(o.parked[len(left):])
	o.parked = left
}

// flush sends what has come together.
func (o *output) flush() {
	if o.err == nil {
		o.err = o.send(o.buf)
	}
	o.buf = o.buf[:0]
}

// send writes b. It waits for a slow client as long as that takes anything at all.
func (o *output) send(b []byte) error {
	for len(b) > 0 {
		if err := o.conn.SetWriteDeadline(time.Now().Add(o.srv.cfg.WriteTimeout)); err != nil {
			return err
		}
		n, err := o.conn.Write(b)
		if err != nil && (n == 0 || !errors.Is(err, os.ErrDeadlineExceeded)) {
			return err
		}
		b = b[n:]
	}
	return nil
}

// takeBuffer and giveBuffer let connections that have something to answer share buffers: thousands may be idle.
func (o *output) takeBuffer() {
	var ok bool
	if o.pooled, ok = o.srv.buffers.Get().(*[]byte); !ok {
		o.pooled = new([]byte)
	}
	o.buf = *o.pooled
}

func (o *output) giveBuffer() {
	if cap(o.buf) <= keepBytes {
		*o.pooled = o.buf[:0]
		o.srv.buffers.Put(o.pooled)
	}
	o.buf, o.pooled = nil, nil
}

// giveQueue and takeQueue let connections share long queues.
func (s *Server) giveQueue(q []reply) {
	if q = q[:0]; cap(q) > keepReplies {
		s.queues.Put(&q)
	}
}

func (s *Server) takeQueue() []reply {
	if q, ok := s.queues.Get().(*[]reply); ok {
		return *q
	}
	return nil
}

// finish tells the reader that nobody will answer, and closes the connection so that the client still gets what was
// sent: first our half, then, when the client has closed its own or a moment has passed, all of it.
func (o *output) finish() {
	o.mu.Lock()
	o.broken = true
	o.mu.Unlock()
	o.room.Broadcast()
	if o.timer != nil {
		o.timer.Stop()
	}
	if half, ok := o.conn.(interface{ CloseWrite() error }); ok && o.err == nil && half.CloseWrite() == nil {
		o.discard()
	}
}

const (
	lingerTime  = 500 * time.Millisecond
	lingerBytes = 1 << 20
)

// discard reads and drops what the client still sends: closing with unread bytes would reset the connection and take
// answers on their way with it.
func (o *output) discard() {
	if o.conn.SetReadDeadline(time.Now().Add(lingerTime)) != nil {
		return
	}
	buf := make([]byte, 4<<10)
	for total := 0; total < lingerBytes; {
		n, err := o.conn.Read(buf)
		total += n
		if err != nil {
			return
		}
	}
}

// watch arranges a token for when log grows beyond offset. It reports false if it has.
func (o *output) watch(log *store.Log, offset int64) bool {
	if !log.Notify(offset, o.wake) {
		return false
	}
	if o.watched == nil {
		o.watched = make(map[*store.Log]struct{})
	}
	o.watched[log] = struct{}{}
	return true
}

// forget takes the session out of the lists of those who wait.
func (o *output) forget() {
	o.srv.cfg.Store.Forget(o.wake)
	for log := range o.watched {
		log.Forget(o.wake)
	}
}
