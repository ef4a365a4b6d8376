package client

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/metaq-go/metaq/protocol"
)

// ProducerConfig says how a Producer sends.
type ProducerConfig struct {
	// MaxInFlight bounds the bytes of records that were accepted and not acknowledged yet; a send beyond it waits, and those
	// who wait get room in the order in which they came. Default 32 MiB.
	MaxInFlight int
	// BatchBytes is the biggest batch that is sent as one; default 1 MiB. It must not be more than the broker takes in one
	// append (16 MiB unless configured). Batches form by themselves: while one is on its way to a partition the next is
	// collected, and a message that finds nothing on its way leaves at once.
	BatchBytes int
	// Timeout is how long a message may wait to be sent while no broker can be reached; default 30 s. Then it fails with
	// ErrTimeout.
	Timeout time.Duration
	// Partition chooses the partition of a message among those of its topic; it returns an index. Default: by the hash of
	// Key if the message has one, else bursts go round. It must not call the producer, nor change partitions.
	Partition func(m *Message, partitions []Partition) int
	// Resend makes the producer send a batch again when the connection was lost before its acknowledgement, in its place
	// before those behind it. Nothing is lost then, but messages may be stored twice. After Timeout of that they fail with
	// ErrUnknown. Default: such messages fail with ErrUnknown at once.
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
//
// MetaQ in Java promises less: a producer that knows it by its address lets it choose the partition of each message, whatever
// its key, and it may store messages that are on their way together in any order. Who needs order there waits for each
// acknowledgement.
type Producer struct {
	client *Client
	cfg    ProducerConfig
	ctx    context.Context // ends with Close
	cancel context.CancelFunc
	group  sync.WaitGroup
	kick   chan struct{} // a token: the connector has something to do

	mu       sync.Mutex
	topics   map[string]*route
	conn     *conn     // what batches are sent on; nil: the connector is to get one
	away     time.Time // since when there is none although one is needed; zero if there is
	inFlight int       // bytes of records accepted and not done
	senders  []*sender // wait for room
	epochs   []*epoch  // of messages that are not done; the last one is the present
	sending  int       // batches on their way
	waiting  []*lane   // lanes whose next batch waits for one to come back, or for a connection
	free     []*batch
	closed   bool  // no more messages
	over     error // nothing more is sent: what was not fails with it
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
	p := &Producer{
		client: c, cfg: cfg.withDefaults(), kick: make(chan struct{}, 1), topics: make(map[string]*route),
		epochs: []*epoch{newEpoch()},
	}
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

// maxRecord is the biggest record that is sent: a broker closes the connection at a longer one, and with it go the
// answers to everybody else's messages.
const maxRecord = 64 << 20

// SendAsync takes a message over, copies what it needs of it, and returns; done is called once, from a goroutine of the
// client that it must not block, with where the message is, or with ErrUnknown, ErrTimeout, ErrClosed or the broker's
// refusal (*protocol.StatusError); done may be nil. Callbacks for one partition come in the order of the sends, except
// that where a connection was lost between the answers to a plain batch those that were answered come first.
//
// SendAsync waits while MaxInFlight bytes are on their way; it returns an error, and calls nothing, if ctx ends, the
// producer is closed, the topic's partitions can't be learned (within Timeout: ErrTimeout), or the message is too long.
func (p *Producer) SendAsync(ctx context.Context, m *Message, done func(Result, error)) error {
	size := m.Size()
	if most := min(p.cfg.MaxInFlight, maxRecord); size > most {
		return fmt.Errorf("%w: %d bytes, at most %d can be sent", ErrTooLong, size, most)
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	p.mu.Lock()
	for !p.closed && p.topics[m.Topic] == nil {
		p.mu.Unlock()
		if err := p.learn(ctx, m.Topic); err != nil {
			return err
		}
		p.mu.Lock()
	}
	defer p.mu.Unlock()
	if err := p.acquire(ctx, size); err != nil {
		return err
	}
	t := p.topics[m.Topic]
	l, err := p.choose(t, m)
	if err != nil {
		p.release(size)
		return err
	}
	b := l.add(p, m, size, done)
	if len(b.records) >= burstBytes && t.lanes[t.current] == l {
		t.turn()
	}
	p.offer(l)
	return nil
}

// learn finds out which partitions a topic has.
func (p *Producer) learn(ctx context.Context, topic string) error {
	if err := validName("topic", topic); err != nil {
		return fmt.Errorf("send: %w", err)
	}
	limited, cancel := context.WithTimeout(ctx, p.cfg.Timeout)
	defer cancel()
	stop := context.AfterFunc(p.ctx, cancel)
	defer stop()
	var parts []Partition
	err := retry(limited, func() (err error) {
		parts, err = p.partitions(limited, topic)
		return err
	})
	if err != nil {
		switch {
		case ctx.Err() != nil:
			err = context.Cause(ctx)
		case p.ctx.Err() != nil:
			err = ErrClosed
		case limited.Err() != nil:
			err = fmt.Errorf("%w: %w", ErrTimeout, err)
		}
		return fmt.Errorf("send to topic %s: %w", topic, err)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.topics[topic] == nil {
		p.topics[topic] = newRoute(topic, parts)
	}
	return nil
}

func (p *Producer) partitions(ctx context.Context, topic string) ([]Partition, error) {
	conn, err := p.client.connection(ctx)
	if err != nil {
		return nil, err
	}
	if conn.ext.Has(protocol.VerbTopics) {
		return p.client.Partitions(ctx, topic)
	}
	// A broker found by its address chooses the partition itself: MetaQ's own clients do the same (protocol.md 4.1).
	return []Partition{{Broker: conn.brokerID, Number: -1}}, nil
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

// Flush waits until everything that was sent before is acknowledged or has failed, and its callbacks have returned. What
// others send meanwhile does not hold it up.
func (p *Producer) Flush(ctx context.Context) error {
	for _, e := range p.mark() {
		select {
		case <-e.done:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	return nil
}

// Close takes no more messages, waits until those on their way are done, at most Timeout, and fails the rest with
// ErrClosed. Twice is fine.
func (p *Producer) Close() error {
	p.refuse()
	ctx, cancel := context.WithTimeout(context.Background(), p.cfg.Timeout)
	defer cancel()
	err := p.Flush(ctx)
	if errors.Is(err, context.DeadlineExceeded) {
		err = fmt.Errorf("close producer: messages are not done after %v: %w", p.cfg.Timeout, ErrTimeout)
	}
	p.end(ErrClosed)
	p.group.Wait()
	return err
}

// Abort takes no more messages and fails with ErrClosed what has not been sent. What is on its way, or was once and is to
// be sent again, is still answered for, with ErrUnknown if nobody can know. Close is still to be called.
func (p *Producer) Abort() {
	p.refuse()
	p.end(ErrClosed)
}
