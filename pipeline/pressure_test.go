package pipeline_test

import (
	"context"
	"runtime"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/metaq-go/metaq/pipeline"
	"github.com/metaq-go/metaq/pipeline/pipelinetest"
)

// P9: a spout task never has more than MaxPending tuples out.
func TestMaxPending(t *testing.T) {
	for _, limit := range []int{1, 5, 300} {
		inBubble(t, func(t *testing.T) {
			src := numbers(2000)
			sink := &pipelinetest.Sink[int]{OnWrite: func(context.Context, int, []int) error {
				time.Sleep(time.Millisecond)
				if n := src.Pending(); n > limit {
					t.Errorf("%d tuples pending, want at most %d", n, limit)
				}
				return nil
			}}
			top := pipeline.New("t", pipeline.Config{MaxPending: limit})
			fan := pipeline.FlatMap(from(top, src), "fan", func(_ context.Context, v int, emit func(int)) error {
				for range v % 5 {
					emit(v)
				}
				return nil
			}, pipeline.Parallel(2))
			fan.To(sink, pipeline.Batch(10, time.Second))
			mustRun(t, top)
			src.Check(t)
		})
	}
}

// A blocked sink blocks the source, and memory with it: queues and window are all there is.
func TestBackPressure(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		src := pipelinetest.NewSource("in", upTo(100000))
		release := make(chan struct{})
		sink := &pipelinetest.Sink[int]{OnWrite: func(context.Context, int, []int) error { <-release; return nil }}
		top := pipeline.New("t", pipeline.Config{MaxPending: 50000})
		pipeline.Map(pipeline.Map(from(top, src), "one", failing(-1, 0)), "two", failing(-1, 0)).To(sink)
		stop := running(top)
		synctest.Wait()
		if n := src.Handed(); n > 6000 {
			t.Errorf("%d tuples were read although nothing is stored, want what three queues hold", n)
		}
		close(release)
		if err := stop(); err != nil {
			t.Fatal(err)
		}
		src.Check(t)
	})
}

// A tuple that is stuck holds the window only as far as the window reaches: room below it is used.
func TestWindowIsUsedWithAStuckTuple(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		src, sink := numbers(1000), &pipelinetest.Sink[int]{}
		top := pipeline.New("t", pipeline.Config{MaxPending: 100, Backoff: time.Hour, MaxBackoff: time.Hour})
		pipeline.Map(from(top, src), "step", failing(99, 1)).To(sink)
		ended := make(chan error)
		go func() { ended <- top.Run(context.Background()) }()
		synctest.Wait()
		if n := len(sink.Values()); n < 170 || n > 199 {
			t.Errorf("%d tuples stored while tuple 99 is stuck, want 99 before it and 75 to 100 behind it", n)
		}
		if err := <-ended; err != nil {
			t.Fatal(err)
		}
		src.Check(t)
	})
}

// blocks is a source of values that are only in the topology.
type blocks struct {
	left  int
	alive *atomic.Int64
}

func (*blocks) Name() string { return "blocks" }

func (b *blocks) Open(context.Context, pipeline.Task) (pipeline.Spout[*[1024]byte], error) {
	return b, nil
}

func (b *blocks) Next(ctx context.Context, dst []pipeline.Tuple[*[1024]byte]) (int, error) {
	if b.left == 0 {
		<-ctx.Done()
		return 0, ctx.Err()
	}
	n := min(len(dst), b.left)
	for i := range n {
		v := new([1024]byte)
		b.alive.Add(1)
		runtime.AddCleanup(v, func(alive *atomic.Int64) { alive.Add(-1) }, b.alive)
		dst[i] = pipeline.Tuple[*[1024]byte]{Value: v}
	}
	b.left -= n
	return n, nil
}

func (*blocks) Close(context.Context) error { return nil }

// discard is a sink that tells how many tuples it was given.
type discard[T any] struct{ n atomic.Int64 }

func (d *discard[T]) Write(_ context.Context, batch []T) error {
	d.n.Add(int64(len(batch)))
	return nil
}
func (*discard[T]) Close(context.Context) error { return nil }

// A topology that waits keeps nothing of what went through it.
func TestDoneTuplesAreFreed(t *testing.T) {
	const n = 5000
	var alive atomic.Int64
	sink := &discard[*[1024]byte]{}
	top := pipeline.New("t", pipeline.Config{})
	s := from(top, &blocks{left: n, alive: &alive})
	twice := pipeline.FlatMap(s, "flat", func(_ context.Context, v *[1024]byte, emit func(*[1024]byte)) error {
		emit(v)
		emit(v)
		return nil
	})
	pipeline.Map(twice, "map", func(_ context.Context, v *[1024]byte) (*[1024]byte, error) { return v, nil }).To(sink)
	stop := running(top)
	for sink.n.Load() < 2*n {
		runtime.Gosched()
	}
	for tries := 0; alive.Load() > 0 && tries < 100; tries++ {
		runtime.GC()
	}
	if left := alive.Load(); left > 0 {
		t.Errorf("%d of %d tuples are still held", left, n)
	}
	if err := stop(); err != nil {
		t.Fatal(err)
	}
}
