package pipeline_test

import (
	"context"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/metaq-go/metaq/pipeline"
	"github.com/metaq-go/metaq/pipeline/pipelinetest"
)

func TestBuild(t *testing.T) {
	sink := func() *pipelinetest.Sink[int] { return &pipelinetest.Sink[int]{} }
	step := func(s pipeline.Stream[int], name string, opts ...pipeline.Option) pipeline.Stream[int] {
		return pipeline.Map(s, name, failing(-1, 0), opts...)
	}
	tests := []struct {
		name  string
		cfg   pipeline.Config
		build func(top *pipeline.Topology, in pipeline.Stream[int])
		want  []string // parts of the error; none: no error
	}{
		{"good", pipeline.Config{}, func(_ *pipeline.Topology, in pipeline.Stream[int]) {
			step(in, "a", pipeline.Parallel(2)).To(sink(), pipeline.Batch(5, 0))
		}, nil},
		{"repeated name", pipeline.Config{}, func(_ *pipeline.Topology, in pipeline.Stream[int]) {
			step(step(in, "a"), "a").To(sink())
		}, []string{`stage "a"`, "taken"}},
		{"name of a filter", pipeline.Config{}, func(_ *pipeline.Topology, in pipeline.Stream[int]) {
			step(in.Filter("a", func(int) bool { return true }), "a").To(sink())
		}, []string{`stage "a"`, "taken"}},
		{"name of the source", pipeline.Config{}, func(_ *pipeline.Topology, in pipeline.Stream[int]) {
			step(in, "numbers").To(sink())
		}, []string{`"numbers"`, "taken"}},
		{"no name", pipeline.Config{}, func(_ *pipeline.Topology, in pipeline.Stream[int]) {
			step(in, "").To(sink())
		}, []string{"no name"}},
		{"two unnamed sinks", pipeline.Config{}, func(_ *pipeline.Topology, in pipeline.Stream[int]) {
			in.To(sink())
			in.To(sink())
		}, nil},
		{
			"name of the dead letters",
			pipeline.Config{DeadLetters: &pipelinetest.Sink[pipeline.DeadLetter]{}},
			func(_ *pipeline.Topology, in pipeline.Stream[int]) {
				step(in, "dead-letters").To(sink())
			},
			[]string{`"dead-letters"`, "taken"},
		},
		{"nobody consumes", pipeline.Config{}, func(_ *pipeline.Topology, in pipeline.Stream[int]) {
			step(in, "a")
		}, []string{`stage "a"`, "nobody consumes"}},
		{"nobody consumes a filter", pipeline.Config{}, func(_ *pipeline.Topology, in pipeline.Stream[int]) {
			in.To(sink())
			in.Filter("odd", func(int) bool { return true })
		}, []string{`filter "odd"`, "nobody consumes"}},
		{"nothing to consume", pipeline.Config{}, func(_ *pipeline.Topology, in pipeline.Stream[int]) {
			pipeline.FlatMap(in, "a", func(context.Context, int, func(struct{})) error { return nil })
		}, nil},
		{"another topology", pipeline.Config{}, func(_ *pipeline.Topology, in pipeline.Stream[int]) {
			other := pipeline.New("other", pipeline.Config{})
			in.Merge(from(other, numbers(1))).To(sink())
		}, []string{`"numbers" belongs to topology "other"`}},
		{"no tasks", pipeline.Config{}, func(_ *pipeline.Topology, in pipeline.Stream[int]) {
			step(in, "a", pipeline.Parallel(0)).To(sink())
		}, []string{`stage "a"`, "Parallel(0)"}},
		{"parallel To", pipeline.Config{}, func(_ *pipeline.Topology, in pipeline.Stream[int]) {
			in.To(sink(), pipeline.Parallel(2))
		}, []string{"ToEach"}},
		{"parallel broadcast", pipeline.Config{Mode: pipeline.Broadcast, Instances: 2}, func(_ *pipeline.Topology, in pipeline.Stream[int]) {
			step(in, "a", pipeline.Parallel(2)).To(sink())
		}, []string{"Broadcast"}},
		{"batch of a stage", pipeline.Config{}, func(_ *pipeline.Topology, in pipeline.Stream[int]) {
			step(in, "a", pipeline.Batch(5, 0)).To(sink())
		}, []string{"for sinks"}},
		{"empty batch", pipeline.Config{}, func(_ *pipeline.Topology, in pipeline.Stream[int]) {
			in.To(sink(), pipeline.Batch(0, time.Second))
		}, []string{"Batch(0, 1s)"}},
		{"negative time", pipeline.Config{}, func(_ *pipeline.Topology, in pipeline.Stream[int]) {
			in.To(sink(), pipeline.Batch(1, -time.Second))
		}, []string{"negative"}},
		{"bytes of an int", pipeline.Config{}, func(_ *pipeline.Topology, in pipeline.Stream[int]) {
			in.To(sink(), pipeline.BatchBytes(100))
		}, []string{"int has no method Size"}},
		{
			"numbers",
			pipeline.Config{Mode: 7, Instances: 2, MaxPending: -1, Attempts: -1, Backoff: -1, DrainTimeout: -1},
			func(_ *pipeline.Topology, in pipeline.Stream[int]) { in.To(sink()) },
			[]string{"Mode", "Instances", "MaxPending", "Attempts", "Backoff", "DrainTimeout"},
		},
		{"too many source tasks", pipeline.Config{}, func(top *pipeline.Topology, in pipeline.Stream[int]) {
			in.To(sink())
			from(top, pipelinetest.NewSource[int]("more"), pipeline.Parallel(70000)).To(sink())
		}, []string{"source tasks"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			top := pipeline.New("t", tt.cfg)
			tt.build(top, from(top, numbers(1)))
			err := top.Build()
			if (err != nil) != (len(tt.want) > 0) {
				t.Fatalf("Build returned %v, want an error with %q", err, tt.want)
			}
			for _, w := range tt.want {
				if !strings.Contains(err.Error(), w) {
					t.Errorf("error %q does not say %q", err, w)
				}
			}
			if err != nil && top.Run(context.Background()) == nil {
				t.Error("Run of a topology that Build refuses returned nil")
			}
		})
	}
	t.Run("empty", func(t *testing.T) {
		err := pipeline.New("", pipeline.Config{}).Build()
		for _, w := range []string{"no source", "has no name"} {
			if err == nil || !strings.Contains(err.Error(), w) {
				t.Errorf("error %v does not say %q", err, w)
			}
		}
	})
	t.Run("zero stream", func(t *testing.T) {
		defer func() {
			if p := recover(); p == nil || !strings.Contains(p.(string), "zero Stream") {
				t.Errorf("panic %v, want one about the zero Stream", p)
			}
		}()
		pipeline.Stream[int]{}.To(sink())
	})
}

