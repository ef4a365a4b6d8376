package pipeline_test

import (
	"context"
	"fmt"
	"strings"

	"github.com/metaq-go/metaq/pipeline"
	"github.com/metaq-go/metaq/pipeline/pipelinetest"
)

// Count is how often a word has been seen so far.
type Count struct {
	Word string
	N    int
}

// counter counts the words of one task. By sends every occurrence of a word to the same one.
type counter map[string]int

func (c counter) Process(_ context.Context, word string, emit func(Count)) error {
	c[word]++
	emit(Count{word, c[word]})
	return nil
}

// table is a sink that keeps the last count of each word.
type table map[string]int

func (t table) Write(_ context.Context, batch []Count) error {
	for _, c := range batch {
		t[c.Word] = c.N
	}
	return nil
}

func (t table) Close(context.Context) error { return nil }

func split(_ context.Context, line string, emit func(string)) error {
	for word := range strings.FieldsSeq(line) {
		emit(word)
	}
	return nil
}

// Word count: lines are split into words, and every word is counted by one of four tasks. In a real program the
// source would be spout.Topic and the sink one of package sinks.
func Example() {
	lines := pipelinetest.NewSource("lines", []string{"to be or not to be", "that is the question"})
	lines.Finish()
	result := table{}

	top := pipeline.New("word-count", pipeline.Config{Mode: pipeline.Ordered})
	words := pipeline.FlatMap(pipeline.From(top, lines, pipelinetest.Same[string]), "split", split)
	byWord := words.By(func(word string) string { return word })
	counts := pipeline.Bolt(byWord, "count", func(pipeline.Task) pipeline.Bolter[string, Count] {
		return counter{}
	}, pipeline.Parallel(4))
	counts.To(result)
	if err := top.Run(context.Background()); err != nil {
		fmt.Println(err)
	}
	fmt.Println(result)
	// Output: map[be:2 is:1 not:1 or:1 question:1 that:1 the:1 to:2]
}

// Streams split, are filtered and merged; the graph can be drawn.
func ExampleTopology_String() {
	lines := pipelinetest.NewSource[string]("access")
	top := pipeline.New("alerts", pipeline.Config{})
	hits := pipeline.From(top, lines, pipelinetest.Same[string])
	errs := hits.Filter("5xx", func(line string) bool { return strings.Contains(line, " 50") })
	slow := hits.Filter("slow", func(line string) bool { return strings.HasSuffix(line, "s") })
	alerts := pipeline.Map(errs.Merge(slow), "alert", func(_ context.Context, line string) (string, error) {
		return strings.ToUpper(line), nil
	})
	alerts.To(&pipelinetest.Sink[string]{})
	fmt.Print(top)
	// Output:
	// flowchart LR
	//   n0(["access"])
	//   n1{{"5xx"}}
	//   n2{{"slow"}}
	//   n3["alert"]
	//   n4[("alert.sink")]
	//   n0 --> n1
	//   n0 --> n2
	//   n1 --> n3
	//   n2 --> n3
	//   n3 --> n4
}

// A bolt's test: values in, values out.
func ExampleBolter() {
	bolt := counter{}
	for _, word := range []string{"to", "be", "to"} {
		_ = bolt.Process(context.Background(), word, func(c Count) { fmt.Println(c.Word, c.N) })
	}
	// Output:
	// to 1
	// be 1
	// to 2
}
