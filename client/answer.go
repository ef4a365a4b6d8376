package client

import (
	"errors"
	"fmt"

	"github.com/metaq-go/metaq/protocol"
)

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
		err = fmt.Errorf("%w: broker answers %.100q", ErrUnknown, r.Body)
	}
	if !b.plain {
		b.finish(id, part, offset, err)
		return
	}
	m := &b.sums[i]
	m.id, m.part, m.offset, m.err, m.answered = id, part, offset, err, true
	if b.left--; b.left == 0 {
		b.finishPlain(true)
	}
}

// lost implements call.
func (b *batch) lost(err error) { b.producer.lost(b, err) }

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
	failed, failedBytes := 0, 0
	if err != nil {
		failed, failedBytes = len(b.sums), len(b.records)
	}
	b.producer.finished(b, failed, failedBytes, true)
}

// finishPlain ends a batch whose messages were answered, or fail, one by one.
func (b *batch) finishPlain(reuse bool) {
	failed, failedBytes := 0, 0
	for i := range b.sums {
		m := &b.sums[i]
		res := Result{Topic: b.lane.topic, Tag: m.tag}
		if m.err == nil {
			res.Partition, res.Offset, res.ID = Partition{b.lane.partition.Broker, int(m.part)}, m.offset, m.id
		} else {
			failed++
			failedBytes += int(m.size)
		}
		if m.done != nil {
			m.done(res, m.err)
		}
	}
	b.producer.finished(b, failed, failedBytes, reuse)
}

// fail ends a batch of which something was not answered; plain puts that were are what they are. A batch that was on its
// way before may be stored, whatever it fails of now.
func (b *batch) fail(err error) {
	if !b.lostAt.IsZero() && !errors.Is(err, ErrUnknown) {
		err = fmt.Errorf("%w: %v", ErrUnknown, err) //nolint:errorlint // it must not pass for an ErrTimeout
	}
	for i := range b.sums {
		if m := &b.sums[i]; !m.answered {
			m.err = err
		}
	}
	b.finishPlain(false)
}
