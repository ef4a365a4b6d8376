package server_test

import (
	"bytes"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"github.com/metaq-go/metaq/broker/brokertest"
	"github.com/metaq-go/metaq/broker/server"
	"github.com/metaq-go/metaq/broker/store"
	"github.com/metaq-go/metaq/protocol"
)

// segment is so small that gets meet the ends of segments all the time.
const segment = 200

// partition is what a partition has to be.
type partition struct {
	data     []byte
	segments []int // where they start
	bounds   []int // the ends it had since the step began; nil: it was not there
	closed   bool
}

func (p *partition) add(id int64, flag int32, body []byte) {
	p.data = protocol.AppendRecord(p.data, id, flag, body)
	if len(p.data)-p.segments[len(p.segments)-1] >= segment {
		p.segments = append(p.segments, len(p.data))
	}
}

// segmentOf returns the start and the end of the segment that contains offset, if the partition ends at end.
func (p *partition) segmentOf(offset, end int) (from, to int) {
	i := 0
	for i+1 < len(p.segments) && p.segments[i+1] <= offset {
		i++
	}
	if i+1 < len(p.segments) {
		end = min(end, p.segments[i+1])
	}
	return p.segments[i], end
}

// ask is a request that was sent, and what is known of its answer.
type ask struct {
	request string
	opaque  int32
	check   func(a *protocol.Response) error // of what changes the model, which it does; or of what does not depend on it

	// Of a get, poll or offset.
	verb      protocol.Verb
	partition int32
	offset    int64
	size      int
	deadline  time.Time
	since     int // bounds[since:] are the ends the partition had since the request was sent
}

// model is the state that a sequence of requests leads to.
type model struct {
	rt         *rapid.T
	t          *testing.T
	r          *rig
	peers      []*brokertest.Peer
	waiting    [][]*ask // polls of each peer
	partitions [4]*partition
	opaque     int32
	last       int64 // largest id so far
}

func (m *model) start(s setup) {
	s.store.SegmentSize = segment
	s.server = func(c *server.Config) { c.IdleTimeout = 1000 * time.Hour }
	m.r = s.start(m.t)
	m.peers, m.waiting = nil, nil
	for range 3 {
		m.peers = append(m.peers, m.r.connect())
		m.waiting = append(m.waiting, nil)
	}
	for i, p := range m.partitions {
		if p != nil && p.closed {
			m.r.topics.close(fmt.Sprintf("t-%d", i))
		}
	}
}

func (m *model) next() int32 {
	m.opaque++
	return m.opaque
}

// log returns a partition of the model, made if need be.
func (m *model) log(i int32) *partition {
	if m.partitions[i] == nil {
		m.partitions[i] = &partition{segments: []int{0}, bounds: []int{0}}
	}
	return m.partitions[i]
}

// stored checks the answer to n records and adds them.
func (m *model) stored(a *protocol.Response, to int32, flags []int32, bodies [][]byte) error {
	id, at, offset, ok := protocol.ParseStored(a.Body)
	if a.Code != protocol.OK || !ok || to >= 0 && at != to || at < 0 || at > 3 {
		return fmt.Errorf("want it stored in partition %d", to)
	}
	p := m.log(at)
	if p.closed {
		return fmt.Errorf("partition %d is closed", at)
	}
	if int(offset) != len(p.data) {
		return fmt.Errorf("offset: got %d, want %d", offset, len(p.data))
	}
	if id <= m.last {
		return fmt.Errorf("id %d is not greater than the last, %d", id, m.last)
	}
	for i, body := range bodies {
		m.last = protocol.IDAfter(id, i)
		p.add(m.last, flags[i], body)
	}
	p.bounds = append(p.bounds, len(p.data))
	return nil
}

func (m *model) isClosed(i int32) bool {
	return i >= 0 && i < 4 && m.partitions[i] != nil && m.partitions[i].closed
}

