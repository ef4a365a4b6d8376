package pipeline_test

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"maps"
	"slices"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"github.com/metaq-go/metaq/pipeline"
	"github.com/metaq-go/metaq/pipeline/pipelinetest"
)

// The model test runs random topologies with random failures under virtual time and compares what arrives with what a few
// lines of arithmetic say must arrive. The bubble of synctest also finds deadlocks and goroutines that are left over.

// rec is a tuple of the model. path and the rest tell where it came from and which way it went.
type rec struct {
	src, part, off int
	path           string // stages passed and what they made of it
	lane           string // with the task indexes and order keys: what has the same lane must be in order
}

func (r rec) id() string { return fmt.Sprintf("%d/%d@%d%s", r.src, r.part, r.off, r.path) }

func chance(of string, parts ...string) uint32 {
	h := fnv.New32a()
	h.Write([]byte(of))
	for _, p := range parts {
		h.Write([]byte(p))
	}
	return h.Sum32() * 2654435761 >> 8
}

// modelStage is a stage of a random topology.
type modelStage struct {
	name     string
	kind     string // map, flat, bolt, filter, merge
	from     []int  // streams it consumes: sources first, then stages
	group    string // any, by, all, global
	keys     int
	parallel int
	toAll    bool // every task gets every tuple, which the path tells apart
}

type model struct {
	cfg     pipeline.Config
	letters bool
	poison  uint32 // one tuple of so many fails for good; 0: none
	flaky   uint32 // one of so many fails at first
	parts   [][]int
	par     []int // parallelism of sources
	stages  []modelStage
	batch   []pipeline.Option
	cut     int // stop after so many tuples are done, then start again; 0: don't
}

func drawModel(t *rapid.T) model {
	m := model{
		cfg: pipeline.Config{
			Mode:       pipeline.Mode(rapid.IntRange(0, 2).Draw(t, "mode")),
			MaxPending: rapid.SampledFrom([]int{1, 2, 7, 64, 1000}).Draw(t, "maxPending"),
			Attempts:   rapid.IntRange(1, 4).Draw(t, "attempts"),
		},
		letters: rapid.Bool().Draw(t, "letters"),
		flaky:   rapid.SampledFrom([]uint32{0, 3, 20}).Draw(t, "flaky"),
		poison:  rapid.SampledFrom([]uint32{0, 5, 40}).Draw(t, "poison"),
		cut:     rapid.SampledFrom([]int{0, 0, 1, 20}).Draw(t, "cut"),
	}
	if m.cfg.Mode == pipeline.Broadcast {
		m.cfg.Instances = rapid.IntRange(1, 3).Draw(t, "instances")
	}
	for s := range rapid.IntRange(1, 2).Draw(t, "sources") {
		parts := rapid.SliceOfN(rapid.IntRange(0, 60), 1, 4).Draw(t, fmt.Sprint("parts", s))
		m.parts = append(m.parts, parts)
		m.par = append(m.par, rapid.IntRange(1, 3).Draw(t, fmt.Sprint("par", s)))
	}
	for i := range rapid.IntRange(1, 6).Draw(t, "stages") {
		st := modelStage{
			name: "s" + strconv.Itoa(i), kind: rapid.SampledFrom([]string{"map", "flat", "bolt", "filter", "merge"}).Draw(t, "kind"),
			group: rapid.SampledFrom([]string{"any", "any", "by", "all", "global"}).Draw(t, "group"),
			keys:  rapid.IntRange(1, 5).Draw(t, "keys"), parallel: rapid.IntRange(1, 4).Draw(t, "parallel"),
		}
		inputs := 1
		if st.kind == "merge" {
			inputs = 2
		}
		for range inputs {
			st.from = append(st.from, rapid.IntRange(0, len(m.parts)+i-1).Draw(t, "from"))
		}
		if st.kind == "merge" && m.overlap(st.from) {
			st.from = st.from[:1]
		}
		st.toAll = st.group == "all" && st.kind != "filter" && st.kind != "merge" && m.cfg.Mode != pipeline.Broadcast
		m.stages = append(m.stages, st)
	}
	switch rapid.IntRange(0, 3).Draw(t, "batch") {
	case 1:
		m.batch = append(m.batch, pipeline.Batch(rapid.IntRange(1, 50).Draw(t, "count"), 0))
	case 2:
		m.batch = append(m.batch, pipeline.Batch(rapid.IntRange(1, 50).Draw(t, "count"), time.Second))
	}
	return m
}

