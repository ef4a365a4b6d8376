// Package brokertest is the real broker inside a test.
//
// Tests of whatever talks to a broker (client, spout, tail4go, the demo) start one with [Start] and forget about it: it
// listens on a free port of the loopback interface, keeps its data in the test's temporary folder, stops when the test ends,
// and fails the test if it does not stop cleanly. With [InMemory] there is neither network nor disk, so that broker and client run
// in a bubble of testing/synctest, where time is the test's, and the broker can be killed or lose its power:
//
//	synctest.Test(t, func(t *testing.T) {
//		b := brokertest.Start(t, brokertest.InMemory(), brokertest.Topic("orders", 4))
//		c, err := client.New(client.Config{Servers: b.Addr(), Dial: b.Dial})
//		…
//		b.Kill() // as kill -9: only what reached the disk is there afterwards
//	})
package brokertest

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"maps"
	"math/rand/v2"
	"net"
	"sync"
	"testing"

	"github.com/metaq-go/metaq/broker"
	"github.com/metaq-go/metaq/internal/vfs"
	"github.com/metaq-go/metaq/internal/vfs/faultfs"
)

// Option changes how a broker is started.
type Option func(*Broker)

// Topic adds a topic. A broker without any makes each topic at its first put.
func Topic(name string, partitions int) Option {
	return func(b *Broker) {
		topics := maps.Clone(b.cfg.Topics)
		if topics == nil {
			topics = make(map[string]int)
		}
		topics[name] = partitions
		b.cfg.Topics = topics
	}
}

// InMemory keeps the data in memory, as a disk that can be crashed, and lets clients connect by pipes, through Dial only. It is
// for Start.
func InMemory() Option {
	return func(b *Broker) { b.mem = vfs.NewMem() }
}

// Configure changes the configuration, except FS, Addr and Listener. Log goes to the test unless it is changed, Dir is a
// temporary folder unless it is given.
func Configure(f func(*broker.Config)) Option {
	return func(b *Broker) { f(&b.cfg) }
}

// Broker is a running broker. Its methods are to be called by the test's goroutine, except Addr and Dial, which anybody
// may call.
type Broker struct {
	t     testing.TB
	cfg   broker.Config
	mem   *vfs.Mem // nil: the operating system's files
	disk  *faultfs.FS
	holds []func()

	tcp   net.Listener // nil in memory
	doors sync.WaitGroup

	mu  sync.Mutex
	run *run // nil while stopped
}

// run is one life of a broker.
type run struct {
	broker   *broker.Broker
	listener *Listener
	stop     context.CancelFunc
	done     chan error
}

// Start starts a broker. It is stopped when t ends, and t fails if it returns an error then.
func Start(t testing.TB, opts ...Option) *Broker {
	t.Helper()
	b := &Broker{t: t}
	b.cfg.Log = slog.New(slog.NewTextHandler(t.Output(), nil))
	for _, opt := range opts {
		opt(b)
	}
	if b.mem != nil {
		b.cfg.Dir = cmp.Or(b.cfg.Dir, "data")
	} else {
		b.cfg.Dir = cmp.Or(b.cfg.Dir, t.TempDir())
		b.listen()
	}
	b.begin()
	t.Cleanup(b.end)
	return b
}

// listen takes a port for all lives of the broker: one that is given up could be taken by another process.
func (b *Broker) listen() {
	b.t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		b.t.Fatal(err)
	}
	b.tcp = l
	b.doors.Go(func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			if run := b.running(); run == nil || !run.listener.hand(conn) {
				conn.Close()
			}
		}
	})
}

// begin opens and runs a broker on the data there is.
func (b *Broker) begin() {
	b.t.Helper()
	fsys := vfs.OS()
	if b.mem != nil {
		fsys = b.mem
	}
	addr := net.Addr(pipeAddr{})
	if b.tcp != nil {
		addr = b.tcp.Addr()
	}
	b.disk = faultfs.New(fsys)
	cfg := b.cfg
	r := &run{listener: newListener(addr), done: make(chan error, 1)}
	cfg.FS, cfg.Listener = b.disk, r.listener
	var err error
	if r.broker, err = broker.Open(cfg); err != nil {
		b.t.Fatalf("open broker: %v", err)
	}
	ctx, stop := context.WithCancel(context.Background()) // the test's ends before its cleanups
	r.stop = stop
	go func() { r.done <- r.broker.Run(ctx) }()
	b.mu.Lock()
	b.run = r
	b.mu.Unlock()
}

func (b *Broker) running() *run {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.run
}

// Addr returns the address for clients. It stays the same over Restart, Kill and Crash.
func (b *Broker) Addr() string {
	if b.tcp != nil {
		return b.tcp.Addr().String()
	}
	return pipeAddr{}.String()
}

