package server

import (
	"bytes"
	"math/rand/v2"
	"strconv"

	"github.com/metaq-go/metaq/broker/store"
	"github.com/metaq-go/metaq/protocol"
)

// putRun gathers puts that follow each other on a connection and go to one partition, so that they are appended, and
// later answered, as one.
type putRun struct {
	topic     []byte // of the puts, as last asked for
	partition int32  // as asked for, maybe -1
	chosen    int32
	log       *store.Log // nil: no run is open
	records   []byte
	chunk     *chunk // nil: none is begun
	first     int    // entry of chunk where the run begins
}

// entry is what the answer to one put of a run needs.
type entry struct {
	opaque int32
	size   int32 // of the record
}

// chunk is memory for the entries of successive runs of a connection. The reader fills it, the writer gives it back after
// the run that fills it up: what waits for answers holds as much memory as it has entries, however short the runs are.
type chunk struct {
	used    int
	entries [runEntries]entry
}

const (
	runBytes   = 256 << 10 // a run is closed when it got that big
	runEntries = 4096
)

// takes reports whether a put may join the run.
func (r *putRun) takes(q *protocol.Request) bool {
	return r.log != nil && r.partition == q.Partition && bytes.Equal(r.topic, q.Topic) &&
		len(r.records)+protocol.HeaderSize+len(q.Body) <= runBytes
}

// open begins a run for the topic and partition of q.
func (s *session) open(q *protocol.Request, log *store.Log, chosen int32) {
	run := &s.run
	run.topic = append(run.topic[:0], q.Topic...)
	run.partition, run.chosen, run.log = q.Partition, chosen, log
	if run.chunk == nil {
		run.chunk, _ = s.srv.chunks.Get().(*chunk)
	}
	if run.chunk == nil {
		run.chunk = new(chunk)
	}
	run.first = run.chunk.used
}

// put adds the message to the run. Puts with partition -1 share a partition as long as the run is open, and a run ends
// where the client pauses: each burst goes to one partition, chosen at random.
func (s *session) put(q *protocol.Request) bool {
	if refused := transaction(q); refused != nil {
		s.submit()
		return s.answer(q.Opaque, refused.Code, refused.Text)
	}
	run := &s.run
	joins, chosen := run.takes(q), run.chosen
	if !joins {
		s.submit()
		chosen = q.Partition
		if refused := s.admit(q.Topic, &chosen); refused != nil {
			return s.refusePut(q, 1, refused)
		}
	}
	sum, refused := s.checkPut(q, chosen)
	if refused != nil {
		return s.refusePut(q, 1, refused)
	}
	if !joins {
		log, refused := s.log(q.Topic, chosen)
		if refused != nil {
			return s.refusePut(q, 1, refused)
		}
		s.open(q, log, chosen)
	}
	r := protocol.Record{Flag: q.Flag, Checksum: sum, Body: q.Body}
	run.records = r.AppendTo(run.records)
	c := run.chunk
	c.entries[c.used] = entry{opaque: q.Opaque, size: int32(r.Size())}
	if c.used++; c.used == runEntries {
		s.submit()
	}
	return true
}

const checksumText = "Checksum failure,message may be corrupted when transfering on networking." //nolint:misspell // as MetaQ spells it

// transaction refuses a put in a transaction: none was ever begun.
func transaction(q *protocol.Request) *protocol.StatusError {
	kind := "Local"
	switch {
	case q.TxKey == nil:
		return nil
	case protocol.TxKeyKind(q.TxKey) == protocol.TxNone:
		return nil
	case protocol.TxKeyKind(q.TxKey) == protocol.TxXA:
		kind = "XA"
	}
	return &protocol.StatusError{
		Code: protocol.ServerError,
		Text: kind + " transaction '" + clip(q.TxKey) + "' has not been started.",
	}
}

