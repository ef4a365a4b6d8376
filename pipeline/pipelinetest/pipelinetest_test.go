package pipelinetest_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"github.com/metaq-go/metaq/pipeline"
	"github.com/metaq-go/metaq/pipeline/pipelinetest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestSourcePassesTheSuite(t *testing.T) {
	for _, ends := range []bool{false, true} {
		pipelinetest.SpoutSuite(t, pipelinetest.SpoutCase[int]{
			Ends: ends,
			ID:   func(n int) int { return n },
			New: func(*testing.T) pipelinetest.SpoutPlace[int] {
				src := pipelinetest.NewSource("numbers", make([][]int, 3)...)
				if ends {
					src.Finish()
				}
				return pipelinetest.SpoutPlace[int]{Source: src, Put: func(numbers ...int) error {
					for _, n := range numbers {
						src.Put(n%3, n)
					}
					return nil
				}}
			},
		})
	}
}

func TestSinkPassesTheSuite(t *testing.T) {
	pipelinetest.SinkSuite(t, pipelinetest.SinkCase[string]{
		Value: func(i int) string { return strings.Repeat("x", i) },
		Bad:   func() string { return "bad" },
		New: func(*testing.T) pipelinetest.SinkPlace[string] {
			var stored []string
			var broken bool
			open := func() (pipeline.Sink[string], error) {
				s := &pipelinetest.Sink[string]{OnWrite: func(_ context.Context, _ int, batch []string) error {
					switch {
					case broken:
						return errors.New("broken")
					case slices.Contains(batch, "bad"):
						return pipeline.Permanent(errors.New("bad"))
					}
					return nil
				}}
				s.OnClose = func(context.Context) error {
					stored = append(stored, s.Values()...)
					return nil
				}
				return s, nil
			}
			return pipelinetest.SinkPlace[string]{
				Open:  open,
				Read:  func() ([]string, error) { return stored, nil },
				Break: func() func() { broken = true; return func() { broken = false } },
			}
		},
	})
}

func split(_ context.Context, line string, emit func(string)) error {
	for w := range strings.FieldsSeq(line) {
		emit(w)
	}
	return nil
}

func TestRun(t *testing.T) {
	got := pipelinetest.Run(t, []string{"a b", "", "c"}, func(lines pipeline.Stream[string]) pipeline.Stream[string] {
		return pipeline.FlatMap(lines, "split", split)
	})
	if want := []string{"a", "b", "c"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}
