package pipeline_test

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/metaq-go/metaq/pipeline"
	"github.com/metaq-go/metaq/pipeline/pipelinetest"
)

// passed is a tuple and the tasks it passed.
type passed struct {
	part, n int
	tasks   string
}

// passing is a bolt that notes which task it is.
type passing struct{ task pipeline.Task }

func (p passing) Process(_ context.Context, v passed, emit func(passed)) error {
	v.tasks += fmt.Sprint(p.task.Index)
	emit(v)
	return nil
}

func newPassing(t pipeline.Task) pipeline.Bolter[passed, passed] { return passing{t} }

func passedSource(parts, n int) *pipelinetest.Source[passed] {
	var values [][]passed
	for p := range parts {
		var part []passed
		for i := range n {
			part = append(part, passed{part: p, n: i})
		}
		values = append(values, part)
	}
	src := pipelinetest.NewSource("in", values...)
	src.MaxNext = 7
	src.Finish()
	return src
}

// In Ordered mode each partition keeps its order through every stage, and the stages are parallel all the same.
func TestOrderedByPartition(t *testing.T) {
	src, sink := passedSource(16, 500), &pipelinetest.Sink[passed]{}
	top := pipeline.New("t", pipeline.Config{Mode: pipeline.Ordered})
	s := from(top, src, pipeline.Parallel(3))
	for i := range 3 {
		s = pipeline.Bolt(s, fmt.Sprint("step", i), newPassing, pipeline.Parallel(4))
	}
	s.To(sink)
	mustRun(t, top)
	next := make(map[int]int)
	tasks := make(map[byte]bool)
	for _, v := range sink.Values() {
		if v.n != next[v.part] {
			t.Fatalf("tuple %d of partition %d arrived when %d was due", v.n, v.part, next[v.part])
		}
		next[v.part]++
		tasks[v.tasks[0]] = true
	}
	if len(tasks) < 3 {
		t.Errorf("16 partitions used %d of 4 tasks", len(tasks))
	}
	src.Check(t)
}

// numbered is what a counter by key emits.
type numbered struct{ key, n int }

type numbering map[int]int

func (c numbering) Process(_ context.Context, v passed, emit func(numbered)) error {
	k := v.n % 20
	c[k]++
	emit(numbered{k, c[k]})
	return nil
}

// Behind a By the key is what is ordered: what one task emits for a key stays in order, whatever partitions it came from.
func TestOrderedByKeyAcrossPartitions(t *testing.T) {
	src, sink := passedSource(8, 500), &pipelinetest.Sink[numbered]{}
	top := pipeline.New("t", pipeline.Config{Mode: pipeline.Ordered})
	byKey := from(top, src, pipeline.Parallel(4)).ByID(func(v passed) uint64 { return uint64(v.n % 20) })
	counts := pipeline.Bolt(byKey, "number", func(pipeline.Task) pipeline.Bolter[passed, numbered] { return numbering{} }, pipeline.Parallel(3))
	for i := range 2 {
		counts = pipeline.Map(counts, fmt.Sprint("pass", i), func(_ context.Context, n numbered) (numbered, error) {
			return n, nil
		}, pipeline.Parallel(4))
	}
	counts.To(sink)
	mustRun(t, top)
	last := make(map[int]int)
	for _, v := range sink.Values() {
		if v.n != last[v.key]+1 {
			t.Fatalf("number %d of key %d arrived after %d", v.n, v.key, last[v.key])
		}
		last[v.key] = v.n
	}
	if len(last) != 20 || last[0] != 8*25 {
		t.Errorf("%d keys, %d tuples of key 0", len(last), last[0])
	}
	src.Check(t)
}

// tasksOf runs one stage of four tasks and returns, for each tuple, the tasks that got it.
func tasksOf(t *testing.T, group func(pipeline.Stream[passed]) pipeline.Stream[passed]) map[passed]string {
	t.Helper()
	src, sink := passedSource(4, 100), &pipelinetest.Sink[passed]{}
	top := pipeline.New("t", pipeline.Config{})
	pipeline.Bolt(group(from(top, src, pipeline.Parallel(2))), "step", newPassing, pipeline.Parallel(4)).To(sink)
	mustRun(t, top)
	src.Check(t)
	tasks := make(map[passed]string)
	for _, v := range sink.Values() {
		tasks[passed{part: v.part, n: v.n}] += v.tasks
	}
	if len(tasks) != 400 {
		t.Fatalf("%d tuples arrived, want 400", len(tasks))
	}
	return tasks
}

