package client

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/metaq-go/metaq/broker/brokertest"
	"github.com/metaq-go/metaq/protocol"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// Answers to version of the two kinds of broker.
const (
	metaqText = protocol.Level + " metaq/0 id=3 ext=append,poll,topics"
	javaText  = protocol.Level
)

// world is the brokers that a client under test can reach, which the test plays by hand. It lives in a bubble.
type world struct {
	t     testing.TB
	conns chan net.Conn // the far ends of connections, as they are made

	mu     sync.Mutex
	refuse error // of dials, nil: they succeed
	dialed []string
}

func newWorld(t testing.TB) *world { return &world{t: t, conns: make(chan net.Conn, 100)} }

func (w *world) dial(_ context.Context, addr string) (net.Conn, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.dialed = append(w.dialed, addr)
	if w.refuse != nil {
		return nil, w.refuse
	}
	near, away := net.Pipe()
	w.conns <- away
	return near, nil
}

func (w *world) set(err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.refuse = err
}

// client returns a client in this world, which is closed at the end of the test.
func (w *world) client(change func(*Config)) *Client {
	w.t.Helper()
	cfg := Config{Servers: "meta://far:1", Dial: w.dial}
	if change != nil {
		change(&cfg)
	}
	c, err := New(cfg)
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(func() { c.Close() })
	return c
}

// accept waits for the next connection and returns its far end.
func (w *world) accept() *far {
	w.t.Helper()
	select {
	case conn := <-w.conns:
		w.t.Cleanup(func() { conn.Close() })
		return &far{t: w.t, conn: conn, rd: protocol.NewReader(conn, protocol.Limits{})}
	case <-time.After(time.Hour):
		w.t.Fatal("nobody connects")
		return nil
	}
}

// connected is accept and a greeting.
func (w *world) connected(text string) *far {
	w.t.Helper()
	f := w.accept()
	f.greet(text)
	return f
}

// far is the far end of a connection.
type far struct {
	t    testing.TB
	conn net.Conn
	rd   *protocol.Reader
}

// next returns the next request, which is valid until the next call.
func (f *far) next() *protocol.Request {
	f.t.Helper()
	var q protocol.Request
	if err := f.conn.SetReadDeadline(time.Now().Add(time.Hour)); err != nil {
		f.t.Fatal(err)
	}
	if err := f.rd.Request(&q); err != nil {
		f.t.Fatalf("no more requests: %v", err)
	}
	return &q
}

// expect is next for a request of a verb.
func (f *far) expect(v protocol.Verb) *protocol.Request {
	f.t.Helper()
	q := f.next()
	if q.Verb != v {
		f.t.Fatalf("got request %s, want %s", q.Verb, v)
	}
	return q
}

// none fails if the client sends anything within d.
func (f *far) none(d time.Duration) {
	f.t.Helper()
	if err := f.conn.SetReadDeadline(time.Now().Add(d)); err != nil {
		f.t.Fatal(err)
	}
	var q protocol.Request
	if err := f.rd.Request(&q); err == nil || !isTimeout(err) {
		f.t.Fatalf("got %s (%v), want no request", q.Verb, err)
	}
}

func isTimeout(err error) bool {
	ne, ok := errors.AsType[net.Error](err)
	return ok && ne.Timeout()
}

// ended fails unless the client has closed the connection.
func (f *far) ended() {
	f.t.Helper()
	_ = f.conn.SetReadDeadline(time.Now().Add(time.Hour)) // fails once the pipe is closed, which is what we ask
	if _, err := io.Copy(io.Discard, f.conn); err != nil && !errors.Is(err, io.ErrClosedPipe) {
		f.t.Fatalf("connection still there: %v", err)
	}
}

func (f *far) greet(text string) {
	f.t.Helper()
	f.result(f.expect(protocol.VerbVersion).Opaque, protocol.OK, text)
	if text == javaText {
		f.result(f.expect(protocol.VerbStats).Opaque, protocol.OK, "STATS\r\npid 1\r\nbroker_id 7\r\nEND\r\n")
	}
}

// say sends bytes as they are.
func (f *far) say(s string) {
	f.t.Helper()
	if _, err := io.WriteString(f.conn, s); err != nil {
		f.t.Fatal(err)
	}
}

func (f *far) result(opaque int32, code protocol.Code, text string) {
	f.t.Helper()
	f.say(string(protocol.AppendResult(nil, code, opaque, text)))
}

func (f *far) stored(opaque int32, id int64, partition int32, offset int64) {
	f.t.Helper()
	f.say(string(protocol.AppendStored(nil, opaque, id, partition, offset)))
}

// topics answers the question for a topic's partitions.
func (f *far) topics(n int) {
	f.t.Helper()
	q := f.expect(protocol.VerbTopics)
	f.result(q.Opaque, protocol.OK, fmt.Sprintf("%s %d\r\n", q.Topic, n))
}

// payloads of an append, joined by commas.
func payloads(records []byte) string {
	var list []string
	for _, r := range protocol.Records(records) {
		list = append(list, string(r.Body))
	}
	return strings.Join(list, ",")
}

// outcome is what the callback of a send was told.
type outcome struct {
	Result
	err error
}

// outcomes collects what callbacks are told, in the order in which they are called.
type outcomes struct {
	mu   sync.Mutex
	list []outcome
}

func (o *outcomes) done(res Result, err error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.list = append(o.list, outcome{res, err})
}

// now returns what came until the bubble has nothing to do.
func (o *outcomes) now() []outcome {
	synctest.Wait()
	o.mu.Lock()
	defer o.mu.Unlock()
	return append([]outcome(nil), o.list...)
}

// bubble runs a test in a bubble with brokers played by hand.
func bubble(t *testing.T, f func(t *testing.T, w *world)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) { f(t, newWorld(t)) })
}

// realBroker starts a broker in memory and a client of it; in a bubble.
func realBroker(t testing.TB, opts ...brokertest.Option) (*brokertest.Broker, *Client) {
	t.Helper()
	b := brokertest.Start(t, append(opts, brokertest.InMemory())...)
	c, err := New(Config{Servers: b.Addr(), Dial: b.Dial})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return b, c
}
