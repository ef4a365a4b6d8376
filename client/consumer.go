package client

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// Start says where a group begins in a partition for which it has no position stored.
type Start uint8

// Start positions.
const (
	Earliest Start = iota // the first message that is kept
	Latest                // what comes from now on
)

// ConsumerConfig says what a Consumer consumes and as whom. Group and Topics are required.
type ConsumerConfig struct {
	// Group is the consumer group. Its members share the partitions of a topic, each message goes to one of them. For now
	// members find each other if they come from the same Client. A topic that does not exist is waited for.
	Group  string
	Topics []string
	// Broadcast makes the consumer receive every message, whatever other members there are, with positions of its own
	// under the group's name and Member.
	Broadcast bool
	// Member names the consumer within the group. It must be unique there, and for broadcast the same at the next start.
	// Default: for broadcast the host's name, otherwise something unique.
	Member string
	// Start says where a group begins that has no position stored. Latest is meant for partitions that are there when the
	// consumer comes; what is written to one that comes later is not skipped.
	Start       Start
	Offsets     OffsetStore   // where positions are kept; default: in the client, lost with it. See FileOffsets
	CommitEvery time.Duration // how often positions are stored; default 1 s
	FetchBytes  int           // bytes asked for at once, for each partition; default 1 MiB
	// OnRevoke is called when partitions are to be given to another member, and at Close, before their positions are
	// stored for the last time: what is handed out of them should be finished and committed in it, within 30 s, when its
	// context ends. Batches of these partitions that Poll has returned may still be worked on; Commit for them is ignored
	// after it returns. It must not call Close.
	OnRevoke func(ctx context.Context, revoked []TopicPartition)
	// Retries is how often Run calls a handler again that returns an error; default 5, -1 = never.
	Retries int
}

// TopicPartition is a partition with its topic.
type TopicPartition struct {
	Topic string
	Partition
}

func (tp TopicPartition) compare(other TopicPartition) int {
	return cmp.Or(cmp.Compare(tp.Topic, other.Topic), tp.Partition.compare(other.Partition))
}

// Consumer receives messages of its topics. Poll, Commit, Stats and Close are safe for concurrent use; a batch goes to
// one caller of Poll.
type Consumer struct {
	client *Client
	cfg    ConsumerConfig
	group  string // under which positions are stored
	ctx    context.Context
	cancel context.CancelCauseFunc
	wait   sync.WaitGroup
	ready  chan *Batch // from the fetchers
	left   error       // of giving everything up, when wait is over
	close  func() error

	storing sync.Mutex // serialises stores of positions; before mu

	mu     sync.Mutex
	claims map[TopicPartition]*claim

	messages, bytes, skipped, damaged, rebalances atomic.Int64
}

// ConsumerStats counts what a consumer did.
type ConsumerStats struct {
	Messages   int64            // fetched and handed out
	Bytes      int64            // of their records
	Skipped    int64            // bytes passed over because the broker no longer or not yet has them
	Damaged    int64            // records passed over because they do not match their checksums
	Rebalances int64            // times the partitions of this member changed
	Assigned   []TopicPartition // partitions it holds, sorted
}

func (cfg ConsumerConfig) withDefaults(c *Client) ConsumerConfig {
	cfg.CommitEvery = cmp.Or(cfg.CommitEvery, time.Second)
	cfg.FetchBytes = min(cmp.Or(cfg.FetchBytes, 1<<20), c.cfg.MaxMessage)
	cfg.Retries = cmp.Or(cfg.Retries, 5)
	if cfg.Offsets == nil {
		cfg.Offsets = coordOffsets{session: c.coord.Session()}
	}
	if cfg.Member == "" {
		cfg.Member = defaultMember(cfg.Broadcast)
	}
	return cfg
}

func (cfg ConsumerConfig) check() error {
	if err := validName("group", cfg.Group); err != nil {
		return err
	}
	if err := validName("group", cfg.Member); err != nil {
		return fmt.Errorf("member: %w", err)
	}
	if len(cfg.Topics) == 0 {
		return errors.New("no topic given")
	}
	for _, t := range cfg.Topics {
		if err := validName("topic", t); err != nil {
			return err
		}
		if strings.Contains(t, ",") {
			return fmt.Errorf("topic %q: a group can't consume a topic with a comma in its name", t)
		}
	}
	if cfg.CommitEvery < 0 || cfg.FetchBytes < 0 {
		return errors.New("CommitEvery and FetchBytes must not be negative")
	}
	return nil
}

// Consumer returns a new member of a group. It begins to fetch at once; Close makes it leave. It returns an error for a
// configuration that can't be, for a member that is open in this client already, and if the OffsetStore can't be used.
func (c *Client) Consumer(cfg ConsumerConfig) (*Consumer, error) {
	cfg = cfg.withDefaults(c)
	if err := cfg.check(); err != nil {
		return nil, err
	}
	co := &Consumer{
		client: c, cfg: cfg, group: cfg.Group, ready: make(chan *Batch), claims: make(map[TopicPartition]*claim),
	}
	if cfg.Broadcast {
		co.group = cfg.Group + "-" + cfg.Member
	}
	if err := c.enter(cfg.Group, cfg.Member); err != nil {
		return nil, err
	}
	if l, ok := cfg.Offsets.(locker); ok {
		if err := l.lock(co.group, c); err != nil {
			c.quit(cfg.Group, cfg.Member)
			return nil, err
		}
	}
	co.ctx, co.cancel = context.WithCancelCause(context.Background())
	co.close = sync.OnceValue(co.leave)
	co.wait.Go(co.belong)
	co.wait.Go(co.commitAll)
	return co, nil
}