func TestString(t *testing.T) {
	top := pipeline.New("t", pipeline.Config{})
	in := from(top, numbers(1))
	a := pipeline.Map(in.Filter("odd", func(int) bool { return true }), `a "b"`, failing(-1, 0), pipeline.Parallel(3))
	a.Merge(in).To(&pipelinetest.Sink[int]{})
	want := `flowchart LR
  n0(["numbers"])
  n1{{"odd"}}
  n2["a #quot;b#quot; ×3"]
  n3[("a #quot;b#quot;.sink")]
  n0 --> n1
  n1 --> n2
  n2 --> n3
  n0 --> n3
`
	if got := top.String(); got != want {
		t.Errorf("got\n%swant\n%s", got, want)
	}
}

func TestStats(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		src, letters := pipelinetest.NewSource("in", upTo(100)), &pipelinetest.Sink[pipeline.DeadLetter]{}
		var broken atomic.Bool
		broken.Store(true)
		sink := &pipelinetest.Sink[int]{OnWrite: func(context.Context, int, []int) error {
			if broken.Load() {
				return errBoom
			}
			return nil
		}}
		top := pipeline.New("t", pipeline.Config{DeadLetters: letters, Backoff: time.Second})
		odd := from(top, src).Filter("odd", func(v int) bool { return v%2 == 1 })
		pipeline.Map(odd, "step", failing(51, always), pipeline.Parallel(2)).To(sink, pipeline.Batch(49, time.Minute))
		stop := running(top)
		check := func(want ...pipeline.Stats) {
			t.Helper()
			got := top.Stats()
			if len(got) != len(want) {
				t.Fatalf("stats of %d stages, want %d", len(got), len(want))
			}
			for i, w := range want {
				g := got[i]
				if w.Batches == 0 {
					g.Batches = 0 // as many as it happened to be
				}
				if g != w {
					t.Errorf("got  %+v\nwant %+v", g, w)
				}
			}
		}
		time.Sleep(500 * time.Millisecond)
		check(
			pipeline.Stats{Stage: "in", Kind: "source", Tasks: 1, In: 100, Out: 100, Pending: 50},
			pipeline.Stats{Stage: "odd", Kind: "filter", In: 100, Out: 50},
			pipeline.Stats{Stage: "step", Kind: "stage", Tasks: 2, In: 50, Out: 49, Retried: 1, Pending: 1},
			pipeline.Stats{Stage: "step.sink", Kind: "sink", Tasks: 1, In: 49, Retried: 1, Pending: 49},
			pipeline.Stats{Stage: "dead-letters", Kind: "sink", Tasks: 1},
		)
		broken.Store(false)
		if err := stop(); err != nil {
			t.Fatal(err)
		}
		check(
			pipeline.Stats{Stage: "in", Kind: "source", Tasks: 1, In: 100, Out: 100},
			pipeline.Stats{Stage: "odd", Kind: "filter", In: 100, Out: 50},
			pipeline.Stats{Stage: "step", Kind: "stage", Tasks: 2, In: 50, Out: 49, Failed: 1, Retried: 2},
			pipeline.Stats{Stage: "step.sink", Kind: "sink", Tasks: 1, In: 49, Out: 49, Retried: 1, Batches: 1},
			pipeline.Stats{Stage: "dead-letters", Kind: "sink", Tasks: 1, In: 1, Out: 1, Batches: 1},
		)
	})
}

