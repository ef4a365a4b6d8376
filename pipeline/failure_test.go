package pipeline_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/metaq-go/metaq/pipeline"
	"github.com/metaq-go/metaq/pipeline/pipelinetest"
)

var errBoom = errors.New("boom")

// failing returns a Map function that fails on one value so many times.
func failing(value, times int) func(context.Context, int) (int, error) {
	var tried atomic.Int64
	return func(_ context.Context, v int) (int, error) {
		if v == value && tried.Add(1) <= int64(times) {
			return 0, errBoom
		}
		return v, nil
	}
}

const always = 1 << 30

func TestBoltIsRetriedWithBackoff(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		start := time.Now()
		var at []time.Duration
		src, sink := numbers(1), &pipelinetest.Sink[int]{}
		top := pipeline.New("t", pipeline.Config{Attempts: 6, Backoff: time.Second, MaxBackoff: 5 * time.Second})
		pipeline.Map(from(top, src), "flaky", func(_ context.Context, v int) (int, error) {
			at = append(at, since(start))
			if len(at) < 6 {
				return 0, errBoom
			}
			return v, nil
		}).To(sink)
		mustRun(t, top)
		want := []time.Duration{0, 1e9, 3e9, 7e9, 12e9, 17e9} // pauses 1, 2, 4, 5, 5 s
		if !slices.Equal(at, want) {
			t.Errorf("tried at %v, want %v", at, want)
		}
		wantSorted(t, "stored", sink.Values(), []int{0})
	})
}

// What a bolt emitted before it failed is not sent, nor twice after the retry (P7).
func TestEmittedBeforeAFailureIsDropped(t *testing.T) {
	for _, how := range []string{"error", "panic"} {
		t.Run(how, func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				tries := 0
				got := pipelinetest.Run(t, []int{1, 2}, func(s pipeline.Stream[int]) pipeline.Stream[int] {
					return pipeline.FlatMap(s, "twice", func(_ context.Context, v int, emit func(int)) error {
						emit(v)
						if tries++; tries < 3 {
							if how == "panic" {
								panic(errBoom)
							}
							return errBoom
						}
						emit(v * 10)
						return nil
					})
				})
				if want := []int{1, 10, 2, 20}; !slices.Equal(got, want) {
					t.Errorf("got %v, want %v", got, want)
				}
			})
		})
	}
}

// Without dead letters a tuple that fails for good ends Run; it and what is behind it come again.
func TestFailureEndsRun(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		src, sink := numbers(100), &pipelinetest.Sink[int]{}
		top := pipeline.New("t", pipeline.Config{})
		pipeline.Map(from(top, src), "step", failing(42, always)).To(sink)
		err := top.Run(context.Background())
		if !errors.Is(err, errBoom) {
			t.Fatalf("Run returned %v, want %v", err, errBoom)
		}
		for _, part := range []string{`topology "t"`, `stage "step"`, "numbers/0@42", "attempt 3"} {
			if !strings.Contains(err.Error(), part) {
				t.Errorf("error %q does not name %s", err, part)
			}
		}
		src.Check(t)
		if got := src.Committed(0); got != 42 {
			t.Errorf("committed is %d, want 42, the tuple that failed", got)
		}
		if got := src.Failed(); got == 0 {
			t.Error("no tuple was answered with an error")
		}
	})
}

