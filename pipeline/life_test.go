package pipeline_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/metaq-go/metaq/pipeline"
	"github.com/metaq-go/metaq/pipeline/pipelinetest"
)

// C28, P14: a stop while 1000 tuples are in flight drains them: all are stored and acknowledged before the sinks, then the spouts, are closed.
func TestStopDrains(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		var mu sync.Mutex
		var events []string
		event := func(s string) {
			mu.Lock()
			defer mu.Unlock()
			if len(events) == 0 || events[len(events)-1] != s {
				events = append(events, s)
			}
		}
		src := pipelinetest.NewSource("in", upTo(1000))
		src.OnDone = func(_ pipeline.Origin, err error) {
			if err != nil {
				t.Errorf("done with %v", err)
			}
			event("acknowledged")
		}
		src.OnClose = func(context.Context) error { event("spout closed"); return nil }
		sink := &pipelinetest.Sink[int]{
			OnWrite: func(context.Context, int, []int) error { event("written"); return nil },
			OnClose: func(context.Context) error { event("sink closed"); return nil },
		}
		top := pipeline.New("t", pipeline.Config{})
		step := pipeline.Map(from(top, src), "step", failing(500, 2), pipeline.Parallel(3))
		step.To(sink, pipeline.Batch(10000, 0))
		stop := running(top)
		synctest.Wait() // tuple 500 waits for its next attempt
		if n := src.Pending(); n != 1000 {
			t.Errorf("%d tuples are in flight, want 1000", n)
		}
		if err := stop(); err != nil {
			t.Fatal(err)
		}
		if n := src.Handed(); n != 1000 || src.Done() != n || len(sink.Values()) != n {
			t.Errorf("%d handed out, %d acknowledged, %d stored; want 1000 each", n, src.Done(), len(sink.Values()))
		}
		want := []string{"written", "acknowledged", "sink closed", "spout closed"}
		if !slices.Equal(events, want) {
			t.Errorf("events %v, want %v", events, want)
		}
		src.Check(t)
		// The next start goes on where this one ended.
		src.OnDone, src.OnClose = nil, nil
		src.Put(0, 1000)
		src.Finish()
		again, later := pipeline.New("t", pipeline.Config{}), &pipelinetest.Sink[int]{}
		from(again, src).To(later)
		mustRun(t, again)
		if got := later.Values(); !slices.Equal(got, []int{1000}) {
			t.Errorf("the second run got %v, want the new tuple only", got)
		}
	})
}

// C30: acknowledging later records does not pass one that is still being worked on. Killed, it comes again.
func TestSlowRecordComesAgain(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		start := time.Now()
		src, sink := pipelinetest.NewSource("numbers", upTo(5)), &pipelinetest.Sink[int]{}
		src.MaxNext = 1
		top := pipeline.New("t", pipeline.Config{DrainTimeout: 10 * time.Second})
		pipeline.Map(from(top, src), "step", func(ctx context.Context, v int) (int, error) {
			if v == 5 {
				<-ctx.Done()
				return 0, ctx.Err()
			}
			return v, nil
		}, pipeline.Parallel(4)).To(sink)
		stop := running(top)
		synctest.Wait()
		src.Put(0, upTo(100)[5:]...)
		time.Sleep(time.Second)
		if n := src.Done(); n != 99 {
			t.Errorf("%d records done while 5 is slow, want all others", n)
		}
		if at := src.Committed(0); at != 5 {
			t.Errorf("committed is %d, want 5", at)
		}
		err := stop()
		if err == nil || !strings.Contains(err.Error(), "numbers/0@5") {
			t.Errorf("Run returned %v, want an error that names numbers/0@5", err)
		}
		if took := since(start); took != 11*time.Second {
			t.Errorf("Run returned after %v, want 1 s and the drain timeout of 10 s", took)
		}
		src.Check(t)

		src.Finish()
		again, later := pipeline.New("t", pipeline.Config{}), &pipelinetest.Sink[int]{}
		from(again, src).To(later)
		mustRun(t, again)
		if got := later.Values(); len(got) == 0 || got[0] != 5 {
			t.Errorf("the second run got %v, want it to begin with 5", got)
		}
		src.Check(t)
	})
}

// A sink that is away until after the deadline leaves its tuples unacknowledged, each with one answer.
func TestDrainDeadline(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		start := time.Now()
		src := pipelinetest.NewSource("in", upTo(500))
		sink := &pipelinetest.Sink[int]{OnWrite: func(context.Context, int, []int) error { return errBoom }}
		top := pipeline.New("t", pipeline.Config{MaxPending: 50})
		pipeline.Map(from(top, src), "step", failing(-1, 0)).To(sink)
		stop := running(top)
		time.Sleep(time.Minute)
		err := stop()
		if err == nil || !strings.Contains(err.Error(), "50 tuples") {
			t.Errorf("Run returned %v, want an error about 50 tuples", err)
		}
		if took := since(start); took != 90*time.Second {
			t.Errorf("Run returned after %v, want 1 min 30 s", took)
		}
		if src.Failed() != 50 || src.Committed(0) != 0 || sink.Closes() != 1 {
			t.Errorf("%d answered with an error, committed %d, sink closed %d times", src.Failed(), src.Committed(0), sink.Closes())
		}
		src.Check(t)
	})
}