// Stats may be read while the topology runs.
func TestStatsWhileRunning(t *testing.T) {
	src := numbers(5000)
	top := pipeline.New("t", pipeline.Config{})
	pipeline.Map(from(top, src), "step", failing(-1, 0), pipeline.Parallel(2)).To(&pipelinetest.Sink[int]{})
	ended := make(chan error, 1)
	go func() { ended <- top.Run(context.Background()) }()
	for {
		for _, s := range top.Stats() {
			if s.Pending < 0 || s.In > 5000 {
				t.Fatalf("stats %+v", s)
			}
		}
		select {
		case err := <-ended:
			if err != nil {
				t.Fatal(err)
			}
			if got := top.Stats()[0]; got.In != 5000 || got.Pending != 0 {
				t.Errorf("stats after the run: %+v", got)
			}
			return
		default:
		}
	}
}

// An idle topology waits and does nothing else: no timer, no polling. Under virtual time a year passes at once.
func TestIdle(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		src := pipelinetest.NewSource[int]("in")
		top := pipeline.New("t", pipeline.Config{})
		pipeline.Map(from(top, src), "step", failing(-1, 0), pipeline.Parallel(20)).To(&pipelinetest.Sink[int]{}, pipeline.Batch(10, time.Second))
		stop := running(top)
		synctest.Wait()
		time.Sleep(365 * 24 * time.Hour)
		if err := stop(); err != nil {
			t.Fatal(err)
		}
		for _, s := range top.Stats() {
			if s.Batches != 0 {
				t.Errorf("stats of an idle topology: %+v", s)
			}
		}
	})
}