// overlap tells whether one stage's tuples are in both streams, which merged would be two of each without an order.
func (m *model) overlap(from []int) bool {
	var stages func(i int) []int
	stages = func(i int) []int {
		if s := i - len(m.parts); s >= 0 && m.stages[s].kind == "merge" {
			var all []int
			for _, f := range m.stages[s].from {
				all = append(all, stages(f)...)
			}
			return all
		}
		return []int{i}
	}
	a := stages(from[0])
	return slices.ContainsFunc(stages(from[1]), func(i int) bool { return slices.Contains(a, i) })
}

// key is the key by which a stage with grouping "by" takes its tuples.
func (s *modelStage) key(r rec) int { return (r.off + r.part) % s.keys }

// fails says how a stage treats a tuple: for good, the first n times, or not.
func (m *model) fails(stage string, r rec) (poison bool, times int) {
	if m.poison > 0 && (m.letters || m.cut > 0) && chance("poison", stage, r.id())%m.poison == 0 {
		return true, 0
	}
	if m.flaky > 0 && chance("flaky", stage, r.id())%m.flaky == 0 {
		return false, int(chance("times", stage, r.id())) % m.cfg.Attempts
	}
	return false, 0
}

// made is what a stage makes of a tuple.
func (s *modelStage) made(r rec, task int) []rec {
	out := r
	out.path += "." + s.name
	if s.toAll {
		out.path += "@" + strconv.Itoa(task)
	}
	n := 1
	switch {
	case s.kind == "flat":
		n = int(chance("fan", s.name, r.id()) % 4)
	case s.kind == "filter" && chance("keep", s.name, r.id())%2 == 0:
		return nil
	}
	outs := make([]rec, 0, n)
	for i := range n {
		o := out
		if s.kind == "flat" {
			o.path += "#" + strconv.Itoa(i)
			o.lane += "#" + strconv.Itoa(i)
		}
		outs = append(outs, o)
	}
	return outs
}

func (m *model) copies() int { return max(1, m.cfg.Instances) }

// expect computes what every stream carries, and what goes to the dead letters.
func (m *model) expect() (streams [][]string, used []bool, letters []string) {
	all := make([][]rec, 0, len(m.parts)+len(m.stages))
	for s, parts := range m.parts {
		var recs []rec
		for p, n := range parts {
			for off := range n {
				for range m.copies() {
					recs = append(recs, rec{src: s, part: p, off: off})
				}
			}
		}
		all = append(all, recs)
	}
	used = make([]bool, len(m.parts)+len(m.stages))
	for i := range m.stages {
		st := &m.stages[i]
		var outs []rec
		for _, f := range st.from {
			used[f] = true
			for _, r := range all[f] {
				n := 1
				if st.toAll {
					n = st.parallel
				}
				for task := range n {
					if st.kind == "merge" {
						outs = append(outs, r)
					} else if poison, _ := m.fails(st.name, r); poison {
						letters = append(letters, st.name+" "+r.id())
					} else {
						outs = append(outs, st.made(r, task)...)
					}
				}
			}
		}
		all = append(all, outs)
	}
	for _, recs := range all {
		var ids []string
		for _, r := range recs {
			ids = append(ids, r.id())
		}
		streams = append(streams, ids)
	}
	return streams, used, letters
}

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
