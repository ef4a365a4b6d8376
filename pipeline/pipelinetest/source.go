package pipelinetest

import (
	"context"
	"fmt"
	"io"
	"sync"
	"testing"

	"github.com/metaq-go/metaq/pipeline"
)

// Source is a source in memory with any number of partitions. It outlives its spouts: opened again, it goes on behind the longest
// prefix of tuples that were done. Its methods may be called from any goroutine.
//
// Partition p belongs to task p mod Count; in Broadcast mode every task reads all, with positions of its own. Origins are
// "NAME/0@0", "NAME/0@1" and so on.
type Source[M any] struct {
	// MaxNext is how many tuples a Next returns at most. Default: all that are there.
	MaxNext int
	// OnDone, if set, hears of each tuple that is done.
	OnDone func(o pipeline.Origin, err error)
	// OnClose, if set, is called by the Close of each spout, which returns its error.
	OnClose func(ctx context.Context) error

	name string

	mu       sync.Mutex
	parts    [][]M
	marks    map[mark]*pipeline.Tracker
	finished bool
	failure  error
	changed  chan struct{} // closed and replaced when there is something new
	handed   []*handle
	opens    int
	closes   int
}

// mark is what positions are kept for: a partition, in Broadcast mode of one task.
type mark struct{ task, part int }

// handle is one tuple that was handed out: its Acker.
type handle struct {
	origin pipeline.Origin
	ack    pipeline.Ack // of the tracker
	dones  int
	err    error
	hear   func(pipeline.Origin, error)
	mu     *sync.Mutex
}

// NewSource makes a source with the given partitions; without any it has one, empty.
func NewSource[M any](name string, partitions ...[]M) *Source[M] {
	s := &Source[M]{name: name, marks: make(map[mark]*pipeline.Tracker), changed: make(chan struct{})}
	for _, p := range partitions {
		s.parts = append(s.parts, append([]M(nil), p...))
	}
	if len(s.parts) == 0 {
		s.parts = make([][]M, 1)
	}
	return s
}

// Put appends values to a partition.
func (s *Source[M]) Put(partition int, values ...M) {
	s.change(func() { s.parts[partition] = append(s.parts[partition], values...) })
}

// Finish makes spouts return io.EOF when they have handed out everything.
func (s *Source[M]) Finish() { s.change(func() { s.finished = true }) }

// Fail makes spouts return err from the next Next on.
func (s *Source[M]) Fail(err error) { s.change(func() { s.failure = err }) }

func (s *Source[M]) change(f func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f()
	close(s.changed)
	s.changed = make(chan struct{})
}

// Name returns the name given to NewSource.
func (s *Source[M]) Name() string { return s.name }

// Open makes a spout that goes on where the last one's done tuples end.
func (s *Source[M]) Open(_ context.Context, t pipeline.Task) (pipeline.Spout[M], error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.opens++
	sp := &spout[M]{src: s}
	for p := range s.parts {
		m := mark{part: p}
		if t.Mode == pipeline.Broadcast {
			m.task = t.Index
		} else if p%t.Count != t.Index {
			continue
		}
		tr := s.marks[m]
		if tr == nil {
			tr = new(pipeline.Tracker)
			s.marks[m] = tr
		}
		low := tr.Low()
		tr.Start(low)
		sp.cursors = append(sp.cursors, &cursor{
			part: p, name: fmt.Sprintf("%s/%d", s.name, p), next: int(low), tracker: tr,
		})
	}
	return sp, nil
}

// Handed returns how many tuples were handed out, by all spouts.
func (s *Source[M]) Handed() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.handed)
}

// Done returns how many tuples were done with nil.
func (s *Source[M]) Done() int {
	return s.count(func(h *handle) bool { return h.dones > 0 && h.err == nil })
}

// Failed returns how many tuples were done with an error.
func (s *Source[M]) Failed() int {
	return s.count(func(h *handle) bool { return h.dones > 0 && h.err != nil })
}

// Pending returns how many tuples were handed out and not done.
func (s *Source[M]) Pending() int { return s.count(func(h *handle) bool { return h.dones == 0 }) }

func (s *Source[M]) count(is func(*handle) bool) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := 0
	for _, h := range s.handed {
		if is(h) {
			n++
		}
	}
	return n
}

// Committed returns the position behind the longest done prefix of a partition; in Broadcast mode that of task 0.
func (s *Source[M]) Committed(partition int) int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	if t := s.marks[mark{part: partition}]; t != nil {
		return t.Low()
	}
	return 0
}

// Check fails the test unless every tuple handed out was done exactly once and every spout closed once. It is to be
// called after Run.
func (s *Source[M]) Check(tb testing.TB) {
	tb.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, h := range s.handed {
		if h.dones != 1 {
			tb.Errorf("source %s: tuple %v was done %d times, want 1", s.name, h.origin, h.dones)
		}
	}
	if s.closes != s.opens {
		tb.Errorf("source %s: %d spouts were opened and %d closed", s.name, s.opens, s.closes)
	}
}

// Done implements pipeline.Acker.
func (h *handle) Done(_ uint64, err error) {
	h.mu.Lock()
	h.dones++
	if h.dones == 1 {
		h.err = err
	}
	h.mu.Unlock()
	h.ack.Done(err)
	if h.hear != nil {
		h.hear(h.origin, err)
	}
}

// spout is one task's reader.
type spout[M any] struct {
	src     *Source[M]
	cursors []*cursor
	turn    int
}

type cursor struct {
	part    int
	name    string
	next    int
	tracker *pipeline.Tracker
}

// Next hands out what is there, partition by partition in turn.
func (s *spout[M]) Next(ctx context.Context, dst []pipeline.Tuple[M]) (int, error) {
	for {
		n, changed, err := s.take(dst)
		if n > 0 || err != nil {
			return n, err
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return 0, ctx.Err()
		}
	}
}

func (s *spout[M]) take(dst []pipeline.Tuple[M]) (n int, changed <-chan struct{}, err error) {
	src := s.src
	src.mu.Lock()
	defer src.mu.Unlock()
	if src.failure != nil {
		return 0, nil, src.failure
	}
	if src.MaxNext > 0 {
		dst = dst[:min(len(dst), src.MaxNext)]
	}
	for range s.cursors {
		c := s.cursors[s.turn%len(s.cursors)]
		s.turn++
		n += s.read(c, dst[n:])
	}
	if n == 0 && src.finished {
		return 0, nil, io.EOF
	}
	return n, src.changed, nil
}

func (s *spout[M]) read(c *cursor, dst []pipeline.Tuple[M]) int {
	src := s.src
	n := min(len(dst), len(src.parts[c.part])-c.next)
	for i := range n {
		h := &handle{
			origin: pipeline.Origin{Partition: c.name, Offset: int64(c.next)},
			ack:    c.tracker.Add(int64(c.next + 1)), hear: src.OnDone, mu: &src.mu,
		}
		src.handed = append(src.handed, h)
		dst[i] = pipeline.Tuple[M]{Value: src.parts[c.part][c.next], Origin: h.origin, Ack: pipeline.Ack{To: h}}
		c.next++
	}
	return n
}

// Close counts.
func (s *spout[M]) Close(ctx context.Context) error {
	s.src.mu.Lock()
	s.src.closes++
	s.src.mu.Unlock()
	if s.src.OnClose != nil {
		return s.src.OnClose(ctx)
	}
	return nil
}