func TestDeadLetter(t *testing.T) {
	tests := []struct {
		name     string
		build    func(top *pipeline.Topology, s pipeline.Stream[int]) pipeline.Stream[int]
		stage    string
		attempts int
		cause    string
		stack    bool
	}{
		{"error", func(_ *pipeline.Topology, s pipeline.Stream[int]) pipeline.Stream[int] {
			return pipeline.Map(s, "step", failing(7, always))
		}, "step", 3, "boom", false},
		{"permanent error", func(_ *pipeline.Topology, s pipeline.Stream[int]) pipeline.Stream[int] {
			return pipeline.Map(s, "step", func(_ context.Context, v int) (int, error) {
				if v == 7 {
					return 0, fmt.Errorf("look at %d: %w", v, pipeline.Permanent(errBoom))
				}
				return v, nil
			})
		}, "step", 1, "look at 7: boom", false},
		{"panic", func(_ *pipeline.Topology, s pipeline.Stream[int]) pipeline.Stream[int] {
			return pipeline.Map(s, "step", func(_ context.Context, v int) (int, error) {
				return 100 / (v - 7), nil
			})
		}, "step", 3, "panic: runtime error: integer divide by zero", true},
		{"filter", func(_ *pipeline.Topology, s pipeline.Stream[int]) pipeline.Stream[int] {
			return s.Filter("odd", func(v int) bool { return 100/(v-7) < 1000 })
		}, "odd", 1, "panic: runtime error: integer divide by zero", true},
		{"key", func(_ *pipeline.Topology, s pipeline.Stream[int]) pipeline.Stream[int] {
			byKey := s.ByID(func(v int) uint64 { return uint64(100 / (v - 7)) })
			return pipeline.Map(byKey, "step", failing(-1, 0), pipeline.Parallel(2))
		}, "numbers", 1, "panic: runtime error: integer divide by zero", true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				src, sink, letters := numbers(20), &pipelinetest.Sink[int]{}, &pipelinetest.Sink[pipeline.DeadLetter]{}
				top := pipeline.New("top", pipeline.Config{DeadLetters: letters})
				tt.build(top, from(top, src)).To(sink)
				mustRun(t, top)
				if n := len(sink.Values()); n != 19 {
					t.Errorf("%d tuples stored, want the other 19", n)
				}
				if n := src.Done(); n != 20 {
					t.Errorf("%d tuples acknowledged, want 20: a dead letter counts as done", n)
				}
				src.Check(t)
				dead := letters.Values()
				if len(dead) != 1 {
					t.Fatalf("%d dead letters, want 1", len(dead))
				}
				d := dead[0]
				if d.Topology != "top" || d.Stage != tt.stage || d.Attempts != tt.attempts || d.Origin.String() != "numbers/0@7" {
					t.Errorf("dead letter of %s %s after %d attempts from %v", d.Topology, d.Stage, d.Attempts, d.Origin)
				}
				if !strings.HasPrefix(d.Cause, tt.cause) || string(d.Value) != "7" || !d.Time.Equal(time.Now()) {
					t.Errorf("cause %q, value %q, time %v", d.Cause, d.Value, d.Time)
				}
				if (d.Stack != "") != tt.stack {
					t.Errorf("stack: %q", d.Stack)
				}
				if tt.stack && !strings.Contains(d.Cause, "failure_test.go:") {
					t.Errorf("cause %q doesn't say where the panic began", d.Cause)
				}
			})
		})
	}
}

func TestDecodeFails(t *testing.T) {
	src, sink, letters := numbers(20), &pipelinetest.Sink[string]{}, &pipelinetest.Sink[pipeline.DeadLetter]{}
	top := pipeline.New("t", pipeline.Config{DeadLetters: letters})
	pipeline.From(top, src, func(v int) (string, error) {
		switch v {
		case 3:
			return "", errBoom
		case 5:
			panic("no five")
		}
		return fmt.Sprint(v), nil
	}).To(sink)
	mustRun(t, top)
	src.Check(t)
	var got []string
	for _, d := range letters.Values() {
		got = append(got, fmt.Sprintf("%v %s %s", d.Origin, d.Value, strings.Fields(d.Cause)[1]))
	}
	if want := []string{"numbers/0@3 3 boom", "numbers/0@5 5 panic:"}; !slices.Equal(got, want) {
		t.Errorf("dead letters %q, want %q", got, want)
	}
	if n := len(sink.Values()); n != 18 {
		t.Errorf("%d tuples stored, want 18", n)
	}
}

// A sink that is away is waited out, in order, with growing pauses.
func TestSinkIsWaitedOut(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		start := time.Now()
		var at []time.Duration
		src := numbers(10)
		sink := &pipelinetest.Sink[int]{OnWrite: func(_ context.Context, n int, _ []int) error {
			at = append(at, since(start))
			if n <= 12 {
				return errBoom
			}
			return nil
		}}
		top := pipeline.New("t", pipeline.Config{Backoff: time.Second})
		from(top, src).To(sink)
		mustRun(t, top)
		if got := sink.Values(); !slices.Equal(got, upTo(10)) {
			t.Errorf("stored %v", got)
		}
		if at[3] != 7*time.Second || at[12]-at[11] != 30*time.Second {
			t.Errorf("written at %v", at)
		}
		src.Check(t)
	})
}

// C29: the sink refuses record 3 of 10 once; it is not stored behind later ones.
func TestRefusedRecordKeepsOrder(t *testing.T) {
	for _, parallel := range []int{1, 3} {
		inBubble(t, func(t *testing.T) {
			refused := false
			sink := &pipelinetest.Sink[int]{OnWrite: func(_ context.Context, _ int, batch []int) error {
				if slices.Contains(batch, 3) && !refused {
					refused = true
					return errBoom
				}
				return nil
			}}
			src := numbers(10)
			src.MaxNext = 1
			top := pipeline.New("t", pipeline.Config{Mode: pipeline.Ordered})
			pipeline.Map(from(top, src), "flaky", failing(3, 2), pipeline.Parallel(parallel)).To(sink)
			mustRun(t, top)
			if got := sink.Values(); !slices.Equal(got, upTo(10)) || !refused {
				t.Errorf("stored %v, want 0 to 9 in order", got)
			}
		})
	}
}

