package brokertest

import (
	"context"
	"errors"
	"net"
	"sync"
	"syscall"
)

// backlog is how many connections a Listener holds that nobody has accepted; more are refused.
const backlog = 4096

// Listener is a net.Listener of pipes (net.Pipe) in place of a network, so that both ends can run in a bubble of
// testing/synctest. All methods are safe for concurrent use.
type Listener struct {
	addr  net.Addr
	conns chan net.Conn
	done  chan struct{}

	mu     sync.Mutex
	closed bool
	ends   []net.Conn // the accepting ends of all connections there were
}

// NewListener returns a Listener that calls itself 127.0.0.1:8123, MetaQ's own address.
func NewListener() *Listener { return newListener(pipeAddr{}) }

func newListener(addr net.Addr) *Listener {
	return &Listener{addr: addr, conns: make(chan net.Conn, backlog), done: make(chan struct{})}
}

// Dial connects, as a client.Config.Dial does, whatever addr says. Like a network's it does not wait to be accepted. It
// returns ECONNREFUSED after Close.
func (l *Listener) Dial(ctx context.Context, _ string) (net.Conn, error) {
	if err := ctx.Err(); err != nil {
		return nil, context.Cause(ctx)
	}
	ours, theirs := net.Pipe()
	if !l.hand(theirs) {
		return nil, errors.Join(refused(l.addr), ours.Close(), theirs.Close())
	}
	return ours, nil
}

func refused(addr net.Addr) error {
	return &net.OpError{Op: "dial", Net: addr.Network(), Addr: addr, Err: syscall.ECONNREFUSED}
}

// hand queues a connection to be accepted. It reports false after Close.
func (l *Listener) hand(conn net.Conn) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return false
	}
	select {
	case l.conns <- conn:
		l.ends = append(l.ends, conn)
		return true
	default:
		return false
	}
}

// Accept implements net.Listener.
func (l *Listener) Accept() (net.Conn, error) {
	select {
	case conn := <-l.conns:
		return conn, nil
	case <-l.done:
		return nil, &net.OpError{Op: "accept", Net: l.addr.Network(), Addr: l.addr, Err: net.ErrClosed}
	}
}

// Close implements net.Listener. What was not accepted is closed; what was lives on.
func (l *Listener) Close() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return net.ErrClosed
	}
	l.closed = true
	close(l.done)
	for {
		select {
		case conn := <-l.conns:
			conn.Close()
		default:
			return nil
		}
	}
}

// Addr implements net.Listener.
func (l *Listener) Addr() net.Addr { return l.addr }

// cut closes the listener and every connection there was.
func (l *Listener) cut() {
	_ = l.Close()
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, conn := range l.ends {
		conn.Close()
	}
}

// pipeAddr is the address of a Listener without a network.
type pipeAddr struct{}

func (pipeAddr) Network() string { return "pipe" }
func (pipeAddr) String() string  { return "127.0.0.1:8123" }
