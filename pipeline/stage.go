package pipeline

import (
	"context"
	"errors"
	"fmt"
)

// Bolter is a processing step with state. The topology makes one for every task of its stage, and each is
// used by one goroutine.
//
// A Bolter may also have a method Close() error, called once when its task ends; its error ends up in that of Run.
type Bolter[T, U any] interface {
	// Process is given a tuple and emits any number of tuples made from it. They are sent when it returns nil, together with
	// those of the tuples around it: a Process that blocks may hold up what was emitted in the millisecond before. The
	// source tuple is done when they are. emit must not be called after Process returned, nor by another goroutine.
	//
	// After an error or a panic what was emitted is dropped, and the tuple is given again after Config.Backoff, up
	// to Config.Attempts times; Permanent errors are not tried again. Meanwhile other tuples are processed: in Unordered mode
	// all, in Ordered mode those of other keys, while later ones of the same key wait behind it. So a Bolter changes
	// its state last. ctx ends when the drain deadline has passed.
	Process(ctx context.Context, v T, emit func(U)) error
}

// From begins a stream with a source. decode turns what the source hands out into the stream's type, in the source's task,
// several at a time if there are several; a message it refuses goes to the dead letters at once, or ends Run.
func From[M, T any](top *Topology, src Source[M], decode func(M) (T, error), opts ...Option) Stream[T] {
	if top == nil || src == nil || decode == nil {
		panic("pipeline: From needs a topology, a source and a decode function")
	}
	n, _ := top.declare(kindSource, src.Name(), opts)
	out := &port[T]{node: n}
	n.silent = isNothing[T]()
	n.open = func(r *run) error {
		for i := range n.tasks {
			task := r.task(n, i)
			spout, err := src.Open(r.stop, task)
			if err != nil {
				return fmt.Errorf("open %v: %w", task, err)
			}
			r.spouts = append(r.spouts, newSpoutTask(spout, decode, newOutlet(newLetters(r, n), out, i)))
			out.enlist()
		}
		return nil
	}
	return Stream[T]{top: top, outs: []output[T]{{port: out}}}
}

// Map adds a stage that makes one tuple of each. f is called by all tasks of the stage; what Bolter says of errors holds for it.
func Map[T, U any](s Stream[T], name string, f func(ctx context.Context, v T) (U, error), opts ...Option) Stream[U] {
	s.need("Map", f != nil)
	return stage(s, name, func(Task) Bolter[T, U] { return mapper[T, U](f) }, opts)
}

// FlatMap adds a stage that makes any number of tuples of each. f is called by all tasks of the stage; what Bolter
// says of emit and of errors holds for it.
func FlatMap[T, U any](s Stream[T], name string, f func(ctx context.Context, v T, emit func(U)) error, opts ...Option) Stream[U] {
	s.need("FlatMap", f != nil)
	return stage(s, name, func(Task) Bolter[T, U] { return flatMapper[T, U](f) }, opts)
}

// Bolt adds a stage with state: bolt is called for each task of the stage when Run begins. With state by key, s is
// grouped by that key: Bolt(words.By(…), …).
func Bolt[T, U any](s Stream[T], name string, bolt func(Task) Bolter[T, U], opts ...Option) Stream[U] {
	s.need("Bolt", bolt != nil)
	return stage(s, name, bolt, opts)
}

func stage[T, U any](s Stream[T], name string, bolt func(Task) Bolter[T, U], opts []Option) Stream[U] {
	n, _ := s.top.declare(kindStage, name, opts)
	n.silent = isNothing[U]()
	in := s.consume(n)
	out := &port[U]{node: n}
	n.open = func(r *run) error {
		for i := range n.tasks {
			b, err := makeBolt(r.task(n, i), bolt)
			if err != nil {
				return err
			}
			r.tasks = append(r.tasks, newBoltTask(in, i, b, newOutlet(newLetters(r, n), out, i)))
			out.enlist()
		}
		return nil
	}
	return Stream[U]{top: s.top, outs: []output[U]{{port: out}}}
}

func makeBolt[T, U any](t Task, bolt func(Task) Bolter[T, U]) (b Bolter[T, U], err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("open %v: %w", t, err)
		}
	}()
	defer catch(&err)
	if b = bolt(t); b == nil {
		return nil, errors.New("there is no bolt")
	}
	return b, nil
}

// mapper and flatMapper make bolts of functions.
type (
	mapper[T, U any]     func(context.Context, T) (U, error)
	flatMapper[T, U any] func(context.Context, T, func(U)) error
)

// Process is there for the type; boltTask calls f itself, which saves the way through emit.
func (f mapper[T, U]) Process(ctx context.Context, v T, emit func(U)) error {
	u, err := f(ctx, v)
	if err == nil {
		emit(u)
	}
	return err
}

func (f flatMapper[T, U]) Process(ctx context.Context, v T, emit func(U)) error {
	return f(ctx, v, emit)
}

// isNothing tells whether T is struct{}, the type of a stream without tuples.
func isNothing[T any]() bool {
	_, ok := any(*new(T)).(struct{})
	return ok
}
