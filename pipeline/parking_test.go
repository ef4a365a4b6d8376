package pipeline_test

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/metaq-go/metaq/pipeline"
	"github.com/metaq-go/metaq/pipeline/pipelinetest"
)

// C32: in Ordered mode a poison record goes to the dead letters after so many attempts; meanwhile records of other keys flow,
// and those of its key come behind it, in order.
func TestPoisonRecordOrdered(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		src, sink, letters := numbers(100), &pipelinetest.Sink[string]{}, &pipelinetest.Sink[pipeline.DeadLetter]{}
		top := pipeline.New("t", pipeline.Config{Mode: pipeline.Ordered, DeadLetters: letters, Backoff: time.Minute, MaxBackoff: time.Hour})
		keyed := from(top, src).ByID(func(v int) uint64 { return uint64(v % 10) })
		pipeline.Map(keyed, "step", func(_ context.Context, v int) (string, error) {
			if v == 13 {
				return "", errBoom
			}
			return fmt.Sprint(v%10, ":", v), nil
		}).To(sink)
		stop := running(top)
		time.Sleep(time.Second)
		for _, v := range sink.Values() {
			if v[0] == '3' && v != "3:3" {
				t.Errorf("%s was not kept behind the poison record", v)
			}
		}
		if n := len(sink.Values()); n != 91 { // all but 13, 23 … 93
			t.Errorf("%d records passed the poison record, want 91", n)
		}
		if err := stop(); err == nil {
			t.Error("the drain deadline passed with tuples waiting; want an error")
		}
	})
}

func TestPoisonRecordIsDeadLettered(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		src, sink, letters := numbers(100), &pipelinetest.Sink[int]{}, &pipelinetest.Sink[pipeline.DeadLetter]{}
		top := pipeline.New("t", pipeline.Config{Mode: pipeline.Ordered, DeadLetters: letters})
		pipeline.Map(from(top, src), "step", failing(13, always)).To(sink)
		mustRun(t, top)
		want := slices.DeleteFunc(upTo(100), func(v int) bool { return v == 13 })
		if got := sink.Values(); !slices.Equal(got, want) {
			t.Errorf("stored %v", got)
		}
		if got := letters.Values(); len(got) != 1 || got[0].Attempts != 3 {
			t.Errorf("dead letters %+v, want one after 3 attempts", got)
		}
	})
}

// C35: a record that waits half an hour for its next attempt holds nobody up in Unordered mode.
func TestLongBackoffLetsOthersFlow(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		start := time.Now()
		src, sink := numbers(1000), &pipelinetest.Sink[int]{}
		top := pipeline.New("t", pipeline.Config{Backoff: 30 * time.Minute})
		pipeline.Map(from(top, src), "step", failing(13, 1)).To(sink)
		ended := make(chan error)
		go func() { ended <- top.Run(context.Background()) }()
		synctest.Wait()
		if n := len(sink.Values()); n != 999 {
			t.Errorf("%d records stored at once, want 999", n)
		}
		if err := <-ended; err != nil {
			t.Fatal(err)
		}
		if took := since(start); took != 30*time.Minute {
			t.Errorf("the run took %v, want 30 min", took)
		}
		if got := sink.Values(); len(got) != 1000 || got[999] != 13 {
			t.Errorf("%d records stored, want 1000 with 13 as the last", len(got))
		}
		src.Check(t)
	})
}

// When everything fails, a task stops taking tuples in instead of burning the attempts of all.
func TestFailuresHoldATaskUp(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		var away atomic.Bool
		away.Store(true)
		src, sink, letters := numbers(10000), &pipelinetest.Sink[int]{}, &pipelinetest.Sink[pipeline.DeadLetter]{}
		top := pipeline.New("t", pipeline.Config{DeadLetters: letters, Backoff: time.Second})
		pipeline.Map(from(top, src), "lookup", func(_ context.Context, v int) (int, error) {
			if away.Load() {
				return 0, errBoom
			}
			return v, nil
		}).To(sink)
		ended := make(chan error)
		go func() { ended <- top.Run(context.Background()) }()
		time.Sleep(4 * time.Second) // attempts at 0, 1 and 3 s
		away.Store(false)
		if err := <-ended; err != nil {
			t.Fatal(err)
		}
		if dead := len(letters.Values()); dead == 0 || dead > 300 {
			t.Errorf("%d of 10000 tuples became dead letters in an outage of 4 s, want a few", dead)
		}
		if n := len(sink.Values()) + len(letters.Values()); n != 10000 {
			t.Errorf("%d tuples stored or dead, want 10000", n)
		}
		src.Check(t)
	})
}

// An outage is logged, not every tuple of it.
func TestFailuresAreLoggedNowAndThen(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		var log strings.Builder
		start := time.Now()
		src := numbers(100)
		top := pipeline.New("t", pipeline.Config{
			Backoff: time.Second, Attempts: 100, Logger: slog.New(slog.NewTextHandler(&log, nil)),
		})
		pipeline.Map(from(top, src), "lookup", func(_ context.Context, v int) (int, error) {
			if since(start) < 20*time.Second {
				return 0, errBoom
			}
			return v, nil
		}).To(&pipelinetest.Sink[int]{})
		mustRun(t, top)
		lines := strings.Split(strings.TrimSpace(log.String()), "\n")
		if len(lines) != 2 { // attempts at 0, 1, 3, 7, 15 and 31 s; those from 1 to 7 are within 10 s of the first
			t.Fatalf("%d lines logged, want 2\n%s", len(lines), log.String())
		}
		if !strings.Contains(lines[1], "unreported=399") {
			t.Errorf("the log %q doesn't count what was not logged", lines[1])
		}
		for _, part := range []string{"level=WARN", "stage=lookup", "partition=numbers/0", "offset=0", "attempt=1", "err=boom"} {
			if !strings.Contains(lines[0], part) {
				t.Errorf("the log %q lacks %s", lines[0], part)
			}
		}
	})
}
