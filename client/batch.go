package client

import (
	"fmt"
	"hash/fnv"
	"sync"
	"time"

	"github.com/metaq-go/metaq/protocol"
)

// route is what a producer knows of a topic.
type route struct {
	partitions []Partition
	lanes      []*lane // by index of partition
	current    int     // the lane of the present burst of messages without a key
}

func newRoute(topic string, parts []Partition) *route {
	t := &route{partitions: parts}
	for _, part := range parts {
		t.lanes = append(t.lanes, &lane{topic: topic, partition: part})
	}
	return t
}

// burstBytes is how much goes to one partition before the next one's turn, if it does not leave earlier.
const burstBytes = 128 << 10

func (t *route) turn() { t.current = (t.current + 1) % len(t.lanes) }

// hashKey spreads keys over partitions. It must not change: it decides where a key's messages are.
func hashKey(key []byte) uint32 {
	h := fnv.New32a()
	h.Write(key)
	return h.Sum32()
}

// lane is the way of messages to one partition: batches that wait, the last of them still being filled, and at most one
// that is on its way. It is guarded by the producer's mutex.
type lane struct {
	topic     string
	partition Partition
	sent      *batch
	queue     []*batch
	listed    bool // in Producer.waiting
}

// batch is messages that travel together. Once it is sent only the connection's goroutines touch it.
type batch struct {
	producer *Producer
	lane     *lane
	records  []byte
	sums     []message
	deadline time.Time
	plain    bool // sent as one put for each message

	mu    sync.Mutex // plain: an answer and the end of the connection may come at once
	left  int        // answers that have not come
	ended bool
}

// message is what a batch remembers of one of its messages.
type message struct {
	done func(Result, error)
	tag  int64
	size int32 // of its record
	// of a plain put, as answered:
	id, offset int64
	part       int32
	answered   bool
	err        error
}

// add puts a message into the batch that is being filled, or begins the next.
func (l *lane) add(p *Producer, m *Message, size int, done func(Result, error)) *batch {
	var b *batch
	if n := len(l.queue); n > 0 {
		b = l.queue[n-1]
	}
	if b == nil || len(b.records)+size > p.cfg.BatchBytes {
		b = p.newBatch(l)
		l.queue = append(l.queue, b)
	}
	b.records = protocol.AppendMessage(b.records, 0, m.Attr, m.Payload)
	b.sums = append(b.sums, message{done: done, tag: m.Tag, size: int32(size)})
	return b
}

// newBatch returns an empty batch, of used memory if there is some.
func (p *Producer) newBatch(l *lane) *batch {
	b := &batch{producer: p}
	if n := len(p.free); n > 0 {
		b, p.free = p.free[n-1], p.free[:n-1]
		*b = batch{producer: p, records: b.records[:0], sums: b.sums[:0]}
	}
	b.lane, b.deadline = l, time.Now().Add(p.cfg.Timeout)
	return b
}

// maxFree is how many batches are kept for another use.
const maxFree = 16

// recycle keeps a batch's memory; p.mu is held. Only for batches that were answered: of a lost one the connection may
// still be reading.
func (p *Producer) recycle(b *batch) {
	if len(p.free) < maxFree {
		clear(b.sums)
		p.free = append(p.free, b)
	}
}

// eagerBytes is the size from which a batch leaves although others are on their way. A smaller one waits for any of
// them to come back, at most one round trip, and grows meanwhile.
const eagerBytes = 64 << 10

// offer sends the lane's next batch if its time has come, or notes that it waits; p.mu is held.
func (p *Producer) offer(l *lane) {
	if l.sent != nil || len(l.queue) == 0 {
		return
	}
	if p.sending == 0 || len(l.queue) > 1 || len(l.queue[0].records) >= eagerBytes {
		p.dispatch(l)
		return
	}
	if !l.listed {
		l.listed = true
		p.waiting = append(p.waiting, l)
	}
}

// offerAll sends what waits for a batch to come back, or for a connection; p.mu is held.
func (p *Producer) offerAll() {
	lanes := p.waiting
	p.waiting = nil
	for _, l := range lanes {
		l.listed = false
		if l.sent == nil && len(l.queue) > 0 {
			p.dispatch(l)
		}
	}
	if p.waiting == nil {
		p.waiting = lanes[:0]
	}
}

// dispatch sends the lane's next batch, or has the connector get a connection for it; p.mu is held.
func (p *Producer) dispatch(l *lane) {
	b := l.queue[0]
	if p.conn == nil || b.send(p.conn, p.cfg.Plain) != nil {
		p.conn = nil // it has ended; nothing was sent
		p.park(l)
		return
	}
	l.sent = b
	l.queue = append(l.queue[:0], l.queue[1:]...)
	p.sending++
	p.stats.Batches++
	if t := p.topics[l.topic]; t.lanes[t.current] == l && len(l.queue) == 0 {
		t.turn()
	}
}