// checkPut judges the message itself and returns its checksum.
func (s *session) checkPut(q *protocol.Request, partition int32) (sum int32, refused *protocol.StatusError) {
	if size := int(q.TooLong) + len(q.Body); size > s.srv.cfg.MaxMessage {
		return 0, s.tooLong(q, partition, "put", size, s.srv.cfg.MaxMessage)
	}
	sum = protocol.Checksum(q.Body)
	if q.Checksum != protocol.NoChecksum && q.Checksum != sum {
		return 0, s.srv.refusal(protocol.ServerError, q.Topic, partition, checksumText)
	}
	if q.Flag&protocol.FlagAttr != 0 {
		if _, _, err := protocol.SplitBody(q.Flag, q.Body); err != nil {
			return 0, s.srv.refusal(protocol.ServerError, q.Topic, partition, err.Error())
		}
	}
	return sum, nil
}

func (s *session) tooLong(q *protocol.Request, partition int32, what string, size, limit int) *protocol.StatusError {
	return s.srv.refusal(protocol.ServerError, q.Topic, partition,
		what+" of "+strconv.Itoa(size)+" bytes is too long, the limit is "+strconv.Itoa(limit))
}

// refusePut answers a put or append of n messages that are not stored, after what was gathered before it.
func (s *session) refusePut(q *protocol.Request, n int, refused *protocol.StatusError) bool {
	s.submit()
	s.srv.counters.put.Add(int64(n))
	if refused.Code != protocol.Forbidden {
		s.srv.counters.putFailed.Add(int64(n))
	}
	return s.answer(q.Opaque, refused.Code, refused.Text)
}

// submit appends the run and queues its answers.
func (s *session) submit() {
	run := &s.run
	if run.log == nil {
		return
	}
	log, c := run.log, run.chunk
	entries := c.entries[run.first:c.used]
	s.srv.counters.put.Add(int64(len(entries)))
	a, err := log.Append(run.records, len(entries))
	r := reply{
		kind: kindRun, count: len(entries), entries: entries, log: log, commit: a.Commit, id: a.ID, offset: a.Offset,
		partition: run.chosen, err: err,
	}
	if c.used == runEntries {
		r.last, run.chunk = c, nil
	}
	run.log, run.records = nil, run.records[:0]
	if cap(run.records) > 4*runBytes {
		run.records = nil
	}
	s.queue(r)
}

// append handles records that come ready-made.
func (s *session) append(q *protocol.Request) bool {
	s.submit()
	chosen := q.Partition
	refused := s.admit(q.Topic, &chosen)
	if refused == nil {
		refused = s.checkAppend(q, chosen)
	}
	var log *store.Log
	if refused == nil {
		log, refused = s.log(q.Topic, chosen)
	}
	if refused != nil {
		// The count is only what the client says; this is the most it can be.
		most := (len(q.Body) + int(q.TooLong)) / protocol.HeaderSize
		return s.refusePut(q, max(1, min(int(q.Count), most)), refused)
	}
	s.srv.counters.put.Add(int64(q.Count))
	a, err := log.Append(q.Body, int(q.Count))
	return s.queue(reply{
		kind: kindAppend, count: 1, messages: int(q.Count), opaque: q.Opaque, log: log, commit: a.Commit,
		id: a.ID, offset: a.Offset, partition: chosen, err: err,
	})
}

func (s *session) checkAppend(q *protocol.Request, partition int32) *protocol.StatusError {
	if q.TooLong > 0 {
		return s.tooLong(q, partition, "append", int(q.TooLong), s.srv.cfg.Limits.Body)
	}
	if err := protocol.CheckRecords(q.Body, int(q.Count)); err != nil {
		return s.srv.refusal(protocol.ServerError, q.Topic, partition, err.Error())
	}
	if len(q.Body) <= s.srv.cfg.MaxMessage {
		return nil
	}
	for _, r := range protocol.Records(q.Body) {
		if len(r.Body) > s.srv.cfg.MaxMessage {
			return s.tooLong(q, partition, "message", len(r.Body), s.srv.cfg.MaxMessage)
		}
	}
	return nil
}

// choose picks one of n partitions at random, an open one if there is any.
func (s *Server) choose(topic []byte, n int) int32 {
	first := rand.IntN(n)
	for i := range n {
		if p := (first + i) % n; !s.cfg.Topics.Closed(topic, p) {
			return int32(p)
		}
	}
	return int32(first)
}
