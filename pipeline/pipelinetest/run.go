package pipelinetest

import (
	"context"
	"testing"

	"github.com/metaq-go/metaq/pipeline"
)

// Run feeds the values of in, in order, through the stages that build adds to a stream, and returns everything that came out in
// the order it arrived. A tuple that fails for good fails the test. Stages run at once and the clock is real; in a
// synctest bubble it is not, and back-off costs no time.
//
//	got := pipelinetest.Run(t, []string{"a b", "c"}, func(lines pipeline.Stream[string]) pipeline.Stream[string] {
//		return pipeline.FlatMap(lines, "split", split)
//	})
func Run[T, U any](tb testing.TB, in []T, build func(pipeline.Stream[T]) pipeline.Stream[U]) []U {
	tb.Helper()
	src := NewSource("in", in)
	src.Finish()
	sink := &Sink[U]{}
	top := pipeline.New(tb.Name(), pipeline.Config{Mode: pipeline.Ordered})
	build(pipeline.From(top, src, Same[T])).To(sink)
	if err := top.Run(context.Background()); err != nil {
		tb.Fatal(err)
	}
	src.Check(tb)
	return sink.Values()
}

// Same is the decode function for sources whose messages are used as they are.
func Same[T any](v T) (T, error) { return v, nil }
