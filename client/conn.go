package client

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/metaq-go/metaq/protocol"
)

// call is one or more requests on their way, with consecutive opaques. Its methods are called by the connection's
// reader, in the order of answers; they must not block.
type call interface {
	// body returns where the body of an answer of n bytes goes, or nil for memory of the connection that is valid during
	// answer only.
	body(n int) []byte
	// answer takes the answer to request i of the call.
	answer(i int, p *protocol.Response)
	// lost takes the end of the connection instead of the answers that have not come.
	lost(err error)
}

// pending is a call that waits.
type pending struct {
	call
	first    int32 // opaque of request 0
	n, left  int
	deadline time.Time
}

// conn is one connection to a broker: requests of many callers are written as they come, answers are matched to them by
// their opaques.
type conn struct {
	nc       net.Conn
	addr     string
	cfg      Config
	ext      protocol.Extensions
	brokerID int
	heard    atomic.Int64 // when something last arrived, Unix nanoseconds
	down     chan struct{}
	wake     chan struct{} // a token: there is something to write

	mu     sync.Mutex
	out    net.Buffers // to be written, in order
	tail   []byte      // small requests after out
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
// passed apart, follows what encode appended, and must stay as it is until the call is over.
func (c *conn) send(cl call, n int, wait time.Duration, encode func(dst []byte, opaque int32) []byte, body []byte) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.err != nil {
		return c.err
	}
	if int64(c.opaque)+int64(n) > maxOpaque {
		c.opaque = minOpaque
	}
	p := &pending{call: cl, first: c.opaque, n: n, left: n, deadline: time.Now().Add(wait)}
	c.opaque += int32(n)
	c.calls = append(c.calls, p)
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
	for {
		select {
		case <-c.wake:
		case <-c.down:
			return
		}
		c.mu.Lock()
		bufs, tail := c.out, c.tail
		c.out, c.tail = nil, spare[:0]
		c.mu.Unlock()
		bufs = append(bufs, tail)
		if _, err := bufs.WriteTo(c.nc); err != nil {
			c.fail(err)
			return
		}
		spare = nil
		if cap(tail) <= 1<<20 {
			spare = tail
		}
	}
}

// readAll takes answers until the connection ends.
func (c *conn) readAll() {
	rd := protocol.NewReader(c.nc, protocol.Limits{Body: c.cfg.MaxMessage})
	var p protocol.Response
	for {
		n, err := rd.ResponseLine(&p)
		if err != nil {
			c.fail(err)
			return
		}
		c.heard.Store(time.Now().UnixNano())
		pend, i := c.match(p.Opaque)
		p.Body = nil
		if pend != nil && p.Code == protocol.OK {
			p.Body = pend.body(n)
		}
		if p.Body == nil {
			p.Body, err = rd.Body(n)
		} else {
			err = rd.ReadBody(p.Body)
		}
		if err != nil {
			if pend != nil && !c.waits(pend) {
				pend.lost(err) // it was taken off the list for its last answer
			}
			c.fail(err)
			return
		}
		if pend != nil {
			pend.answer(i, &p)
		}
	}
}

// match finds the call an answer belongs to and the number of the request in it. The call is forgotten with its last
// answer. An answer to nothing is that to a request whose caller gave up.
func (c *conn) match(opaque int32) (*pending, int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for at, p := range c.calls {
		if i := int64(opaque) - int64(p.first); i >= 0 && i < int64(p.n) {
			if p.left--; p.left == 0 {
				c.calls = append(c.calls[:at], c.calls[at+1:]...)
			}
			return p, int(i)
		}
	}
	return nil, 0
}

func (c *conn) waits(p *pending) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return p.left > 0
}

// fail ends the connection and tells every call. Only the first error counts.
func (c *conn) fail(err error) {
	c.mu.Lock()
	if c.err != nil {
		c.mu.Unlock()
		return
	}
	c.err = fmt.Errorf("connection to %s: %w", c.addr, err)
	calls := c.calls
	c.calls = nil
	close(c.down)
	c.mu.Unlock()
	c.nc.Close()
	for _, p := range calls {
		p.lost(c.err)
	}
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
			if idle && now.Sub(time.Unix(0, c.heard.Load())) > heartbeat {
				q := protocol.Request{Verb: protocol.VerbVersion}
				_ = c.request(&waiting{done: make(chan struct{})}, &q, c.cfg.RequestTimeout)
			}
		}
	}
}

// late reports whether a call is overdue and nothing was heard since it was due to be answered, and whether none waits.
func (c *conn) late(now time.Time) (late, idle bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	silent := now.Sub(time.Unix(0, c.heard.Load())) > c.cfg.RequestTimeout
	for _, p := range c.calls {
		if silent && now.After(p.deadline) {
			return true, false
		}
	}
	return false, len(c.calls) == 0
}

// request sends one request.
func (c *conn) request(cl call, q *protocol.Request, wait time.Duration) error {
	return c.send(cl, 1, wait, func(dst []byte, opaque int32) []byte {
		q.Opaque = opaque
		return q.AppendTo(dst)
	}, nil)
}

// waiting is a call of one request whose caller waits for it.
type waiting struct {
	place func(n int) []byte // of the body; nil: it is copied
	resp  protocol.Response
	err   error
	done  chan struct{}
}

func (w *waiting) body(n int) []byte {
	if w.place == nil {
		return make([]byte, n)
	}
	return w.place(n)
}

func (w *waiting) answer(_ int, p *protocol.Response) {
	w.resp = *p
	if p.Code != protocol.OK {
		w.resp.Body = append([]byte(nil), p.Body...)
	}
	close(w.done)
}

func (w *waiting) lost(err error) {
	w.err = err
	close(w.done)
}

// do makes a request and waits for its answer, whose body goes where place says.
func (c *conn) do(ctx context.Context, q *protocol.Request, wait time.Duration, place func(int) []byte) (protocol.Response, error) {
	w := &waiting{place: place, done: make(chan struct{})}
	if err := c.request(w, q, wait+c.cfg.RequestTimeout); err != nil {
		return protocol.Response{}, err
	}
	select {
	case <-w.done:
		return w.resp, w.err
	case <-ctx.Done():
		return protocol.Response{}, context.Cause(ctx)
	}
}

// text makes a request and returns the text of a result of 200.
func (c *conn) text(ctx context.Context, q *protocol.Request) (string, error) {
	resp, err := c.do(ctx, q, 0, nil)
	if err == nil {
		err = resp.Err()
	}
	return string(resp.Body), err
}

// greet learns what the broker speaks and who it is.
func (c *conn) greet(ctx context.Context) error {
	text, err := c.text(ctx, &protocol.Request{Verb: protocol.VerbVersion})
	if err != nil {
		return err
	}
	c.ext = protocol.ParseExtensions(text)
	if c.brokerID = c.ext.BrokerID; c.brokerID >= 0 {
		return nil
	}
	c.brokerID = 0
	stats, err := c.text(ctx, &protocol.Request{Verb: protocol.VerbStats})
	if err != nil {
		return err
	}
	for _, line := range strings.Split(stats, "\r\n") {
		if id, ok := strings.CutPrefix(line, "broker_id "); ok {
			if n, err := strconv.Atoi(id); err == nil {
				c.brokerID = n
			}
		}
	}
	return nil
}
