package pipeline_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"

	"pgregory.net/rapid"

	"github.com/metaq-go/metaq/pipeline"
	"github.com/metaq-go/metaq/pipeline/pipelinetest"
)

// modelBolt is any stage of the model: it fails as the model says and makes what the model says.
type modelBolt struct {
	m     *model
	st    *modelStage
	task  pipeline.Task
	tries map[string]int
}

func (b *modelBolt) Process(_ context.Context, r rec, emit func(rec)) error {
	poison, times := b.m.fails(b.st.name, r)
	in := r
	if b.st.group == "by" {
		r.lane += fmt.Sprintf("(%d)", b.st.key(r))
	}
	r.lane += fmt.Sprintf(".%s[%d]", b.st.name, b.task.Index)
	for _, o := range b.st.made(r, b.task.Index) {
		emit(o)
	}
	b.tries[in.id()]++
	if poison || b.tries[in.id()] <= times {
		if chance("panic", b.st.name, in.id())%3 == 0 {
			panic("boom " + in.id())
		}
		return errors.New("broken " + in.id())
	}
	delete(b.tries, in.id())
	return nil
}

// modelRun is one run of a model's topology.
type modelRun struct {
	top     *pipeline.Topology
	sinks   []*pipelinetest.Sink[rec] // by stream; nil: consumed
	letters *pipelinetest.Sink[pipeline.DeadLetter]
}

func (m *model) build(sources []*pipelinetest.Source[rec], used []bool) *modelRun {
	run := &modelRun{}
	cfg := m.cfg
	if m.letters {
		run.letters = &pipelinetest.Sink[pipeline.DeadLetter]{}
		cfg.DeadLetters = run.letters
	}
	run.top = pipeline.New("model", cfg)
	parallel := func(n int) []pipeline.Option {
		if cfg.Mode == pipeline.Broadcast {
			return nil
		}
		return []pipeline.Option{pipeline.Parallel(n)}
	}
	var streams []pipeline.Stream[rec]
	for i, s := range sources {
		streams = append(streams, pipeline.From(run.top, s, pipelinetest.Same[rec], parallel(m.par[i])...))
	}
	for i := range m.stages {
		streams = append(streams, m.stage(&m.stages[i], streams, parallel))
	}
	for i, s := range streams {
		run.sinks = append(run.sinks, nil)
		if !used[i] {
			run.sinks[i] = m.sink()
			s.To(run.sinks[i], m.batch...)
		}
	}
	return run
}

func (m *model) stage(st *modelStage, streams []pipeline.Stream[rec], parallel func(int) []pipeline.Option) pipeline.Stream[rec] {
	in := streams[st.from[0]]
	switch st.kind {
	case "merge":
		for _, f := range st.from[1:] {
			in = in.Merge(streams[f])
		}
		return in
	case "filter":
		return pipeline.Map(in.Filter(st.name, func(r rec) bool {
			if poison, _ := m.fails(st.name, r); poison {
				panic("boom " + r.id())
			}
			return len(st.made(r, 0)) > 0
		}), st.name+"-mark", func(_ context.Context, r rec) (rec, error) {
			r.lane += "." + st.name
			return st.made(r, 0)[0], nil
		})
	}
	switch st.group {
	case "by":
		in = in.By(func(r rec) string { return strconv.Itoa(st.key(r)) })
	case "all":
		in = in.All()
	case "global":
		in = in.Global()
	}
	return pipeline.Bolt(in, st.name, func(t pipeline.Task) pipeline.Bolter[rec, rec] {
		return &modelBolt{m: m, st: st, task: t, tries: make(map[string]int)}
	}, parallel(st.parallel)...)
}

// sink fails every third write or so.
func (m *model) sink() *pipelinetest.Sink[rec] {
	return &pipelinetest.Sink[rec]{OnWrite: func(_ context.Context, n int, batch []rec) error {
		if m.flaky > 0 && chance("write", strconv.Itoa(n))%3 == 0 {
			return errors.New("the database is away")
		}
		return nil
	}}
}

func (m *model) sources() (all []*pipelinetest.Source[rec]) {
	for s, parts := range m.parts {
		var values [][]rec
		for p, n := range parts {
			var recs []rec
			for off := range n {
				recs = append(recs, rec{src: s, part: p, off: off, lane: fmt.Sprintf("%d/%d", s, p)})
			}
			values = append(values, recs)
		}
		src := pipelinetest.NewSource("src"+strconv.Itoa(s), values...)
		src.Finish()
		all = append(all, src)
	}
	return all
}

