package client

import (
	"errors"
	"fmt"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/metaq-go/metaq/protocol"
)

// call is one or more requests on their way, with consecutive opaques. Its methods are called by the connection's
// reader only: answer in the order of answers, lost at the end instead of those that have not come. They must not block.
type call interface {
	// body returns where the body of an answer of n bytes goes, or nil for memory of the connection that is valid during
	// answer only.
	body(n int) []byte
	// answer takes the answer to request i of the call; it is called once for each.
	answer(i int, p *protocol.Response)
	// lost takes the end of the connection. Nothing is called after it.
	lost(err error)
}

// pending is a call that waits.
type pending struct {
	call
	first   int32 // opaque of request 0
	n, left int
	seen    []uint64      // which were answered, a bit for each; nil for a single request
	wait    time.Duration // that the broker may take
	due     time.Time     // zero until the requests are written
}

// news reports whether the answer to request i is the first, and notes it.
func (p *pending) news(i int) bool {
	if p.seen != nil {
		word, bit := &p.seen[i/64], uint64(1)<<(i%64)
		if *word&bit != 0 {
			return false
		}
		*word |= bit
	}
	p.left--
	return true
}

// conn is one connection to a broker: requests of many callers are written as they come, answers are matched to them by
// their opaques.
type conn struct {
	nc       net.Conn
	addr     string
	cfg      Config
	ext      protocol.Extensions
	brokerID int
	heard    atomic.Int64 // when bytes last arrived, Unix nanoseconds
	writing  atomic.Int64 // since when the present write has made no progress, 0 if there is none
	down     chan struct{}
	wake     chan struct{} // a token: there is something to write

	mu     sync.Mutex
	out    net.Buffers // to be written, in order
	tail   []byte      // small requests after out
	fresh  []*pending  // calls whose requests are in out and tail
	calls  []*pending
	opaque int32
	err    error
}

func newConn(nc net.Conn, addr string, cfg Config) *conn {
	if tcp, ok := nc.(*net.TCPConn); ok {
		_ = tcp.SetNoDelay(true)
	}
	c := &conn{nc: nc, addr: addr, cfg: cfg, down: make(chan struct{}), wake: make(chan struct{}, 1), opaque: minOpaque}
	c.heard.Store(time.Now().UnixNano())
	return c
}

// Opaques count up from the smallest number and start over before the largest, which stands for "none given"
// (protocol.md 2.5).
const (
	minOpaque = -1 << 31
	maxOpaque = 1<<31 - 11
)

// directBody is the size from which a body is handed to the socket as it is instead of being copied.
const directBody = 16 << 10

// send queues n requests whose lines and bodies encode appends to a buffer, given their first opaque. A big body is
// passed apart, follows what encode appended, and must stay as it is until the call is answered; after the end of the
// connection it may be read for a while.
func (c *conn) send(cl call, n int, wait time.Duration, encode func(dst []byte, opaque int32) []byte, body []byte) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.err != nil {
		return c.err
	}
	if int64(c.opaque)+int64(n) > maxOpaque {
		c.opaque = minOpaque
	}
	p := &pending{call: cl, first: c.opaque, n: n, left: n, wait: wait}
	if n > 1 {
		p.seen = make([]uint64, (n+63)/64)
	}
	c.opaque += int32(n)
	c.calls = append(c.calls, p)
	c.fresh = append(c.fresh, p)
	c.tail = encode(c.tail, p.first)
	if len(body) >= directBody {
		c.out = append(c.out, c.tail, body)
		c.tail = nil
	} else {
		c.tail = append(c.tail, body...)
	}
	select {
	case c.wake <- struct{}{}:
	default:
	}
	return nil
}

// writeAll writes what is queued until the connection ends.
func (c *conn) writeAll() {
	var spare []byte
	var calls []*pending
	for {
		select {
		case <-c.wake:
		case <-c.down:
			return
		}
		c.mu.Lock()
		bufs, tail, fresh := c.out, c.tail, c.fresh
		c.out, c.tail, c.fresh = nil, spare[:0], calls[:0]
		c.mu.Unlock()
		if err := c.write(append(bufs, tail)); err != nil {
			c.fail(err)
			return
		}
		c.written(fresh)
		calls, spare = fresh, nil
		if cap(tail) <= 1<<20 {
			spare = tail
		}
	}
}

// writeAtOnce is how much is given to the socket in one write: a peer that takes so little in a RequestTimeout is given
// up.
const writeAtOnce = 256 << 10

