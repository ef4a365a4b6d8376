package client

import (
	"cmp"
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/metaq-go/metaq/protocol"
)

// ProducerConfig says how a Producer sends.
type ProducerConfig struct {
	// MaxInFlight bounds the bytes of records that were accepted and not acknowledged yet; a send beyond it waits. Default
	// 32 MiB.
	MaxInFlight int
	// BatchBytes is the biggest batch that is sent as one; default 1 MiB. Batches form by themselves: while one is on its
	// way to a partition the next is collected, and a message that finds its partition idle leaves at once.
	BatchBytes int
	// Timeout is how long a message may wait to be sent while no broker can be reached; default 30 s. Then it fails with
	// ErrTimeout.
	Timeout time.Duration
	// Partition chooses the partition of a message among those of its topic; it returns an index. Default: by the hash of
	// Key if the message has one, else bursts go round.
	Partition func(m *Message, partitions []Partition) int
	// Resend makes the producer send a batch again when the connection was lost before its acknowledgement. Nothing is
	// lost then, but messages may be stored twice. Default: such messages fail with ErrUnknown.
	Resend bool
	// Plain makes the producer speak MetaQ's own protocol, a put for each message, to a broker that could do more.
	Plain bool
}

func (c ProducerConfig) withDefaults() ProducerConfig {
	c.MaxInFlight = cmp.Or(c.MaxInFlight, 32<<20)
	c.BatchBytes = cmp.Or(c.BatchBytes, 1<<20)
	c.Timeout = cmp.Or(c.Timeout, 30*time.Second)
	return c
}

// Producer sends messages to topics. Messages for one partition are stored in the order of the sends, with at most one
// batch on its way at a time, so that a failure can't let later ones overtake.
type Producer struct {
	client *Client
	cfg    ProducerConfig
	ctx    context.Context // ends with Close
	cancel context.CancelFunc
	group  sync.WaitGroup
	kick   chan struct{} // a token: the connector has something to do

	mu       sync.Mutex
	room     *sync.Cond // inFlight fell, or closed
	topics   map[string]*route
	conn     *conn   // what batches are sent on; nil: the connector is to get one
	inFlight int     // bytes of records accepted and not done
	messages int     // of them
	sending  int     // batches on their way
	waiting  []*lane // lanes whose next batch waits for one to come back, or for a connection
	free     []*batch
	closed   bool
	stats    ProducerStats
}

// ProducerStats counts what a producer did.
type ProducerStats struct {
	Messages int64 // acknowledged
	Bytes    int64 // of their records
	Failed   int64 // messages that were not acknowledged
	Batches  int64 // sent
	InFlight int   // bytes accepted and not done
}

// Producer returns a new producer. Close it to free what it holds.
func (c *Client) Producer(cfg ProducerConfig) *Producer {
	p := &Producer{client: c, cfg: cfg.withDefaults(), kick: make(chan struct{}, 1), topics: make(map[string]*route)}
	p.room = sync.NewCond(&p.mu)
	p.ctx, p.cancel = context.WithCancel(context.Background())
	p.group.Go(p.connect)
	return p
}

// Stats returns the numbers as they are now.
func (p *Producer) Stats() ProducerStats {
	p.mu.Lock()
	defer p.mu.Unlock()
	s := p.stats
	s.InFlight = p.inFlight
	return s
}

// Send sends a message and waits until it is acknowledged, that is stored as durably as the broker is configured to.
// Errors are those that SendAsync hands to its callback. If ctx ends first, the message may be stored or not.
func (p *Producer) Send(ctx context.Context, m *Message) (Result, error) {
	type outcome struct {
		res Result
		err error
	}
	ch := make(chan outcome, 1)
	if err := p.SendAsync(ctx, m, func(res Result, err error) { ch <- outcome{res, err} }); err != nil {
		return Result{}, err
	}
	select {
	case o := <-ch:
		return o.res, o.err
	case <-ctx.Done():
		return Result{}, context.Cause(ctx)
	}
}

