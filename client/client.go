package client

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"strings"
	"sync"
	"time"

	"github.com/metaq-go/metaq/internal/coord/memcoord"
	"github.com/metaq-go/metaq/protocol"
)

// DefaultServer is where metaq local listens.
const DefaultServer = "meta://127.0.0.1:8123"

// Config says which cluster a Client talks to.
type Config struct {
	// Servers is the address of a broker, meta://host:port; default DefaultServer. Several may be given, separated by
	// commas; the first that answers is used.
	Servers     string
	DialTimeout time.Duration // to connect and greet; default 5 s
	// RequestTimeout is how long a broker may leave a request unanswered, and send nothing else, before its connection is
	// given up; default 10 s.
	RequestTimeout time.Duration
	MaxMessage     int // bytes of the biggest record that is read; default 64 MiB
	// Dial replaces the network, for tests and tunnels.
	Dial func(ctx context.Context, addr string) (net.Conn, error)
	Log  *slog.Logger // default: discarded
}

func (c Config) withDefaults() Config {
	c.Servers = cmp.Or(c.Servers, DefaultServer)
	c.DialTimeout = cmp.Or(c.DialTimeout, 5*time.Second)
	c.RequestTimeout = cmp.Or(c.RequestTimeout, 10*time.Second)
	c.MaxMessage = cmp.Or(c.MaxMessage, 64<<20)
	if c.Dial == nil {
		c.Dial = func(ctx context.Context, addr string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "tcp", addr)
		}
	}
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	return c
}

// Client is a cluster as seen from a program. It connects when something needs a connection, and again when that is
// lost.
type Client struct {
	cfg     Config
	servers []string // host:port
	coord   *memcoord.Tree
	ctx     context.Context // ends with Close
	cancel  context.CancelFunc

	mu     sync.Mutex
	conn   *conn
	dial   *dialing // in progress
	closed bool
	conns  sync.WaitGroup

	members map[string]bool // open consumers, GROUP MEMBER
}

// dialing is an attempt to connect that several callers wait for.
type dialing struct {
	done chan struct{}
	conn *conn
	err  error
}

// New checks the configuration. It does not connect: see Ping.
func New(cfg Config) (*Client, error) {
	c := &Client{cfg: cfg.withDefaults(), coord: memcoord.New()}
	if c.cfg.DialTimeout < 0 || c.cfg.RequestTimeout < 0 || c.cfg.MaxMessage < 0 {
		return nil, errors.New("DialTimeout, RequestTimeout and MaxMessage must not be negative")
	}
	c.ctx, c.cancel = context.WithCancel(context.Background())
	for _, s := range strings.Split(c.cfg.Servers, ",") {
		addr, err := parseServer(strings.TrimSpace(s))
		if err != nil {
			return nil, err
		}
		c.servers = append(c.servers, addr)
	}
	return c, nil
}

// parseServer returns the host:port of a broker's address. The scheme may be left out.
func parseServer(s string) (string, error) {
	addr, _ := strings.CutPrefix(s, "meta://")
	host, port, err := net.SplitHostPort(addr)
	if err != nil || host == "" || port == "" {
		return "", fmt.Errorf("server %q: want meta://host:port", s)
	}
	return addr, nil
}

// Close ends all connections. Producers and consumers are closed before it by their own Close; what they still do fails.
// Twice is fine. Not to be called by the callback of a send.
func (c *Client) Close() error {
	c.mu.Lock()
	c.closed = true
	conn := c.conn
	c.conn = nil
	c.mu.Unlock()
	c.cancel()
	if conn != nil {
		conn.fail(ErrClosed)
	}
	c.conns.Wait()
	return nil
}

// Ping connects, if there is no connection, and waits for one answer. The error says what to do if no broker is there.
func (c *Client) Ping(ctx context.Context) error {
	_, err := c.Version(ctx)
	return err
}

// Version returns what the broker answers to version.
func (c *Client) Version(ctx context.Context) (string, error) {
	return c.text(ctx, &protocol.Request{Verb: protocol.VerbVersion})
}

// Stats returns the broker's answer to a stats request, verbatim; an empty item asks for the broker itself.
func (c *Client) Stats(ctx context.Context, item string) (string, error) {
	if item != "" {
		if err := validName("item", item); err != nil {
			return "", err
		}
	}
	return c.text(ctx, &protocol.Request{Verb: protocol.VerbStats, Item: []byte(item)})
}

