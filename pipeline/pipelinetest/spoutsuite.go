package pipelinetest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/metaq-go/metaq/pipeline"
)

// SpoutCase tells SpoutSuite how to make a source and how to fill it.
type SpoutCase[M any] struct {
	// New prepares a place of its own for one test, empty. It may use t.TempDir and t.Cleanup.
	New func(t *testing.T) SpoutPlace[M]
	// ID is the inverse of Put: the number of the value in a message.
	ID func(M) int
	// Ends says that the source returns io.EOF when it has handed out what was there at Open, instead of waiting for more.
	Ends bool
	// Forgets says that the source keeps no positions: opened again it begins again.
	Forgets bool
	// Patience is how long the suite waits for a tuple that must come. Default 10 s.
	Patience time.Duration
}

// SpoutPlace is what a source of one test reads.
type SpoutPlace[M any] struct {
	// Source is opened as the only task, and again after Close, as by a program that starts again.
	Source pipeline.Source[M]
	// Put adds the values of these numbers, over one or several partitions.
	Put func(numbers ...int) error
}

// SpoutSuite checks that a source and its spouts keep the contracts of pipeline.Source and pipeline.Spout.
func SpoutSuite[M any](t *testing.T, c SpoutCase[M]) {
	if c.Patience == 0 {
		c.Patience = 10 * time.Second
	}
	for _, size := range []int{1, 7, 256} {
		t.Run(fmt.Sprintf("all tuples, %d at a time", size), func(t *testing.T) {
			p := c.open(t, 100)
			p.read(100, size)
			p.ack(func(int) error { return nil })
			p.close()
			p.wantNumbers(upTo(100))
			p.wantOffsetsRise()
		})
	}
	t.Run("finished", c.testFinished)
	t.Run("stopped while it waits", c.testStop)
	t.Run("comes later", c.testLater)
	t.Run("goes on behind what is done", c.testResume)
	t.Run("what is not done comes again", func(t *testing.T) { c.testNotDone(t, nil) })
	t.Run("what failed comes again", func(t *testing.T) { c.testNotDone(t, errors.New("failed for good")) })
	t.Run("acknowledged by many goroutines", c.testParallel)
}

func (c SpoutCase[M]) testFinished(t *testing.T) {
	if !c.Ends {
		t.Skip("the source doesn't end")
	}
	p := c.open(t, 20)
	p.read(20, 6)
	p.ack(func(int) error { return nil })
	if n, err := p.next(6); n > 0 || err != io.EOF { //nolint:errorlint // the contract says io.EOF itself
		t.Errorf("Next behind the last tuple: %d tuples, %v; want 0, io.EOF", n, err)
	}
	p.close()
}

func (c SpoutCase[M]) testStop(t *testing.T) {
	if c.Ends {
		t.Skip("the source doesn't wait")
	}
	p := c.open(t, 0)
	ctx, cancel := context.WithCancel(t.Context())
	got := make(chan error, 1)
	go func() {
		n, err := p.spout.Next(ctx, make([]pipeline.Tuple[M], 4))
		if n > 0 {
			err = fmt.Errorf("%d tuples from an empty source", n)
		}
		got <- err
	}()
	select {
	case err := <-got:
		t.Fatalf("Next of an empty source did not wait: %v", err)
	case <-time.After(10 * time.Millisecond):
	}
	cancel()
	select {
	case err := <-got:
		if !errors.Is(err, context.Canceled) {
			t.Errorf("Next after its context ended: %v, want context.Canceled", err)
		}
	case <-time.After(c.Patience):
		t.Fatal("Next does not return when its context ends")
	}
	p.close()
}

func (c SpoutCase[M]) testLater(t *testing.T) {
	if c.Ends {
		t.Skip("the source doesn't wait")
	}
	p := c.open(t, 3)
	p.read(3, 10)
	put := make(chan error, 1)
	go func() { put <- p.Put(3, 4) }()
	p.read(5, 10)
	if err := <-put; err != nil {
		t.Fatal(err)
	}
	p.ack(func(int) error { return nil })
	p.close()
	p.wantNumbers(upTo(5))
}

func (c SpoutCase[M]) testResume(t *testing.T) {
	if c.Forgets {
		t.Skip("the source keeps no positions")
	}
	p := c.open(t, 50)
	p.read(50, 16)
	slices.Reverse(p.got) // acknowledged in any order
	p.ack(func(int) error { return nil })
	p.close()
	if err := p.Put(50, 51, 52); err != nil {
		t.Fatal(err)
	}
	p.reopen()
	p.read(3, 16)
	p.ack(func(int) error { return nil })
	p.close()
	p.wantNumbers([]int{50, 51, 52})
}

