// Package broker is the broker assembled: log store, server for clients, HTTP for operators.
//
// Embed one in a program or a test:
//
//	b, err := broker.Open(broker.Config{Dir: "data", Addr: "127.0.0.1:0"})
//	…
//	go b.Run(ctx)
//	fmt.Println(b.Addr())
//
// Clients (package client, or MetaQ's own) talk to its server; the parts below this folder do not know each other
// except that the server appends to and reads from the store.
package broker

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"net"
	"sync/atomic"
	"time"

	"github.com/metaq-go/metaq/broker/admin"
	"github.com/metaq-go/metaq/broker/server"
	"github.com/metaq-go/metaq/broker/store"
	"github.com/metaq-go/metaq/internal/vfs"
	"github.com/metaq-go/metaq/protocol"
)

// Version is metaq's, as brokers tell it to clients and the command line prints it.
const Version = "0.1.0"

// Config says what a broker keeps and where it listens. Dir is required.
type Config struct {
	Dir      string         // data folder; made if missing
	Addr     string         // for clients; default 127.0.0.1:8123, port 0 takes a free one
	HTTP     string         // for operators: /metrics, /healthz, /readyz; empty = none, port 0 takes a free one
	Listener net.Listener   // instead of Addr
	BrokerID int            // 0…1023
	Topics   map[string]int // topics taken, with their numbers of partitions; empty: any topic is made at its first put
	// Partitions is how many a topic gets that is made at its first put; default 1.
	Partitions    int
	SegmentSize   int64         // default 1 GiB
	Relaxed       bool          // acknowledge before the sync: a power cut may lose the last FlushInterval
	FlushInterval time.Duration // with Relaxed; default 1 s
	MaxMessage    int           // bytes of the biggest message taken; default 16 MiB
	DrainTimeout  time.Duration // how long a stopping broker lets clients finish; default 5 s
	FS            vfs.FS        // default: the operating system's
	Log           *slog.Logger  // default: discarded
}

func (c Config) withDefaults() Config {
	c.Addr = cmp.Or(c.Addr, "127.0.0.1:8123")
	c.Partitions = cmp.Or(c.Partitions, 1)
	c.MaxMessage = cmp.Or(c.MaxMessage, 16<<20)
	if c.FS == nil {
		c.FS = vfs.OS()
	}
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	return c
}

// Broker is a running or ready-to-run broker. Its methods are safe for concurrent use.
type Broker struct {
	cfg    Config
	store  *store.Store
	server *server.Server
	topics *topics
	admin  *admin.Server // nil without HTTP
	ready  atomic.Bool
}

// Open locks and recovers the data folder and binds the addresses. Clients may connect from now on and are served from
// Run on. It returns errors of the configuration, of the folder and of the network, each naming what it is about.
func Open(cfg Config) (*Broker, error) {
	b := &Broker{cfg: cfg.withDefaults()}
	if b.cfg.Dir == "" {
		return nil, errors.New("broker: no data folder given")
	}
	if err := b.open(); err != nil {
		return nil, errors.Join(err, b.Close())
	}
	return b, nil
}

// maxPartitions is more than anybody has, and as many as the store looks for on disk.
const maxPartitions = 1 << 20

func (c Config) check() error {
	for name, n := range c.Topics {
		if err := validTopic(name); err != nil {
			return err
		}
		if n < 1 || n > maxPartitions {
			return fmt.Errorf("topic %s: %d partitions, must have 1 to %d", name, n, maxPartitions)
		}
	}
	if c.Partitions < 1 || c.Partitions > maxPartitions {
		return fmt.Errorf("%d partitions for new topics, must be 1 to %d", c.Partitions, maxPartitions)
	}
	if c.MaxMessage < 1 || c.MaxMessage > math.MaxInt32-protocol.HeaderSize {
		return fmt.Errorf("messages of up to %d bytes, must be 1 to %d", c.MaxMessage, math.MaxInt32-protocol.HeaderSize)
	}
	return nil
}