// park makes a lane wait for the connector.
func (p *Producer) park(l *lane) {
	if !l.listed {
		l.listed = true
		p.waiting = append(p.waiting, l)
	}
	select {
	case p.kick <- struct{}{}:
	default:
	}
}

// send puts the batch on a connection. An error means that nothing was sent.
func (b *batch) send(c *conn, plain bool) error {
	b.plain = plain || !c.ext.Has(protocol.VerbAppend)
	wait := c.cfg.RequestTimeout
	if !b.plain {
		q := protocol.Request{
			Verb: protocol.VerbAppend, Topic: []byte(b.lane.topic), Partition: int32(b.lane.partition.Number),
			Count: int32(len(b.sums)), Body: b.records,
		}
		return c.send(b, 1, wait, func(dst []byte, opaque int32) []byte {
			q.Opaque = opaque
			return q.AppendLine(dst)
		}, b.records)
	}
	b.left = len(b.sums)
	return c.send(b, len(b.sums), wait, b.appendPuts, nil)
}

// appendPuts appends a put for each record of the batch.
func (b *batch) appendPuts(dst []byte, opaque int32) []byte {
	q := protocol.Request{Verb: protocol.VerbPut, Topic: []byte(b.lane.topic), Partition: int32(b.lane.partition.Number)}
	for _, r := range protocol.Records(b.records) {
		q.Flag, q.Checksum, q.Body, q.Opaque = r.Flag, r.Checksum, r.Body, opaque
		dst = q.AppendTo(dst)
		opaque++
	}
	return dst
}

// body implements call: answers are a few bytes.
func (b *batch) body(int) []byte { return nil }

// answer implements call.
func (b *batch) answer(i int, r *protocol.Response) {
	err := r.Err()
	id, part, offset, ok := protocol.ParseStored(r.Body)
	if err == nil && !ok {
		err = fmt.Errorf("broker answers %.100q to a message", r.Body)
	}
	if !b.plain {
		b.finish(id, part, offset, err)
		return
	}
	b.mu.Lock()
	m := &b.sums[i]
	m.id, m.part, m.offset, m.err, m.answered = id, part, offset, err, true
	b.left--
	over := b.left == 0 && !b.ended
	b.ended = b.ended || over
	b.mu.Unlock()
	if over {
		b.finishPlain(true)
	}
}

// lost implements call.
func (b *batch) lost(err error) {
	if !b.plain {
		b.producer.lost(b, err)
		return
	}
	b.mu.Lock()
	over := !b.ended
	b.ended = true
	b.mu.Unlock()
	if over {
		b.producer.lost(b, err)
	}
}

// finish ends a batch that was answered as one.
func (b *batch) finish(id int64, part int32, offset int64, err error) {
	res := Result{Topic: b.lane.topic, Partition: Partition{b.lane.partition.Broker, int(part)}}
	for i := range b.sums {
		m := &b.sums[i]
		if m.done == nil {
			continue
		}
		if err != nil {
			m.done(Result{Topic: res.Topic, Tag: m.tag}, err)
			continue
		}
		res.ID, res.Offset, res.Tag = id, offset, m.tag
		m.done(res, nil)
		id = protocol.NextID(id)
		offset += int64(m.size)
	}
	failed := 0
	if err != nil {
		failed = len(b.sums)
	}
	b.producer.finished(b, failed, true)
}

// finishPlain ends a batch whose messages were answered one by one.
func (b *batch) finishPlain(reuse bool) {
	failed := 0
	for i := range b.sums {
		m := &b.sums[i]
		res := Result{Topic: b.lane.topic, Tag: m.tag}
		if m.err == nil {
			res.Partition, res.Offset, res.ID = Partition{b.lane.partition.Broker, int(m.part)}, m.offset, m.id
		} else {
			failed++
		}
		if m.done != nil {
			m.done(res, m.err)
		}
	}
	b.producer.finished(b, failed, reuse)
}

// unknown ends a batch whose connection was lost; plain puts that were answered before it are what they are.
func (b *batch) unknown(err error) {
	for i := range b.sums {
		if m := &b.sums[i]; !m.answered {
			m.err = err
		}
	}
	b.finishPlain(false)
}

// split takes the messages that were not answered out of a lost batch and into one of their own.
func (b *batch) split() *batch {
	rest := &batch{producer: b.producer, lane: b.lane, deadline: b.deadline}
	var answered batch
	pos := 0
	for _, m := range b.sums {
		to := rest
		if m.answered {
			to = &answered
		}
		to.records = append(to.records, b.records[pos:pos+int(m.size)]...)
		to.sums = append(to.sums, m)
		pos += int(m.size)
	}
	b.records, b.sums = answered.records, answered.sums
	return rest
}
