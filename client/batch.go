package client

import (
	"hash/fnv"
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

// batch is messages that travel together. While it is sent only the connection's reader touches it.
type batch struct {
	producer *Producer
	lane     *lane
	epoch    *epoch
	records  []byte
	sums     []message
	begun    time.Time
	lostAt   time.Time // when it was first lost on its way; zero: it was never sent before
	plain    bool      // sent as one put for each message
	left     int       // plain: answers that have not come
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

// add puts a message into the batch that is being filled, or begins the next; p.mu is held.
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
	b.epoch.messages++
	return b
}

// newBatch returns an empty batch, of used memory if there is some.
func (p *Producer) newBatch(l *lane) *batch {
	b := &batch{}
	if n := len(p.free); n > 0 {
		b, p.free = p.free[n-1], p.free[:n-1]
	}
	*b = batch{
		producer: p, lane: l, epoch: p.epochs[len(p.epochs)-1], begun: time.Now(),
		records: b.records[:0], sums: b.sums[:0],
	}
	return b
}

// maxFree is how many batches are kept for another use.
const maxFree = 16

// recycle keeps a batch's memory; p.mu is held. Only for batches that were answered: of a lost one the connection may
// still be reading.
func (p *Producer) recycle(b *batch) {
	if len(p.free) < maxFree && cap(b.records) <= 2*p.cfg.BatchBytes {
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
	p.list(l)
}

// list makes a lane wait for a batch to come back, or for a connection; p.mu is held.
func (p *Producer) list(l *lane) {
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
	if p.away.IsZero() {
		p.away = time.Now()
	}
	p.list(l)
	select {
	case p.kick <- struct{}{}:
	default:
	}
}

// split takes the messages that were not answered out of a lost batch and into one of their own.
func (b *batch) split() *batch {
	rest := &batch{producer: b.producer, lane: b.lane, epoch: b.epoch, begun: b.begun, lostAt: b.lostAt}
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