// The contexts given to Close leave time even when the drain deadline has passed.
func TestCloseHasTime(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		var left []time.Duration
		closing := func(ctx context.Context) error {
			end, _ := ctx.Deadline()
			left = append(left, time.Until(end))
			return ctx.Err()
		}
		src := pipelinetest.NewSource("in", upTo(5))
		src.OnClose = closing
		sink := &pipelinetest.Sink[int]{OnWrite: func(context.Context, int, []int) error { return errBoom }, OnClose: closing}
		top := pipeline.New("t", pipeline.Config{DrainTimeout: time.Second})
		from(top, src).To(sink)
		stop := running(top)
		time.Sleep(time.Minute)
		if err := stop(); err == nil {
			t.Error("no error")
		}
		if want := []time.Duration{5 * time.Second, 5 * time.Second}; !slices.Equal(left, want) {
			t.Errorf("Close had %v, want %v", left, want)
		}
	})
}

func TestSourceFails(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		bad, good := pipelinetest.NewSource("bad", upTo(10)), pipelinetest.NewSource("good", upTo(10))
		sink := &pipelinetest.Sink[int]{}
		top := pipeline.New("t", pipeline.Config{})
		from(top, bad).Merge(from(top, good)).To(sink, pipeline.Batch(100, 0))
		ended := make(chan error)
		go func() { ended <- top.Run(context.Background()) }()
		synctest.Wait()
		bad.Fail(errBoom)
		err := <-ended
		if !errors.Is(err, errBoom) || !strings.Contains(err.Error(), `source "bad"`) {
			t.Errorf("Run returned %v", err)
		}
		if n := len(sink.Values()); n != 20 || bad.Done() != 10 || good.Done() != 10 {
			t.Errorf("%d tuples stored, %d and %d acknowledged; want all that were in flight", n, bad.Done(), good.Done())
		}
		bad.Check(t)
		good.Check(t)
	})
}

// faulty is a source whose spouts are what the test says.
type faulty struct {
	open  func(pipeline.Task) error
	next  func(dst []pipeline.Tuple[int]) (int, error)
	close func() error
}

func (*faulty) Name() string { return "faulty" }

func (f *faulty) Open(_ context.Context, t pipeline.Task) (pipeline.Spout[int], error) {
	if f.open != nil {
		if err := f.open(t); err != nil {
			return nil, err
		}
	}
	return f, nil
}

func (f *faulty) Next(_ context.Context, dst []pipeline.Tuple[int]) (int, error) {
	if f.next == nil {
		return 0, io.EOF
	}
	return f.next(dst)
}

func (f *faulty) Close(context.Context) error {
	if f.close == nil {
		return nil
	}
	return f.close()
}

func TestFaultySpouts(t *testing.T) {
	tests := []struct {
		name string
		src  faulty
		want string
	}{
		{"too many", faulty{next: func(dst []pipeline.Tuple[int]) (int, error) { return len(dst) + 1, nil }}, "places"},
		{"negative", faulty{next: func([]pipeline.Tuple[int]) (int, error) { return -1, nil }}, "places"},
		{"never anything", faulty{next: func([]pipeline.Tuple[int]) (int, error) { return 0, nil }}, io.ErrNoProgress.Error()},
		{"wrapped EOF", faulty{next: func([]pipeline.Tuple[int]) (int, error) { return 0, fmt.Errorf("read: %w", io.EOF) }}, "read: EOF"},
		{"panic", faulty{next: func([]pipeline.Tuple[int]) (int, error) { panic("help") }}, "panic: help"},
		{"close fails", faulty{close: func() error { return errBoom }}, `close source "faulty": boom`},
		{"close panics", faulty{close: func() error { panic("help") }}, `close source "faulty": panic: help`},
		{"cancelled by itself", faulty{next: func([]pipeline.Tuple[int]) (int, error) { return 0, context.Canceled }}, "context canceled"},
		{"open fails", faulty{open: func(t pipeline.Task) error {
			if t.Index == 1 {
				return errBoom
			}
			return nil
		}}, "open t/faulty[1]: boom"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			sink := &pipelinetest.Sink[int]{}
			top := pipeline.New("t", pipeline.Config{})
			from(top, &tt.src, pipeline.Parallel(2)).To(sink)
			err := top.Run(context.Background())
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("Run returned %v, want %q", err, tt.want)
			}
		})
	}
}

// Tuples that come together with io.EOF count.
func TestTuplesWithEOF(t *testing.T) {
	src := &faulty{next: func(dst []pipeline.Tuple[int]) (int, error) {
		dst[0] = pipeline.Tuple[int]{Value: 7} // with the zero Ack: nobody needs to hear of it
		return 1, io.EOF
	}}
	sink := &pipelinetest.Sink[int]{}
	top := pipeline.New("t", pipeline.Config{})
	from(top, src).To(sink)
	mustRun(t, top)
	if got := sink.Values(); !slices.Equal(got, []int{7}) {
		t.Errorf("stored %v, want [7]", got)
	}
}