// answerAt is what a read has to be answered if the partition ends at end; nil is: wait. exists tells whether anything was
// ever written to it.
func (m *model) answerAt(q *ask, end int, exists bool) *protocol.Response {
	text := func(code protocol.Code, s string) *protocol.Response {
		return &protocol.Response{Verb: protocol.VerbResult, Code: code, Opaque: q.opaque, Body: []byte(s)}
	}
	waits := time.Now().Before(q.deadline)
	if !exists {
		missing := text(404, fmt.Sprintf("The topic `t` in partition `%d` is not exists", q.partition))
		switch {
		case q.verb != protocol.VerbPoll || q.partition < 0 || q.partition > 3 || q.deadline.IsZero():
			return missing
		case q.size <= 0:
			return text(400, "Bad request,invalid max size:"+strconv.Itoa(q.size))
		case waits:
			return nil
		}
		return missing
	}
	p := m.partitions[q.partition]
	if q.verb == protocol.VerbOffset {
		switch {
		case q.offset < 0:
			return text(200, "0")
		case q.offset >= int64(end):
			return text(200, strconv.Itoa(end))
		}
		from, _ := p.segmentOf(int(q.offset), end)
		return text(200, strconv.Itoa(from))
	}
	switch {
	case q.size <= 0:
		return text(400, "Bad request,invalid max size:"+strconv.Itoa(q.size))
	case q.offset < 0:
		return text(301, "0")
	case q.offset > int64(end):
		return text(301, strconv.Itoa(end))
	case q.offset == int64(end) && waits:
		return nil
	case q.offset == int64(end):
		return text(404, fmt.Sprintf("Could not find message at position %d", end))
	}
	_, to := p.segmentOf(int(q.offset), end)
	return &protocol.Response{
		Verb: protocol.VerbValue, Code: 200, Opaque: q.opaque, Body: p.data[q.offset:min(int64(to), q.offset+int64(q.size))],
	}
}

// possible returns the answers that a read may have: for every end that its partition had since it was sent. late tells
// whether it has to be answered by now.
func (m *model) possible(q *ask) (list []*protocol.Response, late bool) {
	var p *partition
	if q.partition >= 0 && q.partition < 4 {
		p = m.partitions[q.partition]
	}
	if p == nil {
		a := m.answerAt(q, 0, false)
		return []*protocol.Response{a}, a != nil
	}
	for i, end := range p.bounds {
		if i < q.since {
			continue
		}
		a := m.answerAt(q, end, i > 0 || end > 0)
		list, late = append(list, a), a != nil
	}
	return list, late
}

func same(a, b *protocol.Response) bool {
	return a.Verb == b.Verb && a.Code == b.Code && a.Opaque == b.Opaque && bytes.Equal(a.Body, b.Body)
}

func show(list []*protocol.Response) string {
	var b strings.Builder
	for _, a := range list {
		if a == nil {
			b.WriteString(" none")
		} else {
			fmt.Fprintf(&b, " %v %d %q", a.Verb, a.Code, a.Body)
		}
	}
	return b.String()
}

// take judges what a peer received: the answers to its new requests, in order, and to polls that waited.
func (m *model) take(peer int, asks []*ask) {
	s, closed := m.peers[peer].Received()
	if closed {
		m.rt.Fatalf("peer %d: connection closed", peer)
	}
	got := answers(m.t, s)
	find := func(q *ask) *protocol.Response {
		i := slices.IndexFunc(got, func(a protocol.Response) bool { return a.Opaque == q.opaque })
		if i < 0 {
			return nil
		}
		return &got[i]
	}
	// What changes the model first, so that all ends are known.
	order := -1
	for _, q := range asks {
		a := find(q)
		if q.partition >= 0 && q.partition < 4 && m.partitions[q.partition] != nil {
			q.since = len(m.partitions[q.partition].bounds) - 1
		}
		if a == nil && (q.verb != protocol.VerbPoll || q.check != nil) {
			m.rt.Fatalf("peer %d: no answer to %q", peer, q.request)
		}
		if a != nil && q.verb != protocol.VerbPoll {
			i := slices.IndexFunc(got, func(a protocol.Response) bool { return a.Opaque == q.opaque })
			if i < order {
				m.rt.Fatalf("peer %d: %q is answered out of order", peer, q.request)
			}
			order = i
		}
		if q.check != nil {
			if err := q.check(a); err != nil {
				m.rt.Fatalf("peer %d: %q: got %v %d %q: %v", peer, q.request, a.Verb, a.Code, a.Body, err)
			}
		}
	}
	m.reads(peer, asks, find, len(got))
}

