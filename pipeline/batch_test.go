package pipeline_test

import (
	"context"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/metaq-go/metaq/pipeline"
	"github.com/metaq-go/metaq/pipeline/pipelinetest"
)

func sizes[T any](batches [][]T) (n []int) {
	for _, b := range batches {
		n = append(n, len(b))
	}
	return n
}

func TestBatchByCount(t *testing.T) {
	src, sink := numbers(250), &pipelinetest.Sink[int]{}
	top := pipeline.New("t", pipeline.Config{})
	from(top, src).To(sink, pipeline.Batch(100, 0))
	mustRun(t, top)
	if got, want := sizes(sink.Batches()), []int{100, 100, 50}; !slices.Equal(got, want) {
		t.Errorf("batches of %v, want %v", got, want)
	}
	src.Check(t)
}

// A tuple never waits longer than the batch's time, wherever in the batch it is.
func TestBatchByAge(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		start := time.Now()
		var at []time.Duration
		src := pipelinetest.NewSource[int]("in")
		sink := &pipelinetest.Sink[int]{OnWrite: func(context.Context, int, []int) error {
			at = append(at, since(start))
			return nil
		}}
		top := pipeline.New("t", pipeline.Config{})
		from(top, src).To(sink, pipeline.Batch(100, time.Second))
		stop := running(top)
		for i := range 4 { // at 0, 0.4, 0.8 and 1.2 seconds
			src.Put(0, i)
			time.Sleep(400 * time.Millisecond)
		}
		time.Sleep(time.Minute)
		if got, want := sizes(sink.Batches()), []int{3, 1}; !slices.Equal(got, want) {
			t.Errorf("batches of %v, want %v", got, want)
		}
		if want := []time.Duration{time.Second, 2200 * time.Millisecond}; !slices.Equal(at, want) {
			t.Errorf("written at %v, want %v", at, want)
		}
		if err := stop(); err != nil {
			t.Error(err)
		}
	})
}

// The age counts although the sink never finds its queue empty.
func TestBatchByAgeUnderLoad(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		start := time.Now()
		var first time.Duration
		sink := &pipelinetest.Sink[int]{OnWrite: func(context.Context, int, []int) error {
			if first == 0 {
				first = since(start)
			}
			return nil
		}}
		src := numbers(1000)
		src.MaxNext = 1
		top := pipeline.New("t", pipeline.Config{})
		slow := pipeline.Map(from(top, src), "slow", func(_ context.Context, v int) (int, error) {
			time.Sleep(time.Millisecond)
			return v, nil
		})
		slow.To(sink, pipeline.Batch(10000, 50*time.Millisecond))
		mustRun(t, top)
		if first < 50*time.Millisecond || first > 55*time.Millisecond {
			t.Errorf("first write after %v, want 50 ms after the first tuple", first)
		}
	})
}

type sizedTuple struct{ n int }

func (s sizedTuple) Size() int { return s.n }

type sizedPointer struct{ n int }

func (s *sizedPointer) Size() int { return s.n }

// measuring is a sink that knows the size of its tuples.
type measuring struct{ pipelinetest.Sink[int] }

func (*measuring) Size(v int) int { return v }

func TestBatchByBytes(t *testing.T) {
	const each, limit = 30, 100 // 4 tuples reach the limit
	want := []int{4, 4, 2}
	check := func(t *testing.T, got []int) {
		t.Helper()
		if !slices.Equal(got, want) {
			t.Errorf("batches of %v, want %v", got, want)
		}
	}
	t.Run("sink", func(t *testing.T) { check(t, batchBytes(t, each, new(measuring), limit)) })
	t.Run("string", func(t *testing.T) {
		check(t, batchBytes(t, strings.Repeat("x", each), new(pipelinetest.Sink[string]), limit))
	})
	t.Run("bytes", func(t *testing.T) {
		check(t, batchBytes(t, make([]byte, each), new(pipelinetest.Sink[[]byte]), limit))
	})
	t.Run("value", func(t *testing.T) {
		check(t, batchBytes(t, sizedTuple{each}, new(pipelinetest.Sink[sizedTuple]), limit))
	})
	t.Run("method of the pointer", func(t *testing.T) {
		check(t, batchBytes(t, sizedPointer{each}, new(pipelinetest.Sink[sizedPointer]), limit))
	})
	t.Run("pointer", func(t *testing.T) {
		check(t, batchBytes(t, &sizedPointer{each}, new(pipelinetest.Sink[*sizedPointer]), limit))
	})
}

// batchBytes sends ten tuples through a sink and returns the sizes of its batches.
func batchBytes[T any, S interface {
	pipeline.Sink[T]
	Batches() [][]T
}](t *testing.T, v T, sink S, limit int) []int {
	t.Helper()
	src := pipelinetest.NewSource("in", slices.Repeat([]T{v}, 10))
	src.Finish()
	top := pipeline.New("t", pipeline.Config{})
	from(top, src).To(sink, pipeline.Batch(1000, 0), pipeline.BatchBytes(limit))
	mustRun(t, top)
	src.Check(t)
	return sizes(sink.Batches())
}

