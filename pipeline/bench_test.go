package pipeline_test

import (
	"context"
	"io"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/metaq-go/metaq/pipeline"
)

// counting hands out 0…n-1 and counts what is done, the least a spout can do.
type counting struct {
	n, next int64
	parts   []string
	_       [64]byte // what the sink's core writes is kept off what the spout's core reads
	done    atomic.Int64
}

func (c *counting) Name() string { return "numbers" }

func (c *counting) Open(context.Context, pipeline.Task) (pipeline.Spout[int64], error) { return c, nil }

func (c *counting) Next(_ context.Context, dst []pipeline.Tuple[int64]) (int, error) {
	n := min(int64(len(dst)), c.n-c.next)
	for i := range n {
		v := c.next + i
		dst[i] = pipeline.Tuple[int64]{
			Value:  v,
			Origin: pipeline.Origin{Partition: c.parts[v>>6&7], Offset: v},
			Ack:    pipeline.Ack{To: c, Seq: uint64(v)},
		}
	}
	c.next += n
	if c.next == c.n {
		return int(n), io.EOF
	}
	return int(n), nil
}

func (c *counting) Done(uint64, error)          { c.done.Add(1) }
func (c *counting) Close(context.Context) error { return nil }

// nowhere is a sink that stores nothing.
type nowhere[T any] struct{}

func (nowhere[T]) Write(context.Context, []T) error { return nil }
func (nowhere[T]) Close(context.Context) error      { return nil }

func same(v int64) (int64, error) { return v, nil }

func plusOne(_ context.Context, v int64) (int64, error) { return v + 1, nil }

// bench runs a topology over b.N numbers and checks that each was acknowledged.
func bench(b *testing.B, cfg pipeline.Config, build func(s pipeline.Stream[int64])) {
	b.Helper()
	b.ReportAllocs()
	src := &counting{n: int64(b.N), parts: []string{"a", "b", "c", "d", "e", "f", "g", "h"}}
	top := pipeline.New("bench", cfg)
	build(pipeline.From(top, src, same))
	b.ResetTimer()
	cpu := cpuTime(b)
	if err := top.Run(context.Background()); err != nil {
		b.Fatal(err)
	}
	b.StopTimer()
	if got := src.done.Load(); got != int64(b.N) {
		b.Fatalf("%d tuples done, want %d", got, b.N)
	}
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds()/1e6, "Mtuples/s")
	b.ReportMetric(float64(cpuTime(b)-cpu)/float64(b.N), "cpu-ns/op")
}

// cpuTime is what the process has used: on a machine that does other things too it says more than the clock.
func cpuTime(b *testing.B) time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

func BenchmarkHop(b *testing.B) {
	bench(b, pipeline.Config{}, func(s pipeline.Stream[int64]) { s.To(nowhere[int64]{}) })
}

func BenchmarkThreeStages(b *testing.B) {
	bench(b, pipeline.Config{}, func(s pipeline.Stream[int64]) {
		one := pipeline.Map(s, "one", plusOne)
		two := pipeline.Map(one, "two", plusOne)
		pipeline.Map(two, "three", plusOne).To(nowhere[int64]{})
	})
}

func BenchmarkOrderedByKey(b *testing.B) {
	bench(b, pipeline.Config{Mode: pipeline.Ordered}, func(s pipeline.Stream[int64]) {
		byKey := s.ByID(func(v int64) uint64 { return uint64(v % 1000) })
		pipeline.Map(byKey, "one", plusOne, pipeline.Parallel(4)).To(nowhere[int64]{})
	})
}

func BenchmarkFilter(b *testing.B) {
	bench(b, pipeline.Config{}, func(s pipeline.Stream[int64]) {
		s.Filter("tenth", func(v int64) bool { return v%10 == 0 }).To(nowhere[int64]{})
	})
}

type wordCounter map[string]int64

func (c wordCounter) Process(_ context.Context, w string, emit func(int64)) error {
	c[w]++
	emit(c[w])
	return nil
}

// BenchmarkWordCount counts words: lines of eight, split, by word to four counters. An op is a line.
func BenchmarkWordCount(b *testing.B) {
	words := make([]string, 5000)
	for i := range words {
		words[i] = "word" + strconv.Itoa(i*7919%5000)
	}
	lines := make([]string, len(words)/8)
	for i := range lines {
		lines[i] = strings.Join(words[i*8:i*8+8], " ")
	}
	bench(b, pipeline.Config{}, func(s pipeline.Stream[int64]) {
		split := pipeline.FlatMap(s, "split", func(_ context.Context, v int64, emit func(string)) error {
			for w := range strings.FieldsSeq(lines[v%int64(len(lines))]) {
				emit(w)
			}
			return nil
		})
		counts := pipeline.Bolt(split.By(func(w string) string { return w }), "count",
			func(pipeline.Task) pipeline.Bolter[string, int64] { return wordCounter{} }, pipeline.Parallel(4))
		counts.To(nowhere[int64]{})
	})
	b.ReportMetric(8*float64(b.N)/b.Elapsed().Seconds()/1e6, "Mwords/s")
}

// pingPong is a spout that hands out the next tuple when the last one is done, and notes how long that took.
type pingPong struct {
	left int
	sent time.Time
	took []time.Duration
	done chan struct{}
}

func (*pingPong) Name() string { return "ping" }

func (p *pingPong) Open(context.Context, pipeline.Task) (pipeline.Spout[int64], error) { return p, nil }

func (p *pingPong) Next(_ context.Context, dst []pipeline.Tuple[int64]) (int, error) {
	if len(p.took) > 0 || !p.sent.IsZero() {
		<-p.done
		p.took = append(p.took, time.Since(p.sent))
	}
	if p.left == 0 {
		return 0, io.EOF
	}
	p.left--
	p.sent = time.Now()
	dst[0] = pipeline.Tuple[int64]{Ack: pipeline.Ack{To: p}}
	return 1, nil
}

func (p *pingPong) Done(uint64, error)        { p.done <- struct{}{} }
func (*pingPong) Close(context.Context) error { return nil }

// BenchmarkLatency is one tuple at a time through three stages, until it is acknowledged.
func BenchmarkLatency(b *testing.B) {
	src := &pingPong{left: b.N, done: make(chan struct{}, 1)}
	top := pipeline.New("bench", pipeline.Config{})
	s := pipeline.From(top, src, same)
	for _, name := range []string{"one", "two", "three"} {
		s = pipeline.Map(s, name, plusOne)
	}
	s.To(nowhere[int64]{})
	b.ResetTimer()
	if err := top.Run(context.Background()); err != nil {
		b.Fatal(err)
	}
	b.StopTimer()
	slices.Sort(src.took)
	b.ReportMetric(float64(src.took[len(src.took)/2].Nanoseconds())/1e3, "p50-µs")
	b.ReportMetric(float64(src.took[len(src.took)*99/100].Nanoseconds())/1e3, "p99-µs")
}

func BenchmarkTracker(b *testing.B) {
	b.ReportAllocs()
	var t pipeline.Tracker
	t.Start(0)
	for i := range b.N {
		t.Add(int64(i)).Done(nil)
		if i%4096 == 0 {
			t.Low()
		}
	}
}
