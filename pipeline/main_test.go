package pipeline_test

import (
	"context"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/metaq-go/metaq/pipeline"
	"github.com/metaq-go/metaq/pipeline/pipelinetest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// numbers returns a source with the partitions 0…n-1, …; it is finished.
func numbers(counts ...int) *pipelinetest.Source[int] {
	var parts [][]int
	for _, n := range counts {
		parts = append(parts, upTo(n))
	}
	src := pipelinetest.NewSource("numbers", parts...)
	src.Finish()
	return src
}

func upTo(n int) []int {
	all := make([]int, n)
	for i := range all {
		all[i] = i
	}
	return all
}

// from is pipeline.From without decoding.
func from[T any](top *pipeline.Topology, src pipeline.Source[T], opts ...pipeline.Option) pipeline.Stream[T] {
	return pipeline.From(top, src, pipelinetest.Same[T], opts...)
}

// inBubble runs a test with virtual time.
func inBubble(t *testing.T, f func(t *testing.T)) {
	t.Helper()
	synctest.Test(t, f)
}

// running starts a topology and returns how to stop it and to get what Run returned.
func running(top *pipeline.Topology) (stop func() error) {
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- top.Run(ctx) }()
	return func() error {
		cancel()
		return <-ended
	}
}

func mustRun(t *testing.T, top *pipeline.Topology) {
	t.Helper()
	if err := top.Run(context.Background()); err != nil {
		t.Fatal(err)
	}
}

// wantSorted compares without regard to order.
func wantSorted(t *testing.T, what string, got, want []int) {
	t.Helper()
	got = slices.Sorted(slices.Values(got))
	if !slices.Equal(got, want) {
		t.Fatalf("%s: got %v, want %v", what, got, want)
	}
}

// since tells the virtual time from the beginning of a bubble.
func since(start time.Time) time.Duration { return time.Since(start) }