func (c *conn) write(bufs net.Buffers) error {
	defer c.writing.Store(0)
	for len(bufs) > 0 {
		n, size := 0, 0
		for n < len(bufs) && size+len(bufs[n]) <= writeAtOnce {
			size += len(bufs[n])
			n++
		}
		var err error
		c.writing.Store(time.Now().UnixNano())
		if n > 0 {
			part := bufs[:n]
			_, err = part.WriteTo(c.nc)
			bufs = bufs[n:]
		} else {
			_, err = c.nc.Write(bufs[0][:writeAtOnce])
			bufs[0] = bufs[0][writeAtOnce:]
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// written starts the time of calls.
func (c *conn) written(calls []*pending) {
	now := time.Now()
	c.mu.Lock()
	defer c.mu.Unlock()
	for i, p := range calls {
		p.due = now.Add(p.wait)
		calls[i] = nil
	}
}

// readAll takes answers until the connection ends, and then tells the calls that got none.
func (c *conn) readAll() {
	c.fail(c.read())
	c.mu.Lock()
	calls, err := c.calls, c.err
	c.calls = nil
	c.mu.Unlock()
	for _, p := range calls {
		p.lost(err)
	}
}

// hear is the source of the reader.
type hear struct{ *conn }

func (h hear) Read(b []byte) (int, error) {
	n, err := h.nc.Read(b)
	if n > 0 {
		h.heard.Store(time.Now().UnixNano())
	}
	return n, err
}

func (c *conn) read() error {
	rd := protocol.NewReader(hear{c}, protocol.Limits{Body: c.cfg.MaxMessage})
	var r protocol.Response
	for {
		n, err := rd.ResponseLine(&r)
		if err != nil {
			return err
		}
		p, i := c.match(r.Opaque)
		r.Body = nil
		if p != nil && r.Code == protocol.OK {
			r.Body = p.body(n)
		}
		if r.Body == nil {
			r.Body, err = rd.Body(n)
		} else {
			err = rd.ReadBody(r.Body)
		}
		if err != nil {
			return err
		}
		if p != nil && c.take(p, i) {
			p.answer(i, &r)
		}
	}
}

// match finds the call an answer belongs to and the number of the request in it. An answer to nothing is a second one.
func (c *conn) match(opaque int32) (*pending, int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, p := range c.calls {
		if i := int64(opaque) - int64(p.first); i >= 0 && i < int64(p.n) {
			return p, int(i)
		}
	}
	return nil, 0
}

// take notes that the answer to request i of p is there, and forgets p with its last one. It reports false if there was
// one before.
func (c *conn) take(p *pending, i int) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !p.news(i) {
		return false
	}
	if p.left == 0 {
		at := slices.Index(c.calls, p)
		c.calls = slices.Delete(c.calls, at, at+1)
	}
	return true
}

// fail ends the connection; the reader tells the calls. Only the first error counts.
func (c *conn) fail(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.err != nil {
		return
	}
	c.err = fmt.Errorf("connection to %s: %w", c.addr, err)
	close(c.down)
	c.nc.Close()
}

func (c *conn) alive() bool {
	select {
	case <-c.down:
		return false
	default:
		return true
	}
}

// keepEvery is how often a connection is looked at; heartbeat is the silence after which it is asked for a sign of life.
const (
	keepEvery = time.Second
	heartbeat = 10 * time.Second
)

var errSilent = errors.New("broker does not answer")

// keep ends a connection whose broker owes an answer for too long, and sends heartbeats when nothing else is sent.
func (c *conn) keep() {
	t := time.NewTicker(keepEvery)
	defer t.Stop()
	for {
		select {
		case <-c.down:
			return
		case now := <-t.C:
			late, idle := c.late(now)
			if late {
				c.fail(errSilent)
				return
			}
			if idle && since(now, c.heard.Load()) > heartbeat {
				q := protocol.Request{Verb: protocol.VerbVersion}
				_ = c.request(&waiting{done: make(chan struct{})}, &q, c.cfg.RequestTimeout)
			}
		}
	}
}

// late reports whether the broker is to be given up, and whether no call waits. It is if it takes no bytes, if a call
// is overdue and nothing else came for as long, or if a call is overdue three times: some brokers drop single answers
// (protocol.md 2.7). What counts is the time since the request was written, not since it was queued behind others.
func (c *conn) late(now time.Time) (late, idle bool) {
	limit := c.cfg.RequestTimeout
	if w := c.writing.Load(); w != 0 && since(now, w) > limit {
		return true, false
	}
	silent := since(now, c.heard.Load()) > limit
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, p := range c.calls {
		if over := now.Sub(p.due); !p.due.IsZero() && (over > 0 && silent || over > 2*limit) {
			return true, false
		}
	}
	return false, len(c.calls) == 0
}

// since is how long before now a time in Unix nanoseconds was.
func since(now time.Time, unixNano int64) time.Duration {
	return time.Duration(now.UnixNano() - unixNano)
}
