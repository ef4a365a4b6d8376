package client

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/metaq-go/metaq/protocol"
)

// request sends one request.
func (c *conn) request(cl call, q *protocol.Request, wait time.Duration) error {
	return c.send(cl, 1, wait, func(dst []byte, opaque int32) []byte {
		q.Opaque = opaque
		return q.AppendTo(dst)
	}, nil)
}

// waiting is a call of one request whose caller waits for it, or has given up.
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

// do makes a request and waits for its answer, whose body goes where place says. wait is how long the broker was asked
// to hold the answer back. place is called by another goroutine, maybe after do has returned with the error of ctx.
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
	if err == nil && resp.Verb != protocol.VerbResult {
		err = fmt.Errorf("broker answers %s to %s", resp.Verb, q.Verb)
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
