package server_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"

	"go.uber.org/goleak"

	"github.com/metaq-go/metaq/broker/brokertest"
	"github.com/metaq-go/metaq/broker/server"
	"github.com/metaq-go/metaq/broker/store"
	"github.com/metaq-go/metaq/internal/vfs"
	"github.com/metaq-go/metaq/internal/vfs/faultfs"
	"github.com/metaq-go/metaq/protocol"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// topics are the topics of a test: their numbers of partitions, and what is closed.
type topics struct {
	mu     sync.Mutex
	n      map[string]int
	closed map[string]bool
}

func (t *topics) Partitions(topic []byte) int { return t.n[string(topic)] }

func (t *topics) Names() []string { return slices.Sorted(maps.Keys(t.n)) }

func (t *topics) Closed(topic []byte, partition int) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return len(t.closed) > 0 && t.closed[fmt.Sprintf("%s-%d", topic, partition)]
}

func (t *topics) close(partition string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.closed[partition] = true
}

// rig is a server on a store in memory, with topics t (4 partitions) and u (1). Unless its Config says otherwise clients
// connect by pipes.
type rig struct {
	*server.Server
	t      testing.TB
	store  *store.Store
	mem    *vfs.Mem
	disk   *faultfs.FS // mem, with faults
	topics *topics
	net    *brokertest.Listener
	stop   func() // in order, as a broker does; twice is fine
}

func (t *topics) open(partition string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.closed, partition)
}

// setup is how a rig is made.
type setup struct {
	mem    *vfs.Mem // data of a rig that is stopped; nil: none
	store  store.Config
	server func(*server.Config)
}

// start starts a rig in a bubble or outside. configure may be nil.
func start(t testing.TB, configure func(*server.Config)) *rig {
	t.Helper()
	return setup{server: configure}.start(t)
}

func (s setup) start(t testing.TB) *rig {
	t.Helper()
	if s.mem == nil {
		s.mem = vfs.NewMem()
	}
	r := &rig{
		t: t, mem: s.mem, disk: faultfs.New(s.mem), net: brokertest.NewListener(),
		topics: &topics{n: map[string]int{"t": 4, "u": 1}, closed: make(map[string]bool)},
	}
	if s.store.FS == nil {
		s.store.FS, s.store.Dir = r.disk, "data"
	}
	s.store.Log = slog.New(slog.NewTextHandler(t.Output(), nil))
	var err error
	if r.store, err = store.Open(s.store); err != nil {
		t.Fatal(err)
	}
	cfg := server.Config{
		Listener: r.net, Store: r.store, Topics: r.topics, Version: "0", UpdateOffsets: true, Log: s.store.Log,
	}
	if s.server != nil {
		s.server(&cfg)
	}
	if r.Server, err = server.Open(cfg); err != nil {
		t.Fatal(err)
	}
	r.run()
	t.Cleanup(r.stop)
	return r
}

func (r *rig) run() {
	serving, stopServing := context.WithCancel(context.Background())
	storing, stopStoring := context.WithCancel(context.Background())
	served, stored := make(chan error, 1), make(chan error, 1)
	go func() { served <- r.Run(serving) }()
	go func() { stored <- r.store.Run(storing) }()
	r.stop = sync.OnceFunc(func() {
		stopServing()
		err := <-served
		stopStoring()
		if err = errors.Join(err, <-stored, r.Close(), r.store.Close()); err != nil {
			r.t.Errorf("stop: %v", err)
		}
	})
}

func (r *rig) connect() *brokertest.Peer {
	r.t.Helper()
	return brokertest.Connect(r.t, r.net.Dial)
}

// hold lets commits wait until release is called.
func (r *rig) hold() (release func()) {
	gate := make(chan struct{})
	fault := r.disk.Add(faultfs.Rule{Op: vfs.OpDatasync, Path: "*.meta", Before: func(vfs.Op) { <-gate }})
	return sync.OnceFunc(func() {
		fault.Remove()
		close(gate)
	})
}

// content returns the records of a partition from the store.
func (r *rig) content(topic string, partition int) (records []protocol.Record) {
	r.t.Helper()
	l := r.store.Log([]byte(topic), partition)
	if l == nil {
		return nil
	}
	var all []byte
	for l.Start()+int64(len(all)) < l.End() {
		chunk, err := l.Locate(l.Start()+int64(len(all)), 1<<30)
		if err != nil {
			r.t.Fatal(err)
		}
		if all, err = chunk.AppendTo(all); err != nil {
			r.t.Fatal(err)
		}
	}
	rest := len(all)
	for _, rec := range protocol.Records(all) {
		if err := rec.Verify(); err != nil {
			r.t.Errorf("%s-%d: %v", topic, partition, err)
		}
		rest -= rec.Size()
		records = append(records, rec)
	}
	if rest != 0 {
		r.t.Errorf("%s-%d ends with %d bytes that are no record", topic, partition, rest)
	}
	return records
}

// bodies returns the bodies of a partition's records, each followed by a semicolon.
func (r *rig) bodies(topic string, partition int) string {
	r.t.Helper()
	var b strings.Builder
	for _, rec := range r.content(topic, partition) {
		fmt.Fprintf(&b, "%s;", rec.Body)
	}
	return b.String()
}

// put returns a request without a checksum.
func put(topic string, partition, opaque int, body string) string {
	return fmt.Sprintf("put %s %d %d 0 %d\r\n%s", topic, partition, len(body), opaque, body)
}

// batch returns an append of the bodies.
func batch(topic string, partition, opaque int, bodies ...string) string {
	var records []byte
	for _, b := range bodies {
		records = protocol.AppendRecord(records, 0, 0, []byte(b))
	}
	return fmt.Sprintf("append %s %d %d %d %d\r\n%s", topic, partition, len(records), len(bodies), opaque, records)
}

// failed is the text of a refused put.
func failed(partition, detail string) string {
	return "Put message to [broker 'meta://127.0.0.1:8123'] [partition '" + partition + "'] failed.Detail:" + detail
}

// result returns an answer.
func result(code, opaque int, text string) string {
	return fmt.Sprintf("result %d %d %d\r\n%s", code, len(text), opaque, text)
}

// answers decodes what a peer received.
func answers(t testing.TB, s string) (list []protocol.Response) {
	t.Helper()
	rd := protocol.NewReader(strings.NewReader(s), protocol.Limits{})
	for {
		var p protocol.Response
		if err := rd.Response(&p); errors.Is(err, io.EOF) {
			return list
		} else if err != nil {
			t.Fatalf("answers end with a broken one: %v\n%q", err, s)
		}
		p.Body = slices.Clone(p.Body)
		list = append(list, p)
	}
}

// storedAt is the answer to a put, decoded.
type storedAt struct {
	opaque    int32
	partition int32
	offset    int64
	id        int64
}

// stored decodes answers that must all be those of successful puts or appends.
func stored(t testing.TB, s string) (list []storedAt) {
	t.Helper()
	for _, p := range answers(t, s) {
		id, partition, offset, ok := protocol.ParseStored(p.Body)
		if p.Code != protocol.OK || !ok {
			t.Fatalf("answer to put %d: got %d %q", p.Opaque, p.Code, p.Body)
		}
		list = append(list, storedAt{opaque: p.Opaque, partition: partition, offset: offset, id: id})
	}
	return list
}
