package pipeline

import (
	"errors"
	"fmt"
)

// Stream is a typed stream of tuples of a topology: what a stage emits, with how it is to be spread over the tasks of the
// next stage. A Stream is a value: By, All and Global return another view and leave the receiver as it was. Any number
// of stages may consume a stream, and each gets every tuple.
type Stream[T any] struct {
	top  *Topology
	outs []output[T]
}

// output is one of the stages a stream comes from; several after Merge.
type output[T any] struct {
	port  *port[T]
	group grouping[T]
}

// By sends tuples with the same key to the same task of the next stage, so that a bolt can keep state by key. In Ordered mode
// it also makes key what the tuples are ordered by from there on: two tuples of one key stay in the order in which one task
// emitted them. To order by key from the source on, use it right behind From.
//
// The task of a key depends on the key and the number of tasks alone, in this process and in the next.
func (s Stream[T]) By(key func(T) string) Stream[T] {
	s.need("By", key != nil)
	return s.grouped(grouping[T]{route: routeKey, hash: func(v T) uint32 { return hashString(key(v)) }})
}

// ByID is By for keys that are numbers.
func (s Stream[T]) ByID(key func(T) uint64) Stream[T] {
	s.need("ByID", key != nil)
	return s.grouped(grouping[T]{route: routeKey, hash: func(v T) uint32 { return hashNumber(key(v)) }})
}

// All sends each tuple to every task of the next stage; it is done when all of them are done with it.
func (s Stream[T]) All() Stream[T] { return s.grouped(grouping[T]{route: routeAll}) }

// Global sends all tuples to task 0 of the next stage.
func (s Stream[T]) Global() Stream[T] { return s.grouped(grouping[T]{route: routeOne}) }

func (s Stream[T]) grouped(g grouping[T]) Stream[T] {
	outs := make([]output[T], len(s.outs))
	for i, o := range s.outs {
		outs[i] = output[T]{port: o.port, group: g}
	}
	return Stream[T]{top: s.top, outs: outs}
}

// need stops a program that couldn't be reported to Build, or that would only fail in the middle of a run.
func (s Stream[T]) need(what string, function bool) {
	if s.top == nil {
		panic("pipeline: " + what + " on the zero Stream; streams come from From")
	}
	if !function {
		panic("pipeline: " + what + " without a function")
	}
}

// Filter passes on the tuples for which keep is true; the others are done. It costs no hop: it runs in the tasks the tuples come
// from, in several at a time, and the grouping of the stream stays. If keep panics the tuple goes to the dead letters at
// once, or ends Run.
func (s Stream[T]) Filter(name string, keep func(T) bool) Stream[T] {
	s.need("Filter", keep != nil)
	n, _ := s.top.declare(kindFilter, name, nil)
	n.tasks = 0
	filtered := Stream[T]{top: s.top}
	for _, o := range s.outs {
		f := &declaredFilter[T]{keep: keep, port: port[T]{node: n}}
		o.port.filters = append(o.port.filters, f)
		o.port.node.used = true
		n.from = append(n.from, o.port.node)
		filtered.outs = append(filtered.outs, output[T]{port: &f.port, group: o.group})
	}
	return filtered
}

// Merge returns the tuples of s and of others as one stream. Each keeps its grouping. Between tuples of different streams
// there is no order.
func (s Stream[T]) Merge(others ...Stream[T]) Stream[T] {
	s.need("Merge", true)
	merged := Stream[T]{top: s.top, outs: s.outs[:len(s.outs):len(s.outs)]}
	for _, o := range others {
		o.need("Merge", true)
		if o.top != s.top {
			s.top.fault(fmt.Errorf("merge: stream %q belongs to topology %q", o.name(), o.top.name))
			continue
		}
		merged.outs = append(merged.outs, o.outs...)
	}
	return merged
}

func (s Stream[T]) name() string {
	if len(s.outs) == 0 {
		return ""
	}
	return s.outs[0].port.node.name
}

// consume makes the stage n a consumer of the stream and returns where it receives.
func (s Stream[T]) consume(n *node) *inlet[T] {
	in := &inlet[T]{node: n}
	for _, o := range s.outs {
		o.port.edges = append(o.port.edges, declaredEdge[T]{in: in, group: o.group})
		if o.group.route == routeAny && s.top.cfg.Mode == Unordered {
			in.free = true
		} else {
			in.bound = true
		}
		o.port.node.used = true
		n.from = append(n.from, o.port.node)
	}
	n.layout = func(*run) { in.open(n.tasks) }
	return in
}

// To ends the stream in a sink that is written by one goroutine, in Broadcast mode too.
func (s Stream[T]) To(sink Sink[T], opts ...Option) {
	s.need("To", sink != nil)
	n, set := s.sink(nameOf(sink), func(Task) (Sink[T], error) { return sink, nil }, opts)
	if set.parallel > 1 {
		s.top.fault(fmt.Errorf("sink %q: To writes one sink in one task; for several use ToEach", n.name))
	}
	if set.batch.bytes > 0 && sizer(sink) == nil {
		s.top.fault(fmt.Errorf("sink %q: %w", n.name, unmeasured[T]()))
	}
	n.tasks = 1
}

// ToEach ends the stream in one sink for every task, which open makes when Run begins; with Parallel there are several. An
// error of open ends Run before anything was read.
func (s Stream[T]) ToEach(open func(Task) (Sink[T], error), opts ...Option) {
	s.need("ToEach", open != nil)
	s.sink("", open, opts)
}

// sink adds the stage the stream ends in.
func (s Stream[T]) sink(name string, open func(Task) (Sink[T], error), opts []Option) (*node, settings) {
	if name == "" {
		name = s.top.freeName(s.name() + ".sink")
	}
	n, set := s.top.declare(kindSink, name, opts)
	in := s.consume(n)
	n.open = func(r *run) error { return openSinks(r, in, open, set.batch) }
	return n, set
}

// openSinks makes the tasks of a sink stage.
func openSinks[T any](r *run, in *inlet[T], open func(Task) (Sink[T], error), when batching) error {
	for i := range in.node.tasks {
		task := r.task(in.node, i)
		sink, err := open(task)
		if err == nil && sink == nil {
			err = errors.New("there is no sink")
		}
		if err == nil {
			err = addSink(r, in, i, sink, when)
		}
		if err != nil {
			return fmt.Errorf("open %v: %w", task, err)
		}
	}
	return nil
}

func addSink[T any](r *run, in *inlet[T], i int, sink Sink[T], when batching) error {
	t, err := newSinkTask(r, in, i, sink, when)
	r.tasks = append(r.tasks, t) // also after an error: it must be closed
	return err
}

func nameOf(v any) string {
	if n, ok := v.(interface{ Name() string }); ok {
		return n.Name()
	}
	return ""
}
