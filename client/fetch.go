package client

import (
	"context"
	"iter"
	"sync"
	"sync/atomic"
	"time"

	"github.com/metaq-go/metaq/protocol"
)

// Batch is a run of messages of one partition, without a gap. It belongs to who polled it.
type Batch struct {
	Topic     string
	Partition Partition
	Offset    int64 // of the first message
	End       int64 // behind the last one: what to commit when all are done
	n         int
	pos       int // of Next
	data      []byte
	buffer    *[]byte
	claim     *claim
}

// Len returns the number of messages.
func (b *Batch) Len() int { return b.n }

// Next sets m to the next message and reports whether there was one. The message's slices belong to the batch.
func (b *Batch) Next(m *Message) bool {
	r, err := protocol.DecodeRecord(b.data[b.pos:])
	if err != nil {
		return false
	}
	attr, payload, err := r.Content()
	if err != nil {
		payload = r.Body // the flag lies; the bytes are as they were sent
	}
	m.Topic, m.Partition, m.Key, m.Tag = b.Topic, b.Partition, nil, 0
	m.Offset, m.ID, m.Attr, m.Payload = b.Offset+int64(b.pos), r.ID, attr, payload
	b.pos += r.Size()
	return true
}

// Messages yields the messages that Next has not, in order.
func (b *Batch) Messages() iter.Seq[Message] {
	return func(yield func(Message) bool) {
		for m := (Message{}); b.Next(&m); {
			if !yield(m) {
				return
			}
		}
	}
}

// Held reports whether the consumer still holds the partition, so that messages of the batch may be begun. It turns
// false before OnRevoke is called.
func (b *Batch) Held() bool { return b.claim == nil || !b.claim.leaving.Load() }

// Commit is Consumer.Commit for the whole batch. It does nothing for a batch of a Reader.
func (b *Batch) Commit() {
	if b.claim != nil {
		b.claim.done(b.End, -1)
	}
}

// Release gives the batch's memory back for another fetch. The batch and the slices of its messages must not be used
// afterwards. Batches that are not released are left to the garbage collector.
func (b *Batch) Release() {
	if b.buffer != nil {
		buffers.put(b.buffer)
		b.buffer, b.data = nil, nil
	}
}

// claim is a partition that a consumer holds.
type claim struct {
	TopicPartition
	stop    context.CancelFunc
	stopped chan struct{} // the fetcher has ended
	leaving atomic.Bool   // begin nothing new with it
	revoked atomic.Bool   // the position is settled

	mu     sync.Mutex
	offset int64 // everything below is done
	id     int64 // of the last message below, -1 if not known
	stored int64 // as last stored
}

// done moves the position.
func (c *claim) done(next, id int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if next > c.offset && !c.revoked.Load() {
		c.offset, c.id = next, id
	}
}

// pollWait is how long a broker may hold a poll back. Stopping does not wait for it.
const pollWait = 5 * time.Second

// fetch hands batches of a claim to Poll until ctx ends. While one waits to be polled the next is not asked for, so that
// a slow consumer slows the fetching.
func (co *Consumer) fetch(ctx context.Context, cl *claim, offset int64) {
	defer close(cl.stopped)
	r := co.client.reader(co.cfg.Group, cl.Topic, cl.Partition, offset, co.cfg.FetchBytes)
	r.moved = cl.reset
	for ctx.Err() == nil {
		b, err := r.Next(ctx)
		co.skipped.Add(r.Skipped)
		co.damaged.Add(r.Damaged)
		r.Skipped, r.Damaged = 0, 0
		if err != nil {
			if ctx.Err() == nil {
				co.client.cfg.Log.Warn("fetch failed, trying again", "topic", cl.Topic, "partition", cl.Partition.String(), "err", err)
				r.backOff(ctx, lastPause)
			}
			continue
		}
		b.claim = cl
		select {
		case co.ready <- b:
		case <-ctx.Done():
		}
	}
}

// reset moves the position to where the broker can serve, also back.
func (c *claim) reset(to int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.offset, c.id = to, -1
}
