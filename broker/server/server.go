// Package server is the broker's end of the wire: it listens, reads requests, and answers them in order.
//
// Clients feed it; it appends to and reads from broker/store. Each connection has two goroutines. The reader decodes
// requests, gathers puts that follow each other for one partition into one append, and queues what has to be answered.
// The writer answers from the head of that queue: it waits for the commit of a put, reads the bytes of a get, and sends
// what has come together when there is nothing more to add. Nothing is allocated, locked or started per message.
//
// Requests of a connection are answered in the order in which they came, with one exception: a poll that has to wait
// steps out of the queue and is answered when there is data or its time is up.
package server

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/metaq-go/metaq/broker/store"
	"github.com/metaq-go/metaq/protocol"
)

// Topics says which topics the broker takes. Implementations are safe for concurrent use.
type Topics interface {
	// Partitions returns how many partitions topic has, 0 if the broker does not accept it.
	Partitions(topic []byte) int
	// Names returns the topics known by configuration or on disk, sorted.
	Names() []string
	// Closed reports whether an operator closed the partition for puts and gets.
	Closed(topic []byte, partition int) bool
}

// Config says what a Server serves and how much it takes.
type Config struct {
	Addr          string // TCP address to listen on; port 0 takes a free one
	Listener      net.Listener
	Store         *store.Store
	Topics        Topics
	BrokerID      int
	Advertise     string          // this broker's address in messages to clients, meta://host:port; default from the listener
	Version       string          // of metaq
	MaxTransfer   int             // most bytes of an answer to get, unless a single record is bigger; default 1 MiB
	UpdateOffsets bool            // answer a get beyond the end with 301 (MetaQ's updateConsumerOffsets)
	MaxMessage    int             // bytes of the biggest message taken; default Limits.Body if that is given, else 16 MiB
	Limits        protocol.Limits // of lines and bodies; Body default 16 MiB or what a record of MaxMessage needs
	Outstanding   int             // requests of a connection that may wait for their answers before it is read on; default 16384
	IdleTimeout   time.Duration   // a connection without any bytes for so long is closed; default 5 min
	WriteTimeout  time.Duration   // a client that takes no bytes of its answers for so long is cut; default 1 min
	DrainTimeout  time.Duration   // how long Run lets connections finish after its context ended; default 5 s
	ConfigText    func() ([]byte, error)
	Log           *slog.Logger // default: discarded
}

func (c Config) withDefaults() Config {
	c.MaxTransfer = cmp.Or(c.MaxTransfer, 1<<20)
	c.Outstanding = cmp.Or(c.Outstanding, 16384)
	c.IdleTimeout = cmp.Or(c.IdleTimeout, 5*time.Minute)
	c.WriteTimeout = cmp.Or(c.WriteTimeout, time.Minute)
	c.DrainTimeout = cmp.Or(c.DrainTimeout, 5*time.Second)
	c.MaxMessage = cmp.Or(c.MaxMessage, c.Limits.Body, 16<<20)
	c.Limits.Body = cmp.Or(c.Limits.Body, max(16<<20, c.MaxMessage+protocol.HeaderSize))
	c.MaxMessage = min(c.MaxMessage, c.Limits.Body)
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	return c
}

// Server listens and serves. Its methods are safe for concurrent use.
type Server struct {
	cfg      Config
	listener net.Listener
	started  time.Time
	version  string
	counters counters
	chunks   sync.Pool // *chunk, empty
	buffers  sync.Pool // *[]byte, empty
	queues   sync.Pool // *[]reply, empty

	mu       sync.Mutex
	sessions map[*session]struct{}
	group    sync.WaitGroup
	closed   atomic.Bool
}

// Open binds the address; Addr tells the port it got. Connections are served from Run on.
func Open(cfg Config) (*Server, error) {
	s := &Server{cfg: cfg.withDefaults(), started: time.Now(), sessions: make(map[*session]struct{})}
	s.listener = s.cfg.Listener
	if s.listener == nil {
		l, err := net.Listen("tcp", s.cfg.Addr)
		if err != nil {
			return nil, fmt.Errorf("listen for clients: %w", err)
		}
		s.listener = l
	}
	if s.cfg.Advertise == "" {
		s.cfg.Advertise = "meta://" + s.listener.Addr().String()
	}
	x := protocol.Extensions{Version: s.cfg.Version, BrokerID: s.cfg.BrokerID, Verbs: []string{
		protocol.VerbAppend.String(), protocol.VerbPoll.String(), protocol.VerbTopics.String(),
	}}
	s.version = x.String()
	return s, nil
}

// Addr returns the address the server listens on.
func (s *Server) Addr() net.Addr { return s.listener.Addr() }

// Run serves until ctx ends; then it stops listening, reads no more requests, answers those it has read, and returns
// when all connections are closed or DrainTimeout has passed and they were cut.
func (s *Server) Run(ctx context.Context) error {
	stop := context.AfterFunc(ctx, func() { s.listener.Close() })
	defer stop()
	err := s.accept(ctx)
	s.drain()
	return err
}

func (s *Server) accept(ctx context.Context) error {
	for {
		conn, err := s.listener.Accept()
		switch {
		case ctx.Err() != nil:
			if err == nil {
				conn.Close()
			}
			return nil
		case err == nil:
			s.serve(conn)
		case errors.Is(err, net.ErrClosed):
			return fmt.Errorf("listen for clients: %w", err)
		default: // out of descriptors or memory: connections that end will free some
			s.cfg.Log.Warn("can't accept a connection", "err", err)
			select {
			case <-time.After(50 * time.Millisecond):
			case <-ctx.Done():
			}
		}
	}
}

func (s *Server) serve(conn net.Conn) {
	c := newSession(s, conn)
	s.mu.Lock()
	s.sessions[c] = struct{}{}
	s.mu.Unlock()
	s.group.Go(func() {
		c.serve()
		s.mu.Lock()
		delete(s.sessions, c)
		s.mu.Unlock()
	})
}

// drain ends all connections: first by reading no more of them, at the deadline by closing them.
func (s *Server) drain() {
	s.each((*session).stopReading)
	cut := time.AfterFunc(s.cfg.DrainTimeout, func() { s.each((*session).cut) })
	defer cut.Stop()
	s.group.Wait()
}

func (s *Server) each(f func(*session)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for c := range s.sessions {
		f(c)
	}
}

// Close stops listening. Run, if it runs, returns; connections are closed by its end. Twice is fine.
func (s *Server) Close() error {
	if s.closed.Swap(true) {
		return nil
	}
	if err := s.listener.Close(); err != nil && !errors.Is(err, net.ErrClosed) {
		return err
	}
	return nil
}

// connections returns how many are open.
func (s *Server) connections() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.sessions)
}