// Dial connects to the broker, whatever addr says, as a client.Config.Dial does. It returns ECONNREFUSED while the
// broker is stopped.
func (b *Broker) Dial(ctx context.Context, addr string) (net.Conn, error) {
	if b.tcp != nil {
		return new(net.Dialer).DialContext(ctx, "tcp", b.Addr())
	}
	run := b.running()
	if run == nil {
		return nil, refused(pipeAddr{})
	}
	return run.listener.Dial(ctx, addr)
}

// Broker returns the broker that runs now, nil while it is stopped.
func (b *Broker) Broker() *broker.Broker {
	if run := b.running(); run != nil {
		return run.broker
	}
	return nil
}

// Disk returns the file system of the broker that runs now, for faults of the test's own. Segments are named *.meta.
// Restart, Kill and Crash make a new one, without faults.
func (b *Broker) Disk() *faultfs.FS { return b.disk }

// FailPuts lets every write to the log fail with err, ENOSPC for example, until heal is called.
func (b *Broker) FailPuts(err error) (heal func()) {
	return b.disk.Add(faultfs.Rule{Op: vfs.OpWrite, Path: "*.meta", Err: err}).Remove
}

// FailSyncs lets every sync of the log fail with err. Partitions written meanwhile take no more messages until
// Restart.
func (b *Broker) FailSyncs(err error) (heal func()) {
	return b.disk.Add(faultfs.Rule{Op: vfs.OpDatasync, Path: "*.meta", Err: err}).Remove
}

// HoldCommits lets the disk take its time: puts are neither stored nor answered until release is called or the broker is
// stopped. With Config.Relaxed nothing waits.
func (b *Broker) HoldCommits() (release func()) {
	gate := make(chan struct{})
	fault := b.disk.Add(faultfs.Rule{Op: vfs.OpDatasync, Path: "*.meta", Before: func(vfs.Op) { <-gate }})
	release = sync.OnceFunc(func() {
		fault.Remove()
		close(gate)
	})
	b.holds = append(b.holds, release)
	return release
}

// Stop stops the broker in order, as SIGTERM does. Stopping a stopped one is fine.
func (b *Broker) Stop() {
	b.t.Helper()
	if err := b.stop(); err != nil {
		b.t.Errorf("stop broker: %v", err)
	}
}

// Restart stops the broker in order, if it runs, and starts another on the same data, configured as before but for opts.
func (b *Broker) Restart(opts ...Option) {
	b.t.Helper()
	b.Stop()
	for _, opt := range opts {
		opt(b)
	}
	b.begin()
}

// Kill ends the broker as kill -9 does and starts another on what was written. Connections are cut first, so that nothing
// is acknowledged that is not there afterwards. Only for a broker InMemory.
func (b *Broker) Kill() {
	b.t.Helper()
	b.fell("Kill", b.memory("Kill").Kill)
}

// Crash is Kill with a loss of power: of what was not synced some is gone, by the choice of seed. Only for a broker
// InMemory.
func (b *Broker) Crash(seed uint64) {
	b.t.Helper()
	b.fell("Crash", func() *vfs.Mem { return b.memory("Crash").Crash(rand.New(rand.NewPCG(seed, seed))) })
}

func (b *Broker) memory(what string) *vfs.Mem {
	b.t.Helper()
	if b.mem == nil {
		b.t.Fatalf("brokertest: %s needs a broker started with InMemory", what)
	}
	return b.mem
}

// fell cuts the connections, takes what is left of the disk, and lets the broker end on a disk that nobody looks at.
func (b *Broker) fell(what string, left func() *vfs.Mem) {
	b.t.Helper()
	r := b.running()
	if r == nil {
		b.t.Fatalf("brokertest: %s of a stopped broker", what)
	}
	r.listener.cut()
	b.mem = left()
	_ = b.stop() // on a disk that is no longer there
	b.begin()
}

// release ends all HoldCommits.
func (b *Broker) release() {
	for _, release := range b.holds {
		release()
	}
	b.holds = nil
}

// stop ends the broker that runs and returns what it has to say.
func (b *Broker) stop() error {
	b.mu.Lock()
	r := b.run
	b.run = nil
	b.mu.Unlock()
	if r == nil {
		return nil
	}
	r.stop()
	b.release()
	err := <-r.done
	return errors.Join(err, r.broker.Close())
}

// end is the cleanup.
func (b *Broker) end() {
	b.Stop()
	if b.tcp != nil {
		if err := b.tcp.Close(); err != nil {
			b.t.Errorf("brokertest: %v", err)
		}
	}
	b.doors.Wait()
}