func TestGroupings(t *testing.T) {
	t.Run("P2 by key: one task for a key", func(t *testing.T) {
		of := make(map[int]string)
		used := make(map[string]bool)
		for v, tasks := range tasksOf(t, func(s pipeline.Stream[passed]) pipeline.Stream[passed] {
			return s.By(func(v passed) string { return fmt.Sprint("key", v.n%30) })
		}) {
			if k := v.n % 30; of[k] != "" && of[k] != tasks {
				t.Errorf("key %d went to tasks %s and %s", k, of[k], tasks)
			}
			of[v.n%30] = tasks
			used[tasks] = true
		}
		if len(used) != 4 {
			t.Errorf("30 keys use %d of 4 tasks", len(used))
		}
	})
	t.Run("P3 all: every task once", func(t *testing.T) {
		for v, tasks := range tasksOf(t, pipeline.Stream[passed].All) {
			if s := strings.Split(tasks, ""); len(s) != 4 || len(slices.Compact(slices.Sorted(slices.Values(s)))) != 4 {
				t.Fatalf("tuple %v went to tasks %s, want each once", v, tasks)
			}
		}
	})
	t.Run("P4 global: task 0", func(t *testing.T) {
		for v, tasks := range tasksOf(t, pipeline.Stream[passed].Global) {
			if tasks != "0" {
				t.Fatalf("tuple %v went to task %s, want 0", v, tasks)
			}
		}
	})
	t.Run("default: any one task", func(t *testing.T) { // that all are used: TestSlowStageSharesWork
		for v, tasks := range tasksOf(t, func(s pipeline.Stream[passed]) pipeline.Stream[passed] { return s }) {
			if len(tasks) != 1 {
				t.Fatalf("tuple %v went to tasks %s, want one", v, tasks)
			}
		}
	})
}

// In Broadcast mode every instance has its own spout and its own task in every stage and sees everything.
func TestBroadcast(t *testing.T) {
	const instances = 3
	src := passedSource(4, 50)
	var mu sync.Mutex
	sinks := make(map[int]*pipelinetest.Sink[passed])
	one := &pipelinetest.Sink[passed]{}
	top := pipeline.New("t", pipeline.Config{Mode: pipeline.Broadcast, Instances: instances})
	first := pipeline.Bolt(from(top, src), "first", newPassing)
	second := pipeline.Bolt(first.By(func(v passed) string { return fmt.Sprint(v.n) }), "second", newPassing)
	third := pipeline.Bolt(second.All(), "third", newPassing)
	third.ToEach(func(task pipeline.Task) (pipeline.Sink[passed], error) {
		if task.Mode != pipeline.Broadcast || task.Count != instances {
			t.Errorf("task %+v", task)
		}
		mu.Lock()
		defer mu.Unlock()
		sinks[task.Index] = &pipelinetest.Sink[passed]{}
		return sinks[task.Index], nil
	})
	third.Global().To(one)
	mustRun(t, top)
	src.Check(t)
	for i := range instances {
		if n := len(sinks[i].Values()); n != 200 {
			t.Errorf("instance %d saw %d tuples, want 200", i, n)
		}
		for _, v := range sinks[i].Values() {
			if want := strings.Repeat(fmt.Sprint(i), 3); v.tasks != want {
				t.Fatalf("a tuple of instance %d passed tasks %s, want %s", i, v.tasks, want)
			}
		}
	}
	if n := len(one.Values()); n != 600 {
		t.Errorf("the common sink saw %d tuples, want 600", n)
	}
	if src.Done() != 600 {
		t.Errorf("%d tuples acknowledged, want 600: each instance for itself", src.Done())
	}
}

// P6: a tuple with several consumers and many descendants is done once, when all of them are stored, in any order.
func TestSplitAndMerge(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		src, left, right := numbers(100), &pipelinetest.Sink[int]{}, &pipelinetest.Sink[int]{}
		top := pipeline.New("t", pipeline.Config{})
		in := from(top, src)
		a := pipeline.FlatMap(in, "a", func(_ context.Context, v int, emit func(int)) error {
			for i := range v % 4 {
				emit(v*10 + i)
			}
			return nil
		}, pipeline.Parallel(3))
		b := pipeline.Map(in, "b", failing(50, 2))
		c := pipeline.Map(a.Merge(b, in.Filter("odd", func(v int) bool { return v%2 == 1 })), "c", failing(-1, 0), pipeline.Parallel(2))
		c.To(left, pipeline.Batch(7, 0))
		b.To(right, pipeline.Batch(13, 0))
		mustRun(t, top)
		src.Check(t)
		if n := len(left.Values()); n != 150+100+50 {
			t.Errorf("%d tuples in the left sink, want 300", n)
		}
		wantSorted(t, "right sink", right.Values(), upTo(100))
	})
}

// P1: a word count over shuffle and key groupings equals a sequential one.
func TestWordCount(t *testing.T) {
	var lines []string
	want := make(map[string]int)
	for i := range 2000 {
		var line []string
		for j := range i % 11 {
			word := fmt.Sprint("word", (i*7+j*13)%97)
			line = append(line, word)
			want[word]++
		}
		lines = append(lines, strings.Join(line, " "))
	}
	src := pipelinetest.NewSource("lines", lines[:700], lines[700:])
	src.Finish()
	got := table{}
	top := pipeline.New("t", pipeline.Config{})
	words := pipeline.FlatMap(from(top, src, pipeline.Parallel(2)), "split", split, pipeline.Parallel(3))
	counts := pipeline.Bolt(words.By(func(w string) string { return w }), "count",
		func(pipeline.Task) pipeline.Bolter[string, Count] { return counter{} }, pipeline.Parallel(4))
	counts.To(got)
	mustRun(t, top)
	src.Check(t)
	if !maps.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}