// A batch that can't be stored is halved until the bad tuples are found; the others are stored in order.
func TestPermanentSinkErrorFindsTheBadTuples(t *testing.T) {
	bad := []int{0, 17, 18, 63, 99}
	src, letters := numbers(100), &pipelinetest.Sink[pipeline.DeadLetter]{}
	sink := &pipelinetest.Sink[int]{OnWrite: func(_ context.Context, _ int, batch []int) error {
		for _, v := range batch {
			switch {
			case v == 18:
				panic("eighteen")
			case slices.Contains(bad, v):
				return pipeline.Permanent(fmt.Errorf("%d doesn't fit", v))
			}
		}
		return nil
	}}
	top := pipeline.New("t", pipeline.Config{DeadLetters: letters})
	from(top, src).To(sink, pipeline.Batch(100, 0))
	mustRun(t, top)
	var good, dead []int
	for v := range 100 {
		if !slices.Contains(bad, v) {
			good = append(good, v)
		}
	}
	for _, d := range letters.Values() {
		dead = append(dead, int(d.Origin.Offset))
		if d.Stage != "numbers.sink" || d.Attempts != 1 {
			t.Errorf("dead letter %+v", d)
		}
	}
	if got := sink.Values(); !slices.Equal(got, good) {
		t.Errorf("stored %v", got)
	}
	if !slices.Equal(dead, bad) {
		t.Errorf("dead letters for %v, want %v", dead, bad)
	}
	if src.Done() != 100 {
		t.Errorf("%d tuples acknowledged, want 100", src.Done())
	}
	src.Check(t)
}

func TestPermanentSinkErrorEndsRun(t *testing.T) {
	src := numbers(10)
	sink := &pipelinetest.Sink[int]{OnWrite: func(_ context.Context, _ int, batch []int) error {
		if slices.Contains(batch, 4) {
			return pipeline.Permanent(errBoom)
		}
		return nil
	}}
	top := pipeline.New("t", pipeline.Config{})
	from(top, src).To(sink, pipeline.Batch(10, 0))
	err := top.Run(context.Background())
	if !errors.Is(err, errBoom) || !strings.Contains(err.Error(), `sink "numbers.sink", tuple numbers/0@4`) {
		t.Errorf("Run returned %v", err)
	}
	if got := src.Committed(0); got != 4 {
		t.Errorf("committed is %d, want 4", got)
	}
	if n := sink.Closes(); n != 1 {
		t.Errorf("the sink was closed %d times", n)
	}
	src.Check(t)
}

// Dead letters that can't be written must not be lost either.
func TestDeadLetterSinkFails(t *testing.T) {
	src := numbers(10)
	letters := &pipelinetest.Sink[pipeline.DeadLetter]{OnWrite: func(context.Context, int, []pipeline.DeadLetter) error {
		return pipeline.Permanent(errBoom)
	}}
	top := pipeline.New("t", pipeline.Config{DeadLetters: letters, Attempts: 1})
	pipeline.Map(from(top, src), "step", failing(4, always)).To(&pipelinetest.Sink[int]{})
	err := top.Run(context.Background())
	if !errors.Is(err, errBoom) || !strings.Contains(err.Error(), "dead-letters") {
		t.Errorf("Run returned %v", err)
	}
	if got := src.Committed(0); got > 4 {
		t.Errorf("committed is %d, behind the lost tuple 4", got)
	}
	src.Check(t)
}

// lateEmitter calls emit when it must not any more.
type lateEmitter struct{ emit func(int) }

func (l *lateEmitter) Process(_ context.Context, _ int, emit func(int)) error {
	l.emit = emit
	return nil
}

func (l *lateEmitter) Close() error { l.emit(1); return nil }

func TestEmitAfterProcess(t *testing.T) {
	top := pipeline.New("t", pipeline.Config{})
	late := func(pipeline.Task) pipeline.Bolter[int, int] { return &lateEmitter{} }
	pipeline.Bolt(from(top, numbers(1)), "late", late).To(&pipelinetest.Sink[int]{})
	if err := top.Run(context.Background()); err == nil || !strings.Contains(err.Error(), "after Process returned") {
		t.Errorf("Run returned %v", err)
	}
}