// enter notes a member, of which there can be one; quit forgets it.
func (c *Client) enter(group, member string) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.members[group+" "+member] {
		return fmt.Errorf("group %s: member %s is there already; members need names of their own", group, member)
	}
	if c.members == nil {
		c.members = make(map[string]bool)
	}
	c.members[group+" "+member] = true
	return nil
}

func (c *Client) quit(group, member string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.members, group+" "+member)
}

func defaultMember(broadcast bool) string {
	host, err := os.Hostname()
	if err != nil {
		host = "localhost"
	}
	host = strings.Map(func(r rune) rune {
		if r >= 0x7f || r <= ' ' || strings.ContainsRune(groupChars, r) {
			return '-'
		}
		return r
	}, host)
	if broadcast {
		return host
	}
	return fmt.Sprintf("%s-%d-%s", host, os.Getpid(), rand.Text())
}

// Poll waits for the next batch of messages of any partition this member holds. It returns ctx's error or, after Close,
// ErrClosed.
func (co *Consumer) Poll(ctx context.Context) (*Batch, error) {
	for {
		select {
		case b := <-co.ready:
			if !b.Held() {
				continue
			}
			co.messages.Add(int64(b.n))
			co.bytes.Add(b.End - b.Offset)
			return b, nil
		case <-co.ctx.Done():
			return nil, context.Cause(co.ctx)
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}

// Commit notes that everything below offset next of a partition is done with. It is stored within CommitEvery, when the
// partition is given away, and at Close. It reports whether this member holds the partition. A position never moves back,
// nor beyond what Poll has returned of the partition.
func (co *Consumer) Commit(topic string, p Partition, next int64) bool {
	co.mu.Lock()
	cl := co.claims[TopicPartition{topic, p}]
	co.mu.Unlock()
	return cl != nil && cl.done(cl.turn.Load(), next, -1)
}

// Run polls and calls handle for one message after the other, committing what is handled. It returns when ctx ends (nil),
// when the consumer is closed (ErrClosed), or with the handler's error if a message failed after all retries: the
// message is not committed. The message and its slices are valid during the call. Run may be called by several goroutines
// at once, each of which handles other batches.
func (co *Consumer) Run(ctx context.Context, handle func(ctx context.Context, m *Message) error) error {
	for {
		b, err := co.Poll(ctx)
		if err != nil {
			if ctx.Err() != nil {
				return nil
			}
			return err
		}
		if err := co.runBatch(ctx, b, handle); err != nil {
			if ctx.Err() != nil {
				return nil
			}
			return err
		}
	}
}

func (co *Consumer) runBatch(ctx context.Context, b *Batch, handle func(context.Context, *Message) error) error {
	b.claim.busy.RLock()
	defer b.claim.busy.RUnlock()
	next := b.Offset
	for m := range b.Messages() {
		if !b.Held() || ctx.Err() != nil {
			break
		}
		if err := co.runMessage(ctx, b, &m, handle); err != nil {
			if !b.Held() {
				break // it is for the next owner to try
			}
			return fmt.Errorf("message at %s %s offset %d: %w", b.Topic, b.Partition, m.Offset, err)
		}
		next = m.Offset + int64(m.Size())
		b.commit(next, m.ID)
	}
	if next == b.End {
		b.Release()
	}
	return nil
}

// runMessage calls handle, again if it fails, as long as there are retries and the partition is ours.
func (co *Consumer) runMessage(ctx context.Context, b *Batch, m *Message, handle func(context.Context, *Message) error) error {
	for tries, pause := 0, firstPause; ; tries, pause = tries+1, min(2*pause, lastPause) {
		err := handle(ctx, m)
		if err == nil || tries >= co.cfg.Retries || !b.Held() {
			return err
		}
		select {
		case <-time.After(pause):
		case <-b.claim.ctx.Done():
			return err
		case <-ctx.Done():
			return err
		}
	}
}

// Stats returns the numbers as they are now.
func (co *Consumer) Stats() ConsumerStats {
	s := ConsumerStats{
		Messages: co.messages.Load(), Bytes: co.bytes.Load(), Skipped: co.skipped.Load(), Damaged: co.damaged.Load(),
		Rebalances: co.rebalances.Load(),
	}
	co.mu.Lock()
	defer co.mu.Unlock()
	for tp := range co.claims {
		s.Assigned = append(s.Assigned, tp)
	}
	slices.SortFunc(s.Assigned, TopicPartition.compare)
	return s
}

// Close leaves the group: it stops fetching, calls OnRevoke, waits for the message that Run is handling, stores
// positions, and gives the partitions up. Not to be called by a handler or OnRevoke. Twice is fine. The error is that of
// storing positions.
func (co *Consumer) Close() error { return co.close() }

func (co *Consumer) leave() error {
	co.cancel(ErrClosed)
	co.wait.Wait()
	err := co.left
	if l, ok := co.cfg.Offsets.(locker); ok {
		err = errors.Join(err, l.unlock(co.group))
	}
	co.client.quit(co.cfg.Group, co.cfg.Member)
	return err
}