// What was opened is closed when something later can't be.
func TestOpenFails(t *testing.T) {
	var closed atomic.Int32
	src := &faulty{close: func() error { closed.Add(1); return nil }}
	first := &pipelinetest.Sink[int]{}
	top := pipeline.New("t", pipeline.Config{})
	s := from(top, src)
	s.To(first)
	s.ToEach(func(task pipeline.Task) (pipeline.Sink[int], error) { return nil, errBoom })
	pipeline.Bolt(s, "unopened", func(pipeline.Task) pipeline.Bolter[int, struct{}] { panic("not reached") })
	err := top.Run(context.Background())
	if !errors.Is(err, errBoom) || !strings.Contains(err.Error(), "open t/faulty.sink-2[0]") {
		t.Errorf("Run returned %v", err)
	}
	if closed.Load() != 1 || first.Closes() != 1 || first.Writes() != 0 {
		t.Errorf("spout closed %d times, sink %d times", closed.Load(), first.Closes())
	}
}

func TestSinkCloseFails(t *testing.T) {
	src, sink := numbers(3), &pipelinetest.Sink[int]{OnClose: func(context.Context) error { return errBoom }}
	top := pipeline.New("t", pipeline.Config{})
	from(top, src).To(sink)
	err := top.Run(context.Background())
	if !errors.Is(err, errBoom) || !strings.Contains(err.Error(), `close sink "numbers.sink"`) {
		t.Errorf("Run returned %v", err)
	}
	src.Check(t)
}

// closer is a bolt with a Close.
type closer struct {
	closed *atomic.Int32
	err    error
}

func (*closer) Process(_ context.Context, v int, emit func(int)) error { emit(v); return nil }
func (c *closer) Close() error                                         { c.closed.Add(1); return c.err }

func TestBoltsAreClosed(t *testing.T) {
	var closed atomic.Int32
	src := numbers(3)
	top := pipeline.New("t", pipeline.Config{})
	pipeline.Bolt(from(top, src), "step", func(task pipeline.Task) pipeline.Bolter[int, int] {
		c := &closer{closed: &closed}
		if task.Index == 2 {
			c.err = errBoom
		}
		return c
	}, pipeline.Parallel(3)).To(&pipelinetest.Sink[int]{})
	err := top.Run(context.Background())
	if !errors.Is(err, errBoom) || !strings.Contains(err.Error(), `close stage "step"`) {
		t.Errorf("Run returned %v", err)
	}
	if n := closed.Load(); n != 3 {
		t.Errorf("%d bolts were closed, want 3", n)
	}
}

// User code that ends its goroutine, as t.Fatal does, must not leave the others waiting for it.
func TestGoexit(t *testing.T) {
	goexit := func(context.Context, int) (int, error) { runtime.Goexit(); return 0, nil }
	tests := map[string]func(top *pipeline.Topology, s pipeline.Stream[int]){
		"bolt": func(_ *pipeline.Topology, s pipeline.Stream[int]) {
			pipeline.Map(s, "step", goexit).To(&pipelinetest.Sink[int]{})
		},
		"filter": func(_ *pipeline.Topology, s pipeline.Stream[int]) {
			s.Filter("none", func(int) bool { runtime.Goexit(); return false }).To(&pipelinetest.Sink[int]{})
		},
		"sink": func(_ *pipeline.Topology, s pipeline.Stream[int]) {
			s.To(&pipelinetest.Sink[int]{OnWrite: func(context.Context, int, []int) error { runtime.Goexit(); return nil }})
		},
	}
	for name, build := range tests {
		t.Run(name, func(t *testing.T) {
			src := numbers(100000)
			top := pipeline.New("t", pipeline.Config{})
			build(top, from(top, src))
			if err := top.Run(context.Background()); err == nil || !strings.Contains(err.Error(), "Goexit") {
				t.Errorf("Run returned %v", err)
			}
			src.Check(t)
		})
	}
}

func TestRunOnce(t *testing.T) {
	top := pipeline.New("t", pipeline.Config{})
	from(top, numbers(1)).To(&pipelinetest.Sink[int]{})
	mustRun(t, top)
	if err := top.Run(context.Background()); err == nil || !strings.Contains(err.Error(), "called before") {
		t.Errorf("second Run returned %v", err)
	}
}

// A context that has ended before Run lets nothing through but opens and closes everything.
func TestStoppedBeforeRun(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	src, sink := numbers(10), &pipelinetest.Sink[int]{}
	top := pipeline.New("t", pipeline.Config{})
	from(top, src).To(sink)
	if err := top.Run(ctx); err != nil {
		t.Fatal(err)
	}
	if src.Handed() != 0 || sink.Closes() != 1 {
		t.Errorf("%d tuples handed out, sink closed %d times", src.Handed(), sink.Closes())
	}
	src.Check(t)
}