// testNotDone leaves every tenth tuple undone: these come again, and so does at most what is behind them.
func (c SpoutCase[M]) testNotDone(t *testing.T, reason error) {
	if c.Forgets {
		t.Skip("the source keeps no positions")
	}
	p := c.open(t, 50)
	p.read(50, 16)
	if reason == nil {
		reason = context.Canceled // the topology was stopped before they were done
	}
	bad := make(map[pipeline.Origin]bool)
	lowest := make(map[string]int64)
	for _, g := range p.got {
		if c.ID(g.Value)%10 != 3 {
			continue
		}
		bad[g.Origin] = true
		if low, ok := lowest[g.Origin.Partition]; !ok || g.Origin.Offset < low {
			lowest[g.Origin.Partition] = g.Origin.Offset
		}
	}
	again := 0
	for _, g := range p.got {
		if low, ok := lowest[g.Origin.Partition]; ok && g.Origin.Offset >= low {
			again++
		}
	}
	p.ack(func(n int) error {
		if n%10 == 3 {
			return reason
		}
		return nil
	})
	p.close()
	p.reopen()
	for len(bad) > 0 && len(p.got) < again {
		p.read(len(p.got)+1, 16)
		for _, g := range p.got {
			delete(bad, g.Origin)
			if low, ok := lowest[g.Origin.Partition]; !ok || g.Origin.Offset < low {
				t.Errorf("tuple %v was done, as all before it were, and comes again", g.Origin)
			}
		}
	}
	p.ack(func(int) error { return nil })
	p.close()
	for o := range bad {
		t.Errorf("tuple %v was not done and does not come again", o)
	}
}

func (c SpoutCase[M]) testParallel(t *testing.T) {
	p := c.open(t, 400)
	p.read(400, 32)
	var wg sync.WaitGroup
	for g := range 4 {
		wg.Go(func() {
			for i := g; i < len(p.got); i += 4 {
				p.got[i].Ack.Done(nil)
			}
		})
	}
	wg.Wait()
	p.close()
	p.wantNumbers(upTo(400))
}

// openSpout is a place with its spout open and what was read from it.
type openSpout[M any] struct {
	SpoutPlace[M]
	c     SpoutCase[M]
	t     *testing.T
	spout pipeline.Spout[M]
	got   []pipeline.Tuple[M] // since reopen
}

func (c SpoutCase[M]) open(t *testing.T, put int) *openSpout[M] {
	t.Helper()
	p := &openSpout[M]{SpoutPlace: c.New(t), c: c, t: t}
	if p.Source.Name() == "" {
		t.Error("the source has no name")
	}
	if put > 0 {
		if err := p.Put(upTo(put)...); err != nil {
			t.Fatal(err)
		}
	}
	p.reopen()
	return p
}

func (p *openSpout[M]) reopen() {
	p.t.Helper()
	task := pipeline.Task{Topology: "suite", Stage: p.Source.Name(), Count: 1}
	s, err := p.Source.Open(p.t.Context(), task)
	if err != nil {
		p.t.Fatalf("open: %v", err)
	}
	p.spout, p.got = s, nil
}

// next calls Next with size places and notes what it returned.
func (p *openSpout[M]) next(size int) (int, error) {
	p.t.Helper()
	ctx, cancel := context.WithTimeout(p.t.Context(), p.c.Patience)
	defer cancel()
	dst := make([]pipeline.Tuple[M], size)
	n, err := p.spout.Next(ctx, dst)
	if n < 0 || n > size || n == 0 && err == nil {
		p.t.Fatalf("Next with %d places returned %d and %v", size, n, err)
	}
	if n > 0 && ctx.Err() != nil {
		p.t.Fatalf("Next waited for more although it had %d tuples", n)
	}
	for i, d := range dst[:n] {
		if d.Origin.Partition == "" {
			p.t.Fatalf("tuple %d has no partition in its origin", i)
		}
		p.got = append(p.got, d)
	}
	return n, err
}

// read calls Next until there are n tuples in all.
func (p *openSpout[M]) read(n, size int) {
	p.t.Helper()
	for len(p.got) < n {
		if _, err := p.next(size); err != nil && len(p.got) < n {
			p.t.Fatalf("Next after %d of %d tuples: %v", len(p.got), n, err)
		}
	}
}

// ack answers each tuple with what done says for its number.
func (p *openSpout[M]) ack(done func(number int) error) {
	for _, g := range p.got {
		g.Ack.Done(done(p.c.ID(g.Value)))
	}
}

func (p *openSpout[M]) close() {
	p.t.Helper()
	ctx, cancel := context.WithTimeout(p.t.Context(), p.c.Patience)
	defer cancel()
	if err := p.spout.Close(ctx); err != nil {
		p.t.Fatalf("close: %v", err)
	}
}

func (p *openSpout[M]) wantNumbers(want []int) {
	p.t.Helper()
	got := make([]int, 0, len(p.got))
	for _, g := range p.got {
		got = append(got, p.c.ID(g.Value)) // also shows whether a value changed after it was handed out
	}
	slices.Sort(got)
	if !slices.Equal(got, want) {
		p.t.Fatalf("got tuples %v, want %v", got, want)
	}
}

func (p *openSpout[M]) wantOffsetsRise() {
	p.t.Helper()
	last := make(map[string]int64)
	for _, g := range p.got {
		if at, ok := last[g.Origin.Partition]; ok && g.Origin.Offset <= at {
			p.t.Fatalf("tuple %v comes after offset %d", g.Origin, at)
		}
		last[g.Origin.Partition] = g.Origin.Offset
	}
}
