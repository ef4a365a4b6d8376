package pipeline_test

import (
	"fmt"
	"hash/fnv"
	"slices"
	"strconv"
	"time"

	"pgregory.net/rapid"

	"github.com/metaq-go/metaq/pipeline"
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
			// Sinks that fail every third write take their time.
			DrainTimeout: 24 * time.Hour,
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