// Partitions returns the partitions of a topic, in order. For a broker that speaks no topics they are those that have
// been written to.
func (c *Client) Partitions(ctx context.Context, topic string) ([]Partition, error) {
	if err := validName("topic", topic); err != nil {
		return nil, err
	}
	conn, err := c.connection(ctx)
	if err != nil {
		return nil, err
	}
	if !conn.ext.Has(protocol.VerbTopics) {
		return conn.partitionsFromStats(ctx, topic)
	}
	text, err := conn.text(ctx, &protocol.Request{Verb: protocol.VerbTopics, Topic: []byte(topic)})
	if err != nil {
		return nil, fmt.Errorf("topic %s: %w", topic, err)
	}
	var name string
	var n int
	if _, err := fmt.Sscan(text, &name, &n); err != nil || name != topic || n < 1 {
		return nil, fmt.Errorf("topic %s: broker answers %.100q", topic, text)
	}
	parts := make([]Partition, n)
	for i := range parts {
		parts[i] = Partition{Broker: conn.brokerID, Number: i}
	}
	return parts, nil
}

func (c *conn) partitionsFromStats(ctx context.Context, topic string) ([]Partition, error) {
	text, err := c.text(ctx, &protocol.Request{Verb: protocol.VerbStats, Item: []byte("offsets")})
	if err != nil {
		return nil, fmt.Errorf("topic %s: %w", topic, err)
	}
	var parts []Partition
	for _, line := range strings.Split(text, "\r\n") {
		var name, word string
		var n int
		if _, err := fmt.Sscan(line, &name, &word, &n); err == nil && name == topic && word == "part" {
			parts = append(parts, Partition{Broker: c.brokerID, Number: n})
		}
	}
	sortPartitions(parts)
	return parts, nil
}

// Offsets returns the offset of the first byte that a partition keeps and the one behind its last readable byte. Both are
// 0 for a partition that was never written to.
func (c *Client) Offsets(ctx context.Context, topic string, p Partition) (start, end int64, err error) {
	start, err = c.nearest(ctx, topic, p, 0)
	if err == nil {
		end, err = c.nearest(ctx, topic, p, protocol.MaxOffset)
	}
	var status *protocol.StatusError
	if errors.As(err, &status) && status.Code == protocol.NotFound {
		return 0, 0, nil
	}
	return start, end, err
}

func (c *Client) nearest(ctx context.Context, topic string, p Partition, offset int64) (int64, error) {
	text, err := c.text(ctx, &protocol.Request{
		Verb: protocol.VerbOffset, Topic: []byte(topic), Group: []byte(noGroup), Partition: int32(p.Number), Offset: offset,
	})
	if err != nil {
		return 0, fmt.Errorf("offsets of %s %s: %w", topic, p, err)
	}
	n, ok := protocol.ParseOffset([]byte(text))
	if !ok {
		return 0, fmt.Errorf("offsets of %s %s: broker answers %.100q", topic, p, text)
	}
	return n, nil
}

// noGroup is the group in requests that are made for none; the field must not be empty.
const noGroup = "none"

// text makes a request and returns the text of the result.
func (c *Client) text(ctx context.Context, q *protocol.Request) (string, error) {
	conn, err := c.connection(ctx)
	if err != nil {
		return "", err
	}
	return conn.text(ctx, q)
}

// connection returns the living connection or makes one.
func (c *Client) connection(ctx context.Context) (*conn, error) {
	c.mu.Lock()
	if c.closed {
		c.mu.Unlock()
		return nil, ErrClosed
	}
	if c.conn != nil && c.conn.alive() {
		defer c.mu.Unlock()
		return c.conn, nil
	}
	d := c.dial
	if d == nil {
		d = &dialing{done: make(chan struct{})}
		c.dial = d
		c.conns.Go(func() { c.connect(d) })
	}
	c.mu.Unlock()
	select {
	case <-d.done:
		return d.conn, d.err
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// connect tries the servers in turn.
func (c *Client) connect(d *dialing) {
	var errs []error
	for _, addr := range c.servers {
		conn, err := c.dialOne(addr)
		if err == nil {
			d.conn, errs = conn, nil
			break
		}
		errs = append(errs, err)
	}
	if len(errs) > 0 {
		d.err = fmt.Errorf("%w: %w", ErrNoBroker, errors.Join(errs...))
	}
	c.mu.Lock()
	c.dial = nil
	if c.closed {
		if d.conn != nil {
			d.conn.fail(ErrClosed)
		}
		d.conn, d.err = nil, ErrClosed
	}
	if d.conn != nil {
		c.conn = d.conn
	}
	c.mu.Unlock()
	close(d.done)
}

func (c *Client) dialOne(addr string) (*conn, error) {
	ctx, cancel := context.WithTimeout(c.ctx, c.cfg.DialTimeout)
	defer cancel()
	nc, err := c.cfg.Dial(ctx, addr)
	if err != nil {
		return nil, err
	}
	conn := newConn(nc, addr, c.cfg)
	c.conns.Go(conn.readAll)
	c.conns.Go(conn.writeAll)
	c.conns.Go(conn.keep)
	if err := conn.greet(ctx); err != nil {
		conn.fail(err)
		return nil, fmt.Errorf("greet %s: %w", addr, err)
	}
	return conn, nil
}