func (b *Broker) open() (err error) {
	if err := b.cfg.check(); err != nil {
		return err
	}
	b.store, err = store.Open(store.Config{
		FS: b.cfg.FS, Dir: b.cfg.Dir, BrokerID: b.cfg.BrokerID, SegmentSize: b.cfg.SegmentSize,
		Relaxed: b.cfg.Relaxed, FlushInterval: b.cfg.FlushInterval, Log: b.cfg.Log,
	})
	if err != nil {
		return err
	}
	b.topics = newTopics(b.cfg, b.store)
	sc := server.Config{
		Addr: b.cfg.Addr, Listener: b.cfg.Listener, Store: b.store, Topics: b.topics, BrokerID: b.cfg.BrokerID,
		Version: Version, MaxMessage: b.cfg.MaxMessage, UpdateOffsets: true, DrainTimeout: b.cfg.DrainTimeout, Log: b.cfg.Log,
	}
	if b.server, err = server.Open(sc); err != nil {
		return err
	}
	if b.cfg.HTTP != "" {
		if b.admin, err = admin.Open(admin.Config{Addr: b.cfg.HTTP, Ready: b.Ready, Collector: collector{b}}); err != nil {
			return err
		}
	}
	return nil
}

// Addr returns the address for clients.
func (b *Broker) Addr() net.Addr { return b.server.Addr() }

// HTTPAddr returns the address for operators, or nil if there is none.
func (b *Broker) HTTPAddr() net.Addr {
	if b.admin == nil {
		return nil
	}
	return b.admin.Addr()
}

// Run serves until ctx ends and then stops in this order: not ready any more, no new connections, no new requests,
// answers to what was read, last commit. It returns nil after a stop in order.
func (b *Broker) Run(ctx context.Context) error {
	storeCtx, stopStore := context.WithCancel(context.WithoutCancel(ctx))
	defer stopStore()
	serveCtx, stopServing := context.WithCancelCause(ctx)
	defer stopServing(nil)

	stored, administered := make(chan error, 1), make(chan error, 1)
	go func() { stored <- b.store.Run(storeCtx) }()
	go func() {
		err := b.runAdmin(serveCtx)
		if err != nil {
			stopServing(err)
		}
		administered <- err
	}()
	b.ready.Store(true)
	stopReady := context.AfterFunc(serveCtx, func() { b.ready.Store(false) })
	defer stopReady()

	err := b.server.Run(serveCtx)
	b.ready.Store(false)
	stopServing(err)
	err = errors.Join(err, <-administered)
	stopStore() // after the last answer: clients wait for commits
	return errors.Join(err, <-stored)
}

func (b *Broker) runAdmin(ctx context.Context) error {
	if b.admin == nil {
		return nil
	}
	return b.admin.Run(ctx)
}

// Close gives up the addresses and the data folder. Call it after Run has returned; twice is fine.
func (b *Broker) Close() error {
	var errs []error
	if b.admin != nil {
		errs = append(errs, b.admin.Close())
	}
	if b.server != nil {
		errs = append(errs, b.server.Close())
	}
	if b.store != nil {
		errs = append(errs, b.store.Close())
	}
	return errors.Join(errs...)
}

// Stats returns the numbers of the server, which stats and /metrics are made of too.
func (b *Broker) Stats() server.Stats { return b.server.Stats() }

// Ready returns nil while the broker serves clients, otherwise why it does not.
func (b *Broker) Ready() error {
	if !b.ready.Load() {
		return errors.New("not serving")
	}
	for _, l := range b.store.Logs() {
		if err := l.Err(); err != nil {
			return fmt.Errorf("partition %s-%d: %w", l.Topic(), l.Partition(), err)
		}
	}
	return nil
}

// ClosePartitions refuses puts to and gets from partitions from…to of a topic with 403 until OpenPartitions. The state
// is lost with the process, as MetaQ's (storage.md 11.1).
func (b *Broker) ClosePartitions(topic string, from, to int) error {
	return b.topics.close(topic, from, to)
}

// OpenPartitions takes back all ClosePartitions of a topic.
func (b *Broker) OpenPartitions(topic string) { b.topics.open(topic) }
