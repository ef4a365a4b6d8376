// Package spout makes a topic the source of a topology: a pipeline.Source over package client.
//
//	hits := pipeline.From(top, spout.Topic("access", spout.Group("errors")), decodeHit)
//
// client feeds it, pipeline is fed by it. Every task of the source is a member of the consumer group, or, in a topology
// that runs in broadcast mode, a member that receives everything and has positions of its own. What is committed is the
// lowest position that is not done: a message whose sinks have not confirmed comes again after a restart.
package spout

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"time"

	"github.com/metaq-go/metaq/client"
	"github.com/metaq-go/metaq/pipeline"
)

// Option sets something of a source.
type Option func(*source)

// Group names the consumer group; default: the topology's name.
func Group(name string) Option { return func(s *source) { s.consumer.Group = name } }

// Member names this process within the group, which matters in broadcast mode: positions are kept under it. The tasks
// append their numbers. Default: the host's name.
func Member(name string) Option { return func(s *source) { s.consumer.Member = name } }

// Client makes the source use c, which is not closed by it. Default: a client of its own for each topology that runs.
func Client(c *client.Client) Option { return func(s *source) { s.client = c } }

// Server is the address of a broker for the source's own client; default client.DefaultServer.
func Server(addr string) Option { return func(s *source) { s.server = addr } }

// Offsets says where positions are kept; default: in the client, lost with it. See client.FileOffsets.
func Offsets(o client.OffsetStore) Option { return func(s *source) { s.consumer.Offsets = o } }

// StartAt says where a group without a position begins; default client.Earliest.
func StartAt(p client.Start) Option { return func(s *source) { s.consumer.Start = p } }

// Topic returns the source of a topic's messages.
func Topic(topic string, opts ...Option) pipeline.Source[client.Message] {
	s := &source{topic: topic}
	s.consumer.Topics = []string{topic}
	for _, opt := range opts {
		opt(s)
	}
	return s
}

// source describes the topic. Its tasks share the client.
type source struct {
	topic    string
	server   string
	client   *client.Client // given by Client
	consumer client.ConsumerConfig

	mu    sync.Mutex
	own   *client.Client
	users int
}

// Name implements pipeline.Source.
func (s *source) Name() string { return s.topic }

// Open implements pipeline.Source.
func (s *source) Open(ctx context.Context, t pipeline.Task) (pipeline.Spout[client.Message], error) {
	c, err := s.acquire(ctx)
	if err != nil {
		return nil, fmt.Errorf("topic %s: %w", s.topic, err)
	}
	sp := &spout{source: s, parts: make(map[client.TopicPartition]*part), stop: make(chan struct{})}
	cfg := s.consumer
	if cfg.Group == "" {
		cfg.Group = t.Topology
	}
	cfg.OnRevoke = sp.revoke
	if t.Mode == pipeline.Broadcast {
		cfg.Broadcast = true
		if cfg.Member == "" {
			cfg.Member = t.Topology
		}
	}
	if cfg.Member != "" {
		cfg.Member += "-" + strconv.Itoa(t.Index)
	}
	if sp.consumer, err = c.Consumer(cfg); err != nil {
		return nil, errors.Join(fmt.Errorf("topic %s: %w", s.topic, err), s.release())
	}
	sp.group.Go(sp.commit)
	return sp, nil
}

// acquire returns the client and makes sure that a broker is there.
func (s *source) acquire(ctx context.Context) (*client.Client, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	c := s.client
	if c == nil {
		if s.own == nil {
			own, err := client.New(client.Config{Servers: s.server})
			if err != nil {
				return nil, err
			}
			s.own = own
		}
		c = s.own
	}
	s.users++
	if err := c.Ping(ctx); err != nil {
		return nil, errors.Join(err, s.releaseLocked())
	}
	return c, nil
}

func (s *source) release() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.releaseLocked()
}

func (s *source) releaseLocked() error {
	if s.users--; s.users > 0 || s.own == nil {
		return nil
	}
	own := s.own
	s.own = nil
	return own.Close()
}

// spout is the source of one task.
type spout struct {
	source   *source
	consumer *client.Consumer
	group    sync.WaitGroup
	stop     chan struct{}

	mu      sync.Mutex
	closing bool // every tuple handed out is settled
	parts   map[client.TopicPartition]*part
	batch   *client.Batch // being handed out
	current *part         // of batch
}

// part is what is in flight of a partition.
type part struct {
	client.TopicPartition
	name    string // TOPIC/BROKER-NUMBER, as errors name it
	tracker pipeline.Tracker
}

// Next implements pipeline.Spout. The values belong to whoever got them: batches are not released.
func (s *spout) Next(ctx context.Context, dst []pipeline.Tuple[client.Message]) (int, error) {
	for {
		if n := s.hand(dst); n > 0 {
			return n, nil
		}
		b, err := s.consumer.Poll(ctx)
		if err != nil {
			return 0, err
		}
		s.take(b)
	}
}

// hand fills dst from the batch.
func (s *spout) hand(dst []pipeline.Tuple[client.Message]) (n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.batch == nil || !s.batch.Held() {
		return 0
	}
	for n < len(dst) {
		t := &dst[n]
		if !s.batch.Next(&t.Value) {
			s.batch = nil
			break
		}
		t.Origin = pipeline.Origin{Partition: s.current.name, Offset: t.Value.Offset}
		t.Ack = s.current.tracker.Add(t.Value.Offset + int64(t.Value.Size()))
		n++
	}
	return n
}

// take makes b the batch to hand out.
func (s *spout) take(b *client.Batch) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !b.Held() {
		return
	}
	tp := client.TopicPartition{Topic: b.Topic, Partition: b.Partition}
	p := s.parts[tp]
	if p == nil {
		p = &part{TopicPartition: tp, name: b.Topic + "/" + b.Partition.String()}
		p.tracker.Start(b.Offset)
		s.parts[tp] = p
	}
	s.batch, s.current = b, p
}

// revoke waits until what was handed out of the partitions is done, or time is up, and commits what is.
func (s *spout) revoke(ctx context.Context, revoked []client.TopicPartition) {
	s.mu.Lock()
	var parts []*part
	for _, tp := range revoked {
		if p := s.parts[tp]; p != nil {
			parts = append(parts, p)
			delete(s.parts, tp)
		}
	}
	settled := s.closing
	s.mu.Unlock()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for _, p := range parts {
		for !settled && p.tracker.Pending() > 0 && ctx.Err() == nil {
			select {
			case <-tick.C:
			case <-ctx.Done():
			}
		}
		s.consumer.Commit(p.Topic, p.Partition, p.tracker.Low())
	}
}

// commitEvery is how often the consumer is told how far the partitions are done; it stores that by its own clock.
const commitEvery = 100 * time.Millisecond

// commit runs beside Next, which may be waiting while the last tuples become done.
func (s *spout) commit() {
	tick := time.NewTicker(commitEvery)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			s.commitNow()
		case <-s.stop:
			return
		}
	}
}

func (s *spout) commitNow() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, p := range s.parts {
		s.consumer.Commit(p.Topic, p.Partition, p.tracker.Low())
	}
}

// Close implements pipeline.Spout.
func (s *spout) Close(context.Context) error {
	close(s.stop)
	s.group.Wait()
	s.mu.Lock()
	s.closing = true
	s.mu.Unlock()
	return errors.Join(s.consumer.Close(), s.source.release())
}
