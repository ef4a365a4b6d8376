package server

import (
	"bytes"
	"math/rand/v2"
	"sync"

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
	entries   *[]entry
}

// entry is what the answer to one put of a run needs.
type entry struct {
	opaque int32
	size   int32 // of the record
}

const (
	runBytes   = 256 << 10 // a run is closed when it got that big
	runEntries = 4096
)

var entryPool = sync.Pool{New: func() any { e := make([]entry, 0, runEntries); return &e }}

// put adds the message to the run. Puts with partition -1 share a partition as long as the run is open, and a run ends
// where the client pauses: each burst goes to one partition, chosen at random.
func (s *session) put(q *protocol.Request) bool {
	s.srv.counters.put.Add(1)
	if refused := s.checkPut(q); refused != nil {
		s.submit()
		s.srv.counters.putFailed.Add(1)
		return s.answer(q.Opaque, refused.Code, refused.Text)
	}
	run := &s.run
	size := protocol.HeaderSize + len(q.Body)
	if run.log == nil || run.partition != q.Partition || !bytes.Equal(run.topic, q.Topic) ||
		len(run.records)+size > runBytes || len(*run.entries) == runEntries {
		s.submit()
		if refused := s.openRun(q); refused != nil {
			if refused.Code != protocol.Forbidden {
				s.srv.counters.putFailed.Add(1)
			}
			return s.answer(q.Opaque, refused.Code, refused.Text)
		}
	}
	sum := q.Checksum
	if sum == protocol.NoChecksum {
		sum = protocol.Checksum(q.Body)
	} else if sum != protocol.Checksum(q.Body) {
		return s.refusePut(q, run.chosen, checksumText)
	}
	r := protocol.Record{Flag: q.Flag, Checksum: sum, Body: q.Body}
	run.records = r.AppendTo(run.records)
	*run.entries = append(*run.entries, entry{opaque: q.Opaque, size: int32(size)})
	return true
}

const checksumText = "Checksum failure,message may be corrupted when transfering on networking."

// checkPut refuses what depends on nothing but the request.
func (s *session) checkPut(q *protocol.Request) *protocol.StatusError {
	switch {
	case q.TooLong > 0:
		return s.srv.refusal(protocol.ServerError, q.Topic, q.Partition, "message of "+itoa(q.TooLong)+
			" bytes is too long, the limit is "+itoa(int32(s.srv.cfg.Limits.Body)))
	case q.TxKey != nil && protocol.TxKeyKind(q.TxKey) != protocol.TxNone:
		kind := "Local"
		if protocol.TxKeyKind(q.TxKey) == protocol.TxXA {
			kind = "XA"
		}
		return &protocol.StatusError{
			Code: protocol.ServerError,
			Text: kind + " transaction '" + valid(q.TxKey) + "' has not been started.",
		}
	case q.Flag&protocol.FlagAttr != 0:
		if _, _, err := protocol.SplitBody(q.Flag, q.Body); err != nil {
			return s.srv.refusal(protocol.ServerError, q.Topic, q.Partition, err.Error())
		}
	}
	return nil
}

func (s *session) refusePut(q *protocol.Request, partition int32, why string) bool {
	s.submit()
	s.srv.counters.putFailed.Add(1)
	refused := s.srv.refusal(protocol.ServerError, q.Topic, partition, why)
	return s.answer(q.Opaque, refused.Code, refused.Text)
}

// openRun begins a run for the topic and partition of q.
func (s *session) openRun(q *protocol.Request) *protocol.StatusError {
	chosen := q.Partition
	log, refused := s.partition(q.Topic, &chosen)
	if refused != nil {
		return refused
	}
	run := &s.run
	run.topic = append(run.topic[:0], q.Topic...)
	run.partition, run.chosen, run.log = q.Partition, chosen, log
	run.entries = entryPool.Get().(*[]entry)
	return nil
}

// submit appends the run and queues its answers.
func (s *session) submit() {
	run := &s.run
	if run.log == nil {
		return
	}
	log, entries := run.log, run.entries
	run.log, run.entries = nil, nil
	n := len(*entries)
	if n == 0 {
		s.srv.release(entries)
		return
	}
	a, err := log.Append(run.records, n)
	run.records = run.records[:0]
	if cap(run.records) > 4*runBytes {
		run.records = nil
	}
	r := reply{
		kind: kindRun, count: n, entries: entries, log: log, commit: a.Commit, id: a.ID, offset: a.Offset,
		partition: run.chosen, err: err,
	}
	s.queue(r)
}

// append handles records that come ready-made.
func (s *session) append(q *protocol.Request) bool {
	s.submit()
	s.srv.counters.put.Add(int64(q.Count))
	chosen := q.Partition
	refused := s.checkPut(q)
	var log *store.Log
	if refused == nil {
		log, refused = s.partition(q.Topic, &chosen)
	}
	if refused == nil {
		if err := protocol.CheckRecords(q.Body, int(q.Count)); err != nil {
			refused = s.srv.refusal(protocol.ServerError, q.Topic, chosen, err.Error())
		} else if q.Count == 0 {
			refused = s.srv.refusal(protocol.ServerError, q.Topic, chosen, "append without records")
		}
	}
	if refused != nil {
		if refused.Code != protocol.Forbidden {
			s.srv.counters.putFailed.Add(int64(q.Count))
		}
		return s.answer(q.Opaque, refused.Code, refused.Text)
	}
	a, err := log.Append(q.Body, int(q.Count))
	return s.queue(reply{
		kind: kindAppend, count: 1, messages: int(q.Count), opaque: q.Opaque, log: log, commit: a.Commit,
		id: a.ID, offset: a.Offset, partition: chosen, err: err,
	})
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

func (s *Server) release(e *[]entry) {
	*e = (*e)[:0]
	entryPool.Put(e)
}
