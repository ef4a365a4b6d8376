package pipelinetest_test

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/metaq-go/metaq/pipeline"
	"github.com/metaq-go/metaq/pipeline/pipelinetest"
)

// faultEnv names the fault that TestFaultySink and TestFaultySpout are to have; without it they are skipped.
const faultEnv = "PIPELINETEST_FAULT"

// TestSuitesFindFaults runs the suites on sinks and spouts that break one promise each, in processes of their own: the
// suite must fail.
func TestSuitesFindFaults(t *testing.T) {
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	run := func(t *testing.T, test, fault string, wantOK bool) {
		t.Parallel()
		cmd := exec.CommandContext(t.Context(), exe, "-test.run=^"+test+"$")
		cmd.Env = append(os.Environ(), faultEnv+"="+fault)
		out, err := cmd.CombinedOutput()
		if ok := err == nil; ok != wantOK {
			t.Errorf("suite passed: %v, want %v\n%s", ok, wantOK, out)
		}
		if err != nil && !strings.Contains(string(out), "--- FAIL: "+test) {
			t.Errorf("the process ended otherwise: %v\n%s", err, out)
		}
	}
	for _, fault := range []string{
		"keeps the batch", "changes the batch", "refuses empty batches", "loses what was there", "loses the last batch", "reverses batches",
		"stores half on errors", "calls errors permanent", "calls bad values transient", "doubles",
	} {
		t.Run("sink "+fault, func(t *testing.T) { run(t, "TestFaultySink", fault, false) })
	}
	for _, fault := range []string{
		"forgets", "commits too much", "commits what failed", "ignores its context", "has no partitions", "waits for more", "doubles", "swaps",
	} {
		t.Run("spout "+fault, func(t *testing.T) { run(t, "TestFaultySpout", fault, false) })
	}
	t.Run("sink without fault", func(t *testing.T) { run(t, "TestFaultySink", "none", true) })
	t.Run("spout without fault", func(t *testing.T) { run(t, "TestFaultySpout", "none", true) })
}

// store is a place in memory and the fault of its sinks.
type store struct {
	fault  string
	rows   []int
	last   []int // not yet in rows, with "loses the last batch"
	broken bool
}

type storeSink struct{ *store }

var errAway = errors.New("the store is away")

func (s storeSink) Write(ctx context.Context, batch []int) error {
	switch {
	case len(batch) == 0 && s.fault == "refuses empty batches":
		return errors.New("empty batch")
	case ctx.Err() != nil || s.broken:
		if s.fault == "stores half on errors" {
			s.rows = append(s.rows, batch[len(batch)/2:]...)
			return nil
		}
		if s.fault == "calls errors permanent" {
			return pipeline.Permanent(errAway)
		}
		return errAway
	case slices.Contains(batch, -1):
		if s.fault == "calls bad values transient" {
			return errAway
		}
		return pipeline.Permanent(errors.New("-1 can't be stored"))
	}
	in := slices.Clone(batch)
	switch s.fault {
	case "keeps the batch":
		s.last = append(s.last[:0:0], s.last...)
		s.rows = append(s.rows, s.last...)
		s.last = batch
		return nil
	case "changes the batch":
		if len(batch) > 1 {
			slices.Reverse(batch)
		}
	case "loses the last batch":
		s.rows = append(s.rows, s.last...)
		s.last = in
		return nil
	case "reverses batches":
		slices.Reverse(in)
	}
	for _, v := range in {
		if s.fault == "doubles" || !slices.Contains(s.rows, v) {
			s.rows = append(s.rows, v)
		}
	}
	return nil
}

func (s storeSink) Close(context.Context) error {
	if s.fault == "keeps the batch" {
		s.rows = append(s.rows, s.last...)
		s.last = nil
	}
	return nil
}

func TestFaultySink(t *testing.T) {
	fault := os.Getenv(faultEnv)
	if fault == "" {
		t.Skip("part of TestSuitesFindFaults")
	}
	pipelinetest.SinkSuite(t, pipelinetest.SinkCase[int]{
		Value: func(i int) int { return i },
		Bad:   func() int { return -1 },
		Exact: true,
		New: func(*testing.T) pipelinetest.SinkPlace[int] {
			s := &store{fault: fault}
			return pipelinetest.SinkPlace[int]{
				Open: func() (pipeline.Sink[int], error) {
					if fault == "loses what was there" {
						s.rows = nil
					}
					return storeSink{s}, nil
				},
				Read:  func() ([]int, error) { return s.rows, nil },
				Break: func() func() { s.broken = true; return func() { s.broken = false } },
			}
		},
	})
}

// faultySource spoils what a good source does.
type faultySource struct {
	*pipelinetest.Source[int]
	fresh func() *pipelinetest.Source[int]
	fault string
}

type faultySpout struct {
	pipeline.Spout[int]
	fault string
}

func (s *faultySource) Open(ctx context.Context, t pipeline.Task) (pipeline.Spout[int], error) {
	if s.fault == "forgets" {
		return s.fresh().Open(ctx, t)
	}
	sp, err := s.Source.Open(ctx, t)
	return &faultySpout{sp, s.fault}, err
}

func (s *faultySpout) Next(ctx context.Context, dst []pipeline.Tuple[int]) (int, error) {
	if s.fault == "ignores its context" {
		ctx = context.WithoutCancel(ctx)
	}
	n, err := s.Spout.Next(ctx, dst)
	switch {
	case s.fault == "waits for more":
		for n < min(len(dst), 4) && err == nil {
			var m int
			m, err = s.Spout.Next(ctx, dst[n:])
			n += m
		}
	case s.fault == "swaps" && n > 1:
		dst[0], dst[1] = dst[1], dst[0]
	case s.fault == "doubles" && n > 1:
		dst[1].Value = dst[0].Value
	}
	for i := range dst[:n] {
		switch s.fault {
		case "has no partitions":
			dst[i].Origin.Partition = ""
		case "commits too much", "commits what failed":
			dst[i].Ack = pipeline.Ack{To: forgiving{dst[i].Ack, s.fault == "commits too much"}}
		}
	}
	return n, err
}

// forgiving passes on an error as success: any, or that of a tuple that failed while nothing was stopped.
type forgiving struct {
	pipeline.Ack
	all bool
}

func (f forgiving) Done(_ uint64, err error) {
	if f.all || !errors.Is(err, context.Canceled) {
		err = nil
	}
	f.Ack.Done(err)
}

func TestFaultySpout(t *testing.T) {
	fault := os.Getenv(faultEnv)
	if fault == "" {
		t.Skip("part of TestSuitesFindFaults")
	}
	pipelinetest.SpoutSuite(t, pipelinetest.SpoutCase[int]{
		ID:       func(n int) int { return n },
		Patience: 200 * time.Millisecond,
		New: func(*testing.T) pipelinetest.SpoutPlace[int] {
			var put []int
			src := &faultySource{Source: pipelinetest.NewSource[int]("numbers"), fault: fault}
			src.fresh = func() *pipelinetest.Source[int] {
				s := pipelinetest.NewSource[int]("numbers")
				s.Put(0, put...)
				return s
			}
			return pipelinetest.SpoutPlace[int]{Source: src, Put: func(n ...int) error {
				put = append(put, n...)
				src.Put(0, n...)
				return nil
			}}
		},
	})
}
