package demo

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"time"

	_ "modernc.org/sqlite" // the driver of demo.db

	"github.com/metaq-go/metaq/broker"
	"github.com/metaq-go/metaq/client"
	"github.com/metaq-go/metaq/pipeline"
	"github.com/metaq-go/metaq/sinks/parquet"
	"github.com/metaq-go/metaq/sinks/sqldb"
	"github.com/metaq-go/metaq/spout"
	"github.com/metaq-go/metaq/tail4go"
)

const (
	topic      = "access"
	partitions = 4
)

// flow is everything that runs, from the application to the sinks.
type flow struct {
	cfg      Config
	dir      string
	broker   *broker.Broker
	client   *client.Client
	producer *client.Producer
	db       *sql.DB
	app      *app // nil with Config.Log
	agent    *tail4go.Agent
	store    *pipeline.Topology
	alerting *pipeline.Topology
	began    time.Time
	took     time.Duration // from the first line to the last row

	rows, files witness // what SQLite and Parquet confirmed
	seen        [members]witness
	alerts      alerts
	latency     *latencies
}

// openFlow makes and binds everything, without starting it.
func openFlow(cfg Config, dir string) (f *flow, err error) {
	f = &flow{cfg: cfg, dir: dir, latency: newLatencies()}
	defer func() {
		if err != nil {
			err = errors.Join(err, f.close())
		}
	}()
	for _, sub := range []string{"logs", "parquet", "offsets"} {
		if err := os.Mkdir(filepath.Join(dir, sub), 0o755); err != nil {
			return f, err
		}
	}
	f.broker, err = broker.Open(broker.Config{
		Dir: filepath.Join(dir, "broker"), Addr: "127.0.0.1:0", Topics: map[string]int{topic: partitions}, Log: cfg.Logger,
	})
	if err != nil {
		return f, err
	}
	f.client, err = client.New(client.Config{Servers: "meta://" + f.broker.Addr().String(), Log: cfg.Logger})
	if err != nil {
		return f, err
	}
	f.producer = f.client.Producer(client.ProducerConfig{Resend: true})
	if f.db, err = openDB(filepath.Join(dir, "demo.db")); err != nil {
		return f, err
	}
	if cfg.Log == "" {
		if f.app, err = openApp(filepath.Join(dir, "logs")); err != nil {
			return f, err
		}
	}
	if err := f.openAgent(); err != nil {
		return f, err
	}
	return f, f.declare()
}

// openDB opens the SQLite file in the mode in which readers do not hold up the writer.
func openDB(name string) (*sql.DB, error) {
	db, err := sql.Open("sqlite", "file:"+name+"?_pragma=journal_mode(WAL)&_pragma=synchronous(FULL)&_pragma=busy_timeout(10000)")
	if err != nil {
		return nil, fmt.Errorf("SQLite: %w", err)
	}
	db.SetMaxOpenConns(1) // one writer at a time is what SQLite has
	return db, nil
}

func (f *flow) openAgent() (err error) {
	in := tail4go.Input{Topic: topic, Patterns: []string{tail4go.QuotePattern(filepath.Join(f.dir, "logs")) + "/access.log*"}}
	cfg := tail4go.Config{StateDir: filepath.Join(f.dir, "agent"), KeepCR: true, RotateWait: time.Second, Logger: f.cfg.Logger}
	if f.cfg.Log != "" {
		if _, err := os.Stat(f.cfg.Log); err != nil {
			return err
		}
		in.Patterns = []string{tail4go.QuotePattern(f.cfg.Log)}
		cfg.Idle, cfg.IdlePartial = 500*time.Millisecond, true
	}
	cfg.Inputs = []tail4go.Input{in}
	f.agent, err = tail4go.Open(cfg, f.producer)
	return err
}

// declare builds the two topologies.
func (f *flow) declare() error {
	decode := parse
	if f.cfg.Log != "" {
		decode = raw
	}
	source := func() pipeline.Source[client.Message] {
		return spout.Topic(topic, spout.Client(f.client), spout.Offsets(client.FileOffsets(filepath.Join(f.dir, "offsets"))))
	}
	files, err := parquet.Open[record](parquet.Config{Dir: filepath.Join(f.dir, "parquet"), Prefix: "access"})
	if err != nil {
		return err
	}
	rows := sqldb.Insert[record](f.db, "records", sqldb.CreateTable())

	f.store = pipeline.New("store", pipeline.Config{Mode: pipeline.Ordered, Logger: f.cfg.Logger})
	records := pipeline.From(f.store, source(), decode)
	records.To(&watched{Sink: rows, witness: &f.rows, latency: f.latency}, pipeline.Batch(1000, 100*time.Millisecond))
	records.To(&watched{Sink: files, witness: &f.files}, pipeline.Batch(20_000, 2*time.Second))
	if f.cfg.Log == "" {
		counts := pipeline.Bolt(records.By(func(r record) string { return r.Route }), "count", newCounter, pipeline.Parallel(2))
		counts.To(sqldb.Upsert[count](f.db, "counts", sqldb.CreateTable()), pipeline.Batch(1000, 200*time.Millisecond))
	}

	f.alerting = pipeline.New("alerts", pipeline.Config{Mode: pipeline.Broadcast, Instances: members, Logger: f.cfg.Logger})
	pipeline.From(f.alerting, source(), decode).ToEach(func(t pipeline.Task) (pipeline.Sink[record], error) {
		return &member{witness: &f.seen[t.Index], alerts: &f.alerts}, nil
	})
	return nil
}

