package server

import (
	"errors"
	"strconv"
	"time"

	"github.com/metaq-go/metaq/broker/store"
	"github.com/metaq-go/metaq/protocol"
)

// read is what a get or poll asks for.
type read struct {
	topic    string // set if there was no log when it came
	offset   int64
	limit    int
	deadline time.Time // of a poll; zero for a get
}

// get queues a get or poll: the rules of protocol.md 4.2.1.
func (s *session) get(q *protocol.Request) bool {
	srv := s.srv
	srv.counters.get.Add(1)
	if srv.cfg.Topics.Closed(q.Topic, int(q.Partition)) {
		return s.answer(q.Opaque, protocol.Forbidden, closedText("Partition", srv.cfg.BrokerID, q.Partition))
	}
	r := reply{
		kind: kindRead, count: 1, opaque: q.Opaque, partition: q.Partition,
		log:  srv.cfg.Store.Log(q.Topic, int(q.Partition)),
		read: read{offset: q.Offset, limit: int(q.MaxSize)},
	}
	if q.Verb == protocol.VerbPoll && q.Wait > 0 {
		r.read.deadline = time.Now().Add(time.Duration(q.Wait) * time.Millisecond)
	}
	if r.log == nil {
		n := srv.cfg.Topics.Partitions(q.Topic)
		if r.read.deadline.IsZero() || q.Partition < 0 || int(q.Partition) >= n {
			srv.counters.getMiss.Add(1)
			return s.answer(q.Opaque, protocol.NotFound, missingText(q.Topic, q.Partition))
		}
		r.read.topic = string(q.Topic)
	}
	if q.MaxSize <= 0 {
		return s.answer(q.Opaque, protocol.BadRequest, "Bad request,invalid max size:"+itoa(q.MaxSize))
	}
	return s.queue(r)
}

// answerRead answers a get or poll. It reports false, and arranges a token, if there is nothing to say yet.
func (o *output) answerRead(r *reply) bool {
	waits := !r.read.deadline.IsZero() && time.Now().Before(r.read.deadline)
	for {
		if r.log == nil && !o.findLog(r, waits) {
			if waits {
				return false
			}
			o.miss(r, missingText(r.read.topic, r.partition))
			return true
		}
		if r.read.topic != "" && waits && r.log.End() == r.log.Start() && o.watch(r.log, r.log.End()) {
			return false // the partition was made, and nothing is written yet
		}
		chunk, err := r.log.Locate(r.read.offset, o.transfer(r))
		switch {
		case err == nil:
			o.value(r, chunk)
		case errors.Is(err, store.ErrBelow):
			o.moved(r, r.log.Start())
		case r.read.offset == protocol.MaxOffset || errors.Is(err, store.ErrAbove) && o.srv.cfg.UpdateOffsets:
			o.moved(r, r.log.End())
		case waits && errors.Is(err, store.ErrAtEnd):
			if o.watch(r.log, r.read.offset) {
				return false
			}
			continue // it grew between the two
		default:
			o.miss(r, "Could not find message at position "+strconv.FormatInt(r.read.offset, 10))
		}
		return true
	}
}

// findLog looks for a partition that did not exist when the poll came.
func (o *output) findLog(r *reply, waits bool) bool {
	if waits {
		o.srv.cfg.Store.NotifyCreated(o.wake)
	}
	r.log = o.srv.cfg.Store.Log([]byte(r.read.topic), int(r.partition))
	return r.log != nil
}

// transfer returns how many bytes the answer may have. It is MaxTransfer at most, but for a record that is bigger: that
// one is served whole to a client that asks for enough, or it could never be read.
func (o *output) transfer(r *reply) int {
	most := o.srv.cfg.MaxTransfer
	if r.read.limit <= most {
		return r.read.limit
	}
	var head [4]byte
	if chunk, err := r.log.Locate(r.read.offset, len(head)); err == nil {
		if b, err := chunk.AppendTo(head[:0]); err == nil {
			if size, ok := protocol.RecordSize(b); ok && size > most {
				return min(size, r.read.limit, o.srv.cfg.Limits.Body+protocol.HeaderSize)
			}
		}
	}
	return most
}

// value appends the bytes of chunk. If they can't be read the line is taken back and the client told.
func (o *output) value(r *reply, chunk store.Chunk) {
	at := len(o.buf)
	buf := protocol.AppendValueLine(o.buf, chunk.Len(), r.opaque)
	buf, err := chunk.AppendTo(buf)
	if err != nil {
		o.srv.cfg.Log.Error("can't read", "topic", r.log.Topic(), "partition", r.partition, "offset", r.read.offset, "err", err)
		refused := o.srv.refusal(protocol.ServerError, []byte(r.log.Topic()), r.partition, err.Error())
		o.buf = protocol.AppendResult(buf[:at], refused.Code, r.opaque, refused.Text)
		return
	}
	o.buf = buf
	o.srv.counters.bytesOut.Add(int64(chunk.Len()))
}

func (o *output) moved(r *reply, offset int64) {
	o.srv.counters.getMiss.Add(1)
	o.srv.counters.offset.Add(1) // as the original counts
	o.buf = protocol.AppendResult(o.buf, protocol.Moved, r.opaque, strconv.FormatInt(offset, 10))
}

func (o *output) miss(r *reply, text string) {
	o.srv.counters.getMiss.Add(1)
	o.buf = protocol.AppendResult(o.buf, protocol.NotFound, r.opaque, text)
}

// offset answers an offset request: the rules of protocol.md 4.3.
func (s *session) offset(q *protocol.Request) bool {
	s.srv.counters.offset.Add(1)
	log := s.srv.cfg.Store.Log(q.Topic, int(q.Partition))
	if log == nil {
		return s.answer(q.Opaque, protocol.NotFound, missingText(q.Topic, q.Partition))
	}
	offset := q.Offset
	return s.later(q.Opaque, func() (protocol.Code, string) {
		return protocol.OK, strconv.FormatInt(log.Nearest(offset), 10)
	})
}

// topics answers with one line for each topic, or for the one asked for.
func (s *session) topics(q *protocol.Request) bool {
	if len(q.Topic) > 0 {
		n := s.srv.partitions(q.Topic)
		if n == 0 {
			return s.answer(q.Opaque, protocol.NotFound, "The server do not accept topic "+clip(q.Topic))
		}
		return s.answer(q.Opaque, protocol.OK, string(q.Topic)+" "+strconv.Itoa(n)+"\r\n")
	}
	return s.later(q.Opaque, func() (protocol.Code, string) {
		var text []byte
		for _, name := range s.srv.cfg.Topics.Names() {
			text = append(append(text, name...), ' ')
			text = strconv.AppendInt(text, int64(s.srv.partitions([]byte(name))), 10)
			text = append(text, '\r', '\n')
		}
		return protocol.OK, string(text)
	})
}

// partitions returns how many partitions of a topic can be read: those of a topic that takes no more messages too.
func (s *Server) partitions(topic []byte) int {
	if n := s.cfg.Topics.Partitions(topic); n > 0 {
		return n
	}
	return s.cfg.Store.Partitions(topic)
}
