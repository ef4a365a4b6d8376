package client

import (
	"context"
	"errors"
	"iter"
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
	turn      int64 // of the claim
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

// Held reports whether messages of the batch may be begun: the consumer still holds the partition, and the broker still
// has what the batch was read from. It turns false before OnRevoke is called. It is always true for a batch of a Reader.
func (b *Batch) Held() bool { return b.claim == nil || b.claim.holds(b.turn) }

// Commit is Consumer.Commit for the whole batch. It does nothing for a batch of a Reader.
func (b *Batch) Commit() { b.commit(b.End, -1) }

func (b *Batch) commit(next, id int64) {
	if b.claim != nil {
		b.claim.done(b.turn, next, id)
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
		switch {
		case err == nil:
			b.claim = cl
			b.turn = cl.hand(b.End)
			select {
			case co.ready <- b:
			case <-ctx.Done():
			}
		case ctx.Err() != nil:
		case errors.Is(err, ErrClosed): // the client was closed before us
			co.cancel(ErrClosed)
		default:
			co.client.cfg.Log.Warn("fetch failed, trying again", "topic", cl.Topic, "partition", cl.Partition.String(), "err", err)
			r.backOff(ctx, lastPause)
		}
	}
}
