package pipelinetest

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"testing"

	"github.com/metaq-go/metaq/pipeline"
)

// SinkCase tells SinkSuite how to make a sink and how to look at what it stored.
type SinkCase[T any] struct {
	// New prepares a place of its own for one test: a folder, a table. It may use t.TempDir and t.Cleanup.
	New func(t *testing.T) SinkPlace[T]
	// Value returns the i-th of many different values, always the same one for the same i.
	Value func(i int) T
	// Bad, if set, returns a value the sink can never store, for which Write must return a pipeline.Permanent error.
	Bad func() T
	// Equal compares a value read with one written. Default: reflect.DeepEqual.
	Equal func(read, written T) bool
	// Exact says that tuples written again after they were stored are stored once (keys that replace); otherwise they may
	// be there twice.
	Exact bool
	// AnyOrder says that Read doesn't return tuples in the order in which they were written.
	AnyOrder bool
}

// SinkPlace is where a sink of one test stores.
type SinkPlace[T any] struct {
	// Open makes the sink. It is called again after Close, as by a program that starts again.
	Open func() (pipeline.Sink[T], error)
	// Read returns everything stored. It is called when no sink is open.
	Read func() ([]T, error)
	// Break, if set, makes writes fail, as a full disk or a database that is away does, until mend is called.
	Break func() (mend func())
}

// SinkSuite checks that a sink keeps the contract of pipeline.Sink.
func SinkSuite[T any](t *testing.T, c SinkCase[T]) {
	if c.Equal == nil {
		c.Equal = func(a, b T) bool { return reflect.DeepEqual(a, b) }
	}
	t.Run("empty", func(t *testing.T) {
		p := c.open(t)
		p.close()
		p.want(nil)
	})
	t.Run("one batch", func(t *testing.T) {
		p := c.open(t)
		p.write(0, 37)
		p.close()
		p.want(upTo(37))
	})
	t.Run("many batches", func(t *testing.T) {
		p := c.open(t)
		n := 0
		for _, size := range []int{1, 2, 100, 1, 1000, 3} {
			p.write(n, n+size)
			n += size
		}
		p.close()
		p.want(upTo(n))
	})
	t.Run("empty batch", func(t *testing.T) {
		p := c.open(t)
		p.write(0, 3)
		if err := p.sink.Write(t.Context(), nil); err != nil {
			t.Errorf("write an empty batch: %v", err)
		}
		p.write(3, 5)
		p.close()
		p.want(upTo(5))
	})
	t.Run("batch is not kept", c.testNotKept)
	t.Run("opened again", func(t *testing.T) {
		p := c.open(t)
		p.write(0, 10)
		p.close()
		p.reopen()
		p.write(10, 25)
		p.close()
		p.want(upTo(25))
	})
	t.Run("written again", func(t *testing.T) { // the topology crashed between the write and the acknowledgement
		p := c.open(t)
		p.write(0, 10)
		p.close()
		p.reopen()
		p.write(0, 20)
		p.close()
		p.want(upTo(20))
	})
	t.Run("context ended", c.testContext)
	t.Run("broken for a while", c.testBroken)
	t.Run("permanent", c.testPermanent)
}

// testNotKept overwrites each batch after Write returned, as the topology does.
func (c SinkCase[T]) testNotKept(t *testing.T) {
	p := c.open(t)
	batch := make([]T, 8)
	for n := 0; n < 40; n += len(batch) {
		want := c.values(n, n+len(batch))
		copy(batch, want)
		p.must("write", p.sink.Write(t.Context(), batch))
		for i := range batch {
			if !c.Equal(batch[i], want[i]) {
				t.Fatalf("Write changed tuple %d of its batch", i)
			}
			batch[i] = c.Value(1000)
		}
	}
	p.close()
	p.want(upTo(40))
}

// testContext writes with a context that has ended: whether Write stores the batch or returns an error, writing again must do.
func (c SinkCase[T]) testContext(t *testing.T) {
	p := c.open(t)
	p.write(0, 5)
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if err := p.sink.Write(ended, c.values(5, 10)); err != nil {
		if permanent(err) {
			t.Errorf("error after the context ended is Permanent: %v", err)
		}
		p.write(5, 10)
	}
	p.write(10, 15)
	p.close()
	p.want(upTo(15))
}