// C31: a batch that is not full at the stop is written, and a batch of which a filter leaves nothing is acknowledged.
func TestPartialBatchAtStop(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		src, sink := pipelinetest.NewSource("in", upTo(37)), &pipelinetest.Sink[int]{}
		top := pipeline.New("t", pipeline.Config{})
		from(top, src).To(sink, pipeline.Batch(100, 0))
		stop := running(top)
		time.Sleep(time.Hour)
		if n := len(sink.Values()); n != 0 {
			t.Fatalf("%d tuples were written before the batch was full", n)
		}
		if err := stop(); err != nil {
			t.Fatal(err)
		}
		wantSorted(t, "stored", sink.Values(), upTo(37))
		if n := src.Done(); n != 37 {
			t.Errorf("%d tuples acknowledged, want 37", n)
		}
		src.Check(t)
	})
}

func TestFilteredToNothing(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		src, sink := pipelinetest.NewSource("in", upTo(37)), &pipelinetest.Sink[int]{}
		top := pipeline.New("t", pipeline.Config{})
		from(top, src).Filter("none", func(int) bool { return false }).To(sink, pipeline.Batch(100, 0))
		stop := running(top)
		synctest.Wait()
		if n := src.Done(); n != 37 {
			t.Errorf("%d tuples acknowledged, want 37, without waiting for anything", n)
		}
		if err := stop(); err != nil {
			t.Fatal(err)
		}
		if n := sink.Writes(); n != 0 {
			t.Errorf("the sink was written %d times, want none", n)
		}
	})
}

// A batch by count alone that needs more source tuples than may be pending must not wait for ever: the sources can't
// send what would fill it.
func TestBatchLargerThanMaxPending(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		src, sink := numbers(100), &pipelinetest.Sink[int]{}
		top := pipeline.New("t", pipeline.Config{MaxPending: 10})
		tenth := from(top, src).Filter("fifth", func(v int) bool { return v%5 == 0 })
		tenth.To(sink, pipeline.Batch(1000, 0))
		mustRun(t, top)
		if n := len(sink.Values()); n != 20 {
			t.Errorf("%d tuples stored, want 20", n)
		}
		if n := sink.Writes(); n > 11 {
			t.Errorf("%d writes, want one for each full window", n)
		}
		src.Check(t)
	})
}

// The same when the sink has long been waiting by the time the source runs out of room.
func TestBatchWaitingWhenTheSourceStops(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		src, sink := pipelinetest.NewSource("in", upTo(9)), &pipelinetest.Sink[int]{}
		top := pipeline.New("t", pipeline.Config{MaxPending: 10})
		from(top, src).Filter("first", func(v int) bool { return v == 0 }).To(sink, pipeline.Batch(1000, 0))
		stop := running(top)
		time.Sleep(time.Hour)
		if n := sink.Writes(); n != 0 {
			t.Fatalf("%d writes while there is room, want none", n)
		}
		src.Put(0, upTo(20)[9:]...) // the window fills up, and nothing reaches the sink
		time.Sleep(time.Second)
		if n := src.Done(); n != 20 {
			t.Errorf("%d tuples done, want 20", n)
		}
		if err := stop(); err != nil {
			t.Fatal(err)
		}
	})
}

// Without Batch nothing waits: what is ready is written at once.
func TestNoBatchNoWaiting(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		src, sink := pipelinetest.NewSource[int]("in"), &pipelinetest.Sink[int]{}
		top := pipeline.New("t", pipeline.Config{})
		s := from(top, src)
		for _, name := range []string{"one", "two", "three"} {
			s = pipeline.Map(s, name, func(_ context.Context, v int) (int, error) { return v, nil }, pipeline.Parallel(3))
		}
		s.To(sink)
		stop := running(top)
		for i := range 5 {
			src.Put(0, i)
			synctest.Wait() // no time passes
			if got := len(sink.Values()); got != i+1 {
				t.Fatalf("%d tuples stored at once, want %d", got, i+1)
			}
		}
		if err := stop(); err != nil {
			t.Fatal(err)
		}
	})
}

// What a bolt emitted does not wait for the rest of the batch it came in, as soon as the stage is known to be slow.
func TestSlowStageSendsOn(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		start := time.Now()
		sink := &pipelinetest.Sink[int]{OnWrite: func(_ context.Context, _ int, batch []int) error {
			for _, v := range batch {
				if late := since(start) - time.Duration(v+1)*time.Second; late > time.Second {
					t.Errorf("tuple %d arrived %v after it was made", v, late)
				}
			}
			return nil
		}}
		src := numbers(200)
		top := pipeline.New("t", pipeline.Config{})
		slow := pipeline.Map(from(top, src), "slow", func(_ context.Context, v int) (int, error) {
			time.Sleep(time.Second)
			return v, nil
		})
		slow.To(sink)
		mustRun(t, top)
	})
}

// A slow stage's tasks share the work although all of it was there at once.
func TestSlowStageSharesWork(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		start := time.Now()
		src, sink := numbers(100), &pipelinetest.Sink[int]{}
		top := pipeline.New("t", pipeline.Config{})
		slow := pipeline.Map(from(top, src), "slow", func(_ context.Context, v int) (int, error) {
			time.Sleep(time.Second)
			return v, nil
		}, pipeline.Parallel(10))
		slow.To(sink)
		mustRun(t, top)
		if took := since(start); took > 12*time.Second {
			t.Errorf("100 tuples of a second each took %v with 10 tasks, want about 10 s", took)
		}
	})
}
