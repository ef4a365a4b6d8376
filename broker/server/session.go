package server

import (
	"errors"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/metaq-go/metaq/broker/store"
	"github.com/metaq-go/metaq/protocol"
)

// session is one connection.
type session struct {
	srv  *Server
	conn net.Conn
	rd   *protocol.Reader

	// Of the reader.
	run   putRun
	batch []reply // not handed to the writer yet
	count int     // requests that batch answers

	mu       sync.Mutex
	room     *sync.Cond
	incoming []reply // what the reader queued and the writer has not fetched
	waiting  int     // requests queued and not answered yet
	ended    bool    // the reader is done: nothing comes after incoming
	broken   bool    // the writer is gone: nobody will answer

	stopping atomic.Bool

	wake chan struct{} // a token: look at incoming, commits and partitions again
	out  output        // of the writer
}

func newSession(srv *Server, conn net.Conn) *session {
	s := &session{srv: srv, conn: conn, wake: make(chan struct{}, 1)}
	s.room = sync.NewCond(&s.mu)
	s.rd = protocol.NewReader(readerFunc(s.read), srv.cfg.Limits)
	s.out.session = s
	if tcp, ok := conn.(*net.TCPConn); ok {
		_ = tcp.SetNoDelay(true)
		_ = tcp.SetKeepAlive(true)
	}
	return s
}

// serve runs the connection to its end.
func (s *session) serve() {
	var group sync.WaitGroup
	group.Go(s.readAll)
	s.out.run()
	s.conn.Close() // also wakes the reader
	group.Wait()
	s.out.forget()
}

type readerFunc func([]byte) (int, error)

func (f readerFunc) Read(p []byte) (int, error) { return f(p) }

// read is the source of the protocol reader. Being called means that everything the client sent so far is decoded: what
// was gathered of it is appended, and handed to the writer, before we wait for more.
func (s *session) read(p []byte) (int, error) {
	s.submit()
	if !s.publish() {
		return 0, net.ErrClosed
	}
	if err := s.conn.SetReadDeadline(time.Now().Add(s.srv.cfg.IdleTimeout)); err != nil {
		return 0, err
	}
	if s.stopping.Load() { // after the deadline was set: stopReading sets its own after the flag
		return 0, net.ErrClosed
	}
	return s.conn.Read(p)
}

// readAll decodes and queues requests until the stream ends, breaks its frame, or asks to quit.
func (s *session) readAll() {
	var q protocol.Request
	for {
		if err := s.rd.Request(&q); err != nil {
			s.srv.counters.refuse(err)
			break
		}
		if q.Verb == protocol.VerbQuit || !s.request(&q) {
			break
		}
	}
	s.submit()
	s.publish()
	s.mu.Lock()
	s.ended = true
	s.mu.Unlock()
	s.poke()
}

// request handles one request and reports whether to go on.
func (s *session) request(q *protocol.Request) bool {
	switch q.Verb {
	case protocol.VerbPut:
		return s.put(q)
	case protocol.VerbAppend:
		return s.append(q)
	}
	s.submit()
	switch q.Verb {
	case protocol.VerbGet, protocol.VerbPoll:
		return s.get(q)
	case protocol.VerbOffset:
		return s.offset(q)
	case protocol.VerbVersion:
		return s.answer(q.Opaque, protocol.OK, s.srv.version)
	case protocol.VerbTopics:
		return s.topics(q)
	case protocol.VerbStats:
		return s.stats(q)
	}
	return false
}

// publishAt is after how many requests the writer is told of them, if it was not before because the input ran dry. With
// fewer it would wake up, and write to the socket, for every few of them.
const publishAt = 128

// queue adds what is owed for a request, or a run of them. It reports false if nobody will answer.
func (s *session) queue(r reply) bool {
	s.batch = append(s.batch, r)
	s.count += r.count
	return s.count < publishAt || s.publish()
}

// publish hands what was queued to the writer, waiting while too many requests are unanswered. It reports false if nobody
// will answer.
func (s *session) publish() bool {
	if len(s.batch) == 0 {
		return true
	}
	s.mu.Lock()
	for s.waiting >= s.srv.cfg.Outstanding && !s.broken {
		s.room.Wait()
	}
	if s.broken {
		s.mu.Unlock()
		return false
	}
	s.waiting += s.count
	if s.incoming == nil {
		s.incoming = s.srv.takeQueue()
	}
	s.incoming = append(s.incoming, s.batch...)
	first := len(s.incoming) == len(s.batch)
	s.mu.Unlock()
	if first { // else the writer has been told, and looks again until it finds nothing
		s.poke()
	}
	clear(s.batch)
	s.batch, s.count = s.batch[:0], 0
	return true
}

// answer queues a result that is known already.
func (s *session) answer(opaque int32, code protocol.Code, text string) bool {
	return s.queue(reply{kind: kindText, count: 1, opaque: opaque, code: code, text: text})
}

// later queues a result that is made when its turn comes, after everything before it was carried out.
func (s *session) later(opaque int32, f func() (protocol.Code, string)) bool {
	return s.queue(reply{kind: kindFunc, count: 1, opaque: opaque, f: f})
}

func (s *session) poke() {
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

// stopReading makes the reader end, as if the client had closed its half, when it has decoded what it read.
func (s *session) stopReading() {
	s.stopping.Store(true)
	_ = s.conn.SetReadDeadline(time.Unix(1, 0))
}

// cut ends the connection at once.
func (s *session) cut() { s.conn.Close() }

// admit judges where a put or append wants to go: the rules of protocol.md 4.1.2, up to the partition. A partition of -1
// is replaced by the chosen one.
func (s *session) admit(topic []byte, partition *int32) *protocol.StatusError {
	srv := s.srv
	n := srv.cfg.Topics.Partitions(topic)
	if n <= 0 {
		return srv.refusal(protocol.ServerError, topic, *partition, "The server do not accept topic "+clip(topic))
	}
	if *partition == -1 {
		*partition = srv.choose(topic, n)
	}
	if *partition < 0 || int(*partition) >= n {
		return srv.refusal(protocol.ServerError, topic, *partition, "wrong partition "+itoa(*partition))
	}
	if srv.cfg.Topics.Closed(topic, int(*partition)) {
		return srv.refusal(protocol.Forbidden, topic, *partition, closedText("partition", srv.cfg.BrokerID, *partition))
	}
	return nil
}

// log returns the partition that something admitted goes to. It is made for the first message that is worth storing.
func (s *session) log(topic []byte, partition int32) (*store.Log, *protocol.StatusError) {
	if log := s.srv.cfg.Store.Log(topic, int(partition)); log != nil {
		return log, nil
	}
	log, err := s.srv.cfg.Store.Create(string(topic), int(partition))
	if err != nil {
		return nil, s.srv.refusal(protocol.ServerError, topic, partition, err.Error())
	}
	return log, nil
}

// refuse counts a stream that ended otherwise than cleanly.
func (c *counters) refuse(err error) {
	if errors.Is(err, protocol.ErrSyntax) || errors.Is(err, protocol.ErrLineTooLong) ||
		errors.Is(err, protocol.ErrBodyTooLong) || errors.Is(err, io.ErrUnexpectedEOF) {
		c.malformed.Add(1)
	}
}