func (c SinkCase[T]) testBroken(t *testing.T) {
	p := c.open(t)
	if p.Break == nil {
		p.close()
		t.Skip("the place can't be broken")
	}
	p.write(0, 5)
	mend := p.Break()
	for range 2 {
		err := p.sink.Write(t.Context(), c.values(5, 10))
		switch {
		case err == nil:
			t.Error("write to a broken place: no error")
		case permanent(err):
			t.Errorf("error of a broken place is Permanent: %v", err)
		}
	}
	mend()
	p.write(5, 10)
	p.write(10, 15)
	p.close()
	p.want(upTo(15))
}

func (c SinkCase[T]) testPermanent(t *testing.T) {
	if c.Bad == nil {
		t.Skip("no value is bad")
	}
	p := c.open(t)
	batch := append(append(c.values(0, 2), c.Bad()), c.values(2, 4)...)
	for _, b := range [][]T{batch, batch[2:3]} {
		if err := p.sink.Write(t.Context(), b); !permanent(err) {
			t.Errorf("write %d tuples with a bad one: %v, want a Permanent error", len(b), err)
		}
	}
	p.write(0, 2) // what the topology does next: the good ones without the bad one
	p.write(2, 4)
	p.close()
	p.want(upTo(4))
}

func permanent(err error) bool {
	var p interface{ Permanent() bool }
	return errors.As(err, &p) && p.Permanent()
}

func upTo(n int) []int {
	all := make([]int, n)
	for i := range all {
		all[i] = i
	}
	return all
}

func (c SinkCase[T]) values(from, to int) []T {
	v := make([]T, 0, to-from)
	for i := from; i < to; i++ {
		v = append(v, c.Value(i))
	}
	return v
}

// openPlace is a place with its sink open.
type openPlace[T any] struct {
	SinkPlace[T]
	c    SinkCase[T]
	t    *testing.T
	sink pipeline.Sink[T]
}

func (c SinkCase[T]) open(t *testing.T) *openPlace[T] {
	t.Helper()
	p := &openPlace[T]{SinkPlace: c.New(t), c: c, t: t}
	p.reopen()
	return p
}

func (p *openPlace[T]) must(what string, err error) {
	p.t.Helper()
	if err != nil {
		p.t.Fatalf("%s: %v", what, err)
	}
}

func (p *openPlace[T]) reopen() {
	p.t.Helper()
	sink, err := p.Open()
	p.must("open", err)
	p.sink = sink
}

func (p *openPlace[T]) write(from, to int) {
	p.t.Helper()
	p.must(fmt.Sprintf("write %d to %d", from, to-1), p.sink.Write(p.t.Context(), p.c.values(from, to)))
}

func (p *openPlace[T]) close() {
	p.t.Helper()
	p.must("close", p.sink.Close(p.t.Context()))
}

// want compares what is stored with the values of the given numbers: none may be missing, be there without having been
// written, or be out of order; more than once only if the sink is not Exact.
func (p *openPlace[T]) want(numbers []int) {
	p.t.Helper()
	read, err := p.Read()
	p.must("read back", err)
	first := make([]int, 0, len(numbers)) // numbers in the order in which they are first met
	for i, v := range read {
		n := len(first) // the one to be expected
		if n == len(numbers) || !p.c.Equal(v, p.c.Value(numbers[n])) {
			n = slices.IndexFunc(numbers, func(n int) bool { return p.c.Equal(v, p.c.Value(n)) })
		}
		switch {
		case n < 0:
			p.t.Fatalf("tuple %d read back was never written, or not so: %+v", i, v)
		case !slices.Contains(first, numbers[n]):
			first = append(first, numbers[n])
		case p.c.Exact:
			p.t.Fatalf("tuple %d read back is there twice: %+v", i, v)
		}
	}
	if p.c.AnyOrder {
		slices.Sort(first)
	}
	if !slices.Equal(first, numbers) {
		p.t.Fatalf("stored are %d tuples, want %d; in order: %v", len(first), len(numbers), slices.IsSorted(first))
	}
}