// reads judges reads, new ones and those that waited.
func (m *model) reads(peer int, asks []*ask, find func(*ask) *protocol.Response, n int) {
	var still []*ask
	judged := 0
	for _, q := range append(m.waiting[peer], asks...) {
		a := find(q)
		if a != nil {
			judged++
		}
		if q.check != nil {
			continue
		}
		list, late := m.possible(q)
		switch {
		case a == nil && late:
			m.rt.Fatalf("peer %d: %q is not answered, want %s", peer, q.request, show(list[len(list)-1:]))
		case a == nil:
			q.since = 0
			still = append(still, q)
		case !slices.ContainsFunc(list, func(want *protocol.Response) bool { return want != nil && same(a, want) }):
			m.rt.Fatalf("peer %d: %q: got %v %d %q, want one of %s", peer, q.request, a.Verb, a.Code, a.Body, show(list))
		}
	}
	if judged != n {
		m.rt.Fatalf("peer %d: %d answers, %d of them to what was asked", peer, n, judged)
	}
	m.waiting[peer] = still
}

// settle looks at everybody after one peer sent asks, and forgets the ends of before.
func (m *model) settle(peer int, asks []*ask) {
	synctest.Wait()
	if peer >= 0 {
		m.take(peer, asks)
	}
	for i := range m.peers {
		if i != peer {
			m.take(i, nil)
		}
	}
	for i, p := range m.partitions {
		if p == nil {
			continue
		}
		p.bounds = []int{len(p.data)}
		if len(p.data) == 0 {
			m.partitions[i].bounds = []int{0}
		}
	}
}

func (m *model) step() {
	switch rapid.SampledFrom([]string{"ask", "ask", "ask", "ask", "ask", "ask", "sleep", "close", "open", "restart"}).Draw(m.rt, "step") {
	case "ask":
		peer := rapid.IntRange(0, len(m.peers)-1).Draw(m.rt, "peer")
		var asks []*ask
		var b strings.Builder
		for range rapid.IntRange(1, 8).Draw(m.rt, "requests") {
			q := m.draw()
			asks = append(asks, q)
			b.WriteString(q.request)
		}
		if rapid.Bool().Draw(m.rt, "in pieces") {
			s := b.String()
			cut := rapid.IntRange(0, len(s)).Draw(m.rt, "cut")
			m.peers[peer].Send(s[:cut])
			synctest.Wait()
			m.peers[peer].Send(s[cut:])
		} else {
			m.peers[peer].Send(b.String())
		}
		m.settle(peer, asks)
	case "sleep":
		time.Sleep(time.Duration(rapid.IntRange(1, 3000).Draw(m.rt, "ms")) * time.Millisecond)
		m.settle(-1, nil)
	case "close":
		i := rapid.Int32Range(0, 3).Draw(m.rt, "partition")
		if m.partitions[i] != nil {
			m.partitions[i].closed = true
			m.r.topics.close(fmt.Sprintf("t-%d", i))
		}
	case "open":
		for i, p := range m.partitions {
			if p != nil {
				p.closed = false
				m.r.topics.open(fmt.Sprintf("t-%d", i))
			}
		}
	case "restart":
		m.r.stop()
		for _, p := range m.peers {
			p.Close()
		}
		time.Sleep(2 * time.Second) // ids go on from when the last segment was closed, if nothing is in the next one
		m.start(setup{mem: m.r.mem})
	}
}

// TestModel plays random requests over three connections and compares every answer with a model in memory.
func TestModel(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		time.Sleep(time.Until(time.Date(2020, 1, 1, 0, 0, 0, 0, time.UTC))) // message ids can't be older than 2011
		inBubble := struct{ *testing.T }{t}                                 // rapid asks a *testing.T for its deadline, which a bubble forbids
		rapid.Check(inBubble, func(rt *rapid.T) {
			m := &model{rt: rt, t: t, last: -1 << 63}
			m.start(setup{store: store.Config{}})
			defer func() {
				m.r.stop()
				for _, p := range m.peers {
					p.Close()
				}
			}()
			for range rapid.IntRange(1, 40).Draw(rt, "steps") {
				m.step()
			}
			for i, p := range m.partitions {
				var got []byte
				for _, rec := range m.r.content("t", i) {
					got = rec.AppendTo(got)
				}
				if p == nil && len(got) > 0 || p != nil && !bytes.Equal(got, p.data) {
					rt.Fatalf("partition %d holds other records than were acknowledged", i)
				}
			}
		})
	})
}