// tally counts how often each thing was seen.
func tally(things []string) map[string]int {
	n := make(map[string]int)
	for _, t := range things {
		n[t]++
	}
	return n
}

// compare tells how got differs from want; repeats allows more than wanted.
func compare(what string, got, want []string, repeats bool) error {
	g, w := tally(got), tally(want)
	for _, t := range slices.Sorted(maps.Keys(w)) {
		if g[t] < w[t] || g[t] > w[t] && !repeats {
			return fmt.Errorf("%s: %s arrived %d times, want %d", what, t, g[t], w[t])
		}
	}
	for t := range g {
		if w[t] == 0 {
			return fmt.Errorf("%s: %s should not have arrived", what, t)
		}
	}
	return nil
}

// ordered checks that tuples of one lane arrived in the order of their offsets.
func ordered(recs []rec) error {
	last := make(map[string]int)
	for _, r := range recs {
		if at, ok := last[r.lane]; ok && r.off < at {
			return fmt.Errorf("offset %d after %d on the way %s", r.off, at, r.lane)
		}
		last[r.lane] = r.off
	}
	return nil
}

// run starts the topology, and again if it is cut, and checks everything.
func (m *model) run(t *testing.T) error {
	streams, used, wantLetters := m.expect()
	sources := m.sources()
	got := make([][]string, len(streams))
	var letters []string
	runs := 0
	for cut := m.cut; ; cut = 0 {
		run := m.build(sources, used)
		ctx, cancel := context.WithCancel(context.Background())
		m.cutAfter(sources, cut, cancel)
		err := run.top.Run(ctx)
		stopped := ctx.Err() != nil
		cancel()
		runs++
		if err != nil && (m.letters || m.poison == 0) {
			return fmt.Errorf("run %d: %w", runs, err)
		}
		for i, s := range run.sinks {
			if s == nil {
				continue
			}
			for _, r := range s.Values() {
				got[i] = append(got[i], r.id())
			}
			if m.cfg.Mode == pipeline.Ordered {
				if err := ordered(s.Values()); err != nil {
					return fmt.Errorf("stream %d: %w", i, err)
				}
			}
			if n := s.Closes(); n != 1 {
				return fmt.Errorf("sink of stream %d was closed %d times", i, n)
			}
		}
		if run.letters != nil {
			for _, d := range run.letters.Values() {
				letters = append(letters, d.Stage+" "+string(d.Value))
			}
		}
		if err != nil {
			return m.afterFailure(sources)
		}
		if !stopped {
			break
		}
	}
	for _, s := range sources {
		s.Check(t)
	}
	if err := compare("dead letters", letters, wantLetters, runs > 1); err != nil {
		return err
	}
	for i := range streams {
		if !used[i] {
			if err := compare(fmt.Sprint("stream ", i), got[i], streams[i], runs > 1); err != nil {
				return err
			}
		}
	}
	return nil
}

// afterFailure checks a run that a poisoned tuple ended: the partition of that tuple must not be passed.
func (m *model) afterFailure(sources []*pipelinetest.Source[rec]) error {
	failed := 0
	for i, s := range sources {
		failed += s.Failed()
		if s.Pending() > 0 {
			return fmt.Errorf("source %d: %d tuples were never answered", i, s.Pending())
		}
	}
	if failed == 0 {
		return errors.New("the run failed, but no tuple was answered with an error")
	}
	return nil
}

// cutAfter calls cancel when n tuples of the first source are done.
func (m *model) cutAfter(sources []*pipelinetest.Source[rec], n int, cancel func()) {
	var mu sync.Mutex
	sources[0].OnDone = func(pipeline.Origin, error) {
		mu.Lock()
		defer mu.Unlock()
		if n--; n == 0 {
			cancel()
		}
	}
}

func (r rec) MarshalText() ([]byte, error) { return []byte(r.id()), nil }

// TestModel: exactly one done per tuple, order per mode, nothing lost and nothing twice in a run, whatever fails (P6, P9, P14;
// C28, C29, C30, C32).
func TestModel(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		m := drawModel(rt)
		var err error
		synctest.Test(t, func(t *testing.T) { err = m.run(t) })
		if err != nil {
			rt.Fatalf("%v\n%+v", err, m)
		}
	})
}