// drainTime is how long what was written may take to arrive everywhere after the writing has ended.
const drainTime = 60 * time.Second

// run runs everything until the time is up, ctx ends, or the file is shipped, and then until all of it has arrived.
func (f *flow) run(ctx context.Context) error {
	f.began = time.Now()
	running, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
	defer cancel(nil)
	var group sync.WaitGroup
	var mu sync.Mutex
	var errs []error
	start := func(what string, ctx context.Context, run func(context.Context) error) {
		group.Go(func() {
			if err := run(ctx); err != nil {
				mu.Lock()
				errs = append(errs, fmt.Errorf("%s: %w", what, err))
				mu.Unlock()
				cancel(err)
			}
		})
	}
	brokerCtx, stopBroker := context.WithCancel(context.WithoutCancel(ctx))
	var brokerDone sync.WaitGroup
	brokerDone.Go(func() {
		if err := f.broker.Run(brokerCtx); err != nil {
			cancel(fmt.Errorf("broker: %w", err))
		}
	})
	start("store topology", running, f.store.Run)
	start("alerts topology", running, f.alerting.Run)
	show := startProgress(f.cfg.Progress, f)
	err := f.write(ctx, running)
	if err == nil {
		err = f.arrive(running)
	}
	f.took = time.Since(f.began)
	show()
	cancel(nil)
	group.Wait()
	stopBroker()
	brokerDone.Wait()
	return errors.Join(append(errs, err)...)
}

// write lets the log be written and shipped, and returns when the broker has acknowledged all of it.
func (f *flow) write(ctx, running context.Context) error {
	shipping, stopShipping := context.WithCancel(running)
	defer stopShipping()
	shipped := make(chan error, 1)
	go func() { shipped <- f.agent.Run(shipping) }()
	if f.app == nil {
		stop := context.AfterFunc(ctx, stopShipping)
		defer stop()
		return <-shipped
	}
	writing, stopWriting := context.WithTimeout(ctx, f.cfg.Time)
	defer stopWriting()
	stop := context.AfterFunc(running, stopWriting)
	defer stop()
	err := f.app.run(writing)
	_, bytes, _ := f.app.log.written()
	err = errors.Join(err, f.until(running, "the agent to ship the log", func() bool { return f.agent.Stats().Acked >= bytes }))
	stopShipping()
	return errors.Join(err, <-shipped)
}

// arrive waits until every record of the topic is in every sink.
func (f *flow) arrive(ctx context.Context) error {
	want := f.agent.Stats().Lines
	return f.until(ctx, "records to arrive in the sinks", func() bool {
		least := min(f.rows.count(), f.files.count())
		for i := range f.seen {
			least = min(least, f.seen[i].count())
		}
		return least >= want
	})
}

// until waits for a condition, at most drainTime. Running out of time is no error: the ledger will show what is missing.
func (f *flow) until(ctx context.Context, what string, done func() bool) error {
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	late := time.NewTimer(drainTime)
	defer late.Stop()
	for !done() {
		select {
		case <-tick.C:
		case <-late.C:
			f.cfg.Logger.Warn("gave up waiting for " + what)
			return nil
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	return nil
}

// close gives everything back, the last first.
func (f *flow) close() error {
	var errs []error
	if f.agent != nil {
		errs = append(errs, f.agent.Close())
	}
	if f.producer != nil {
		errs = append(errs, f.producer.Close())
	}
	if f.client != nil {
		errs = append(errs, f.client.Close())
	}
	if f.db != nil {
		errs = append(errs, f.db.Close())
	}
	if f.broker != nil {
		errs = append(errs, f.broker.Close())
	}
	return errors.Join(errs...)
}

// withBroker opens the stopped broker once more, for as long as use takes.
func (f *flow) withBroker(use func(context.Context, *client.Client) error) (err error) {
	if err := f.broker.Close(); err != nil {
		return err
	}
	b, err := broker.Open(broker.Config{
		Dir: filepath.Join(f.dir, "broker"), Addr: "127.0.0.1:0", Topics: map[string]int{topic: partitions}, Log: f.cfg.Logger,
	})
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- b.Run(ctx) }()
	c, err := client.New(client.Config{Servers: "meta://" + b.Addr().String(), Log: f.cfg.Logger})
	if err == nil {
		err = errors.Join(use(ctx, c), c.Close())
	}
	cancel()
	return errors.Join(err, <-done, b.Close())
}
