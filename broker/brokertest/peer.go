package brokertest

import (
	"context"
	"io"
	"net"
	"sync"
	"testing"
	"testing/synctest"
)

// Peer is a client that talks by hand, byte for byte, and takes whatever comes. It lives in a bubble of testing/synctest and
// is used by one goroutine.
type Peer struct {
	conn net.Conn
	gone chan struct{}

	mu     sync.Mutex
	buf    []byte
	closed bool
}

// Connect connects by dial, a Broker's or a Listener's. The connection is closed at the end of t.
func Connect(t testing.TB, dial func(ctx context.Context, addr string) (net.Conn, error)) *Peer {
	t.Helper()
	conn, err := dial(context.Background(), "")
	if err != nil {
		t.Fatal(err)
	}
	p := &Peer{conn: conn, gone: make(chan struct{})}
	go p.take()
	t.Cleanup(p.Close)
	return p
}

func (p *Peer) take() {
	defer close(p.gone)
	buf := make([]byte, 64<<10)
	for {
		n, err := p.conn.Read(buf)
		p.mu.Lock()
		p.buf = append(p.buf, buf[:n]...)
		p.closed = err != nil
		p.mu.Unlock()
		if err != nil {
			return
		}
	}
}

// Send sends s, or what the broker takes of it before it closes the connection. It returns when the broker has read it.
func (p *Peer) Send(s string) { _, _ = io.WriteString(p.conn, s) }

// Received returns what came since it was last asked, and whether the broker has closed the connection. It waits until
// the whole bubble has nothing to do: nothing more will come before time goes on.
func (p *Peer) Received() (s string, closed bool) {
	synctest.Wait()
	p.mu.Lock()
	defer p.mu.Unlock()
	s = string(p.buf)
	p.buf = nil
	return s, p.closed
}

// Ask sends a request and returns the answer, empty if there is none yet.
func (p *Peer) Ask(request string) string {
	p.Send(request)
	s, _ := p.Received()
	return s
}

// Close closes the connection. Twice is fine.
func (p *Peer) Close() {
	p.conn.Close()
	<-p.gone
}