// SendAsync takes a message over, copies what it needs of it, and returns; done is called once, from a goroutine of the
// client that it must not block, with where the message is, or with ErrUnknown, ErrTimeout, ErrClosed or the broker's
// refusal (*protocol.StatusError); done may be nil. Callbacks for one partition come in the order of the sends.
// SendAsync waits while MaxInFlight bytes are on their way; it returns an error, and calls nothing, if ctx ends, the
// producer is closed, the topic's partitions can't be learned, or the message is too long.
func (p *Producer) SendAsync(ctx context.Context, m *Message, done func(Result, error)) error {
	size := m.Size()
	if size > p.cfg.MaxInFlight {
		return fmt.Errorf("%w: %d bytes, at most %d may be in flight", ErrTooLong, size, p.cfg.MaxInFlight)
	}
	p.mu.Lock()
	for p.inFlight+size > p.cfg.MaxInFlight && p.inFlight > 0 || p.closed {
		if p.closed {
			p.mu.Unlock()
			return ErrClosed
		}
		if err := p.waitRoom(ctx); err != nil {
			p.mu.Unlock()
			return err
		}
	}
	t := p.topics[m.Topic]
	if t == nil {
		p.mu.Unlock()
		if err := p.learn(ctx, m.Topic); err != nil {
			return err
		}
		return p.SendAsync(ctx, m, done)
	}
	l, err := p.choose(t, m)
	if err != nil {
		p.mu.Unlock()
		return err
	}
	p.inFlight += size
	p.messages++
	b := l.add(p, m, size, done)
	if len(b.records) >= burstBytes && t.lanes[t.current] == l {
		t.turn()
	}
	p.offer(l)
	p.mu.Unlock()
	return nil
}

// waitRoom waits for p.room or the end of ctx; p.mu is held before and after.
func (p *Producer) waitRoom(ctx context.Context) error {
	stop := context.AfterFunc(ctx, func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.room.Broadcast()
	})
	defer stop()
	if ctx.Err() == nil {
		p.room.Wait()
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return nil
}

// Flush waits until everything that was sent before is acknowledged or has failed.
func (p *Producer) Flush(ctx context.Context) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	for p.messages > 0 {
		if err := p.waitRoom(ctx); err != nil {
			return err
		}
	}
	return nil
}

// Close takes no more messages, waits until those on their way are done, at most Timeout, and fails the rest with
// ErrClosed. Twice is fine.
func (p *Producer) Close() error {
	p.mu.Lock()
	p.closed = true
	p.room.Broadcast()
	p.mu.Unlock()
	ctx, cancel := context.WithTimeout(context.Background(), p.cfg.Timeout)
	defer cancel()
	err := p.Flush(ctx)
	p.cancel()
	p.group.Wait()
	p.failAll(ErrClosed)
	return err
}

// Abort takes no more messages and fails with ErrClosed what has not been sent. What is on its way is still answered for.
func (p *Producer) Abort() {
	p.mu.Lock()
	p.closed = true
	p.room.Broadcast()
	p.mu.Unlock()
	p.cancel()
	p.failAll(ErrClosed)
}

// learn finds out which partitions a topic has.
func (p *Producer) learn(ctx context.Context, topic string) error {
	ctx, cancel := context.WithTimeout(ctx, p.cfg.Timeout)
	defer cancel()
	var parts []Partition
	err := retry(ctx, func() (err error) {
		conn, err := p.client.connection(ctx)
		if err != nil {
			return err
		}
		if conn.ext.Has(protocol.VerbTopics) {
			parts, err = p.client.Partitions(ctx, topic)
			return err
		}
		// A broker found by its address chooses the partition itself: MetaQ's own clients do the same (protocol.md 4.1).
		parts = []Partition{{Broker: conn.brokerID, Number: -1}}
		return nil
	})
	if err != nil {
		return fmt.Errorf("send to topic %s: %w", topic, err)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.topics[topic] == nil {
		p.topics[topic] = newRoute(topic, parts)
	}
	return nil
}

// choose returns the lane of a message.
func (p *Producer) choose(t *route, m *Message) (*lane, error) {
	switch {
	case p.cfg.Partition != nil:
		i := p.cfg.Partition(m, t.partitions)
		if i < 0 || i >= len(t.lanes) {
			return nil, fmt.Errorf("send to topic %s: partition %d chosen of %d", m.Topic, i, len(t.lanes))
		}
		return t.lanes[i], nil
	case m.Key != nil:
		return t.lanes[hashKey(m.Key)%uint32(len(t.lanes))], nil
	}
	return t.lanes[t.current], nil
}
