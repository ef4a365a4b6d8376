package pipeline

import (
	"slices"
	"time"
)

// routing is how a stream's tuples are spread over the tasks of the stage that consumes it.
type routing uint8

const (
	routeAny   routing = iota // default: any task that is free; by order key in Ordered mode
	routeKey                  // By
	routeAll                  // All
	routeOne                  // Global
	routeOrder                // never declared: routeAny in Ordered mode
)

// grouping is a routing with its key function, if it has one.
type grouping[T any] struct {
	route routing
	hash  func(T) uint32
}

// port is the declared sending side of a stage: who consumes its stream, and the filters on it.
type port[T any] struct {
	node    *node
	edges   []declaredEdge[T]
	filters []*declaredFilter[T]
}

type declaredEdge[T any] struct {
	in    *inlet[T]
	group grouping[T]
}

// declaredFilter is a condition between stages. It has a node for its name and numbers but no task: it runs in the task
// the tuples come from.
type declaredFilter[T any] struct {
	keep func(T) bool
	port port[T]
}

// enlist counts one task of the port's stage as a sender of every stage behind it.
func (p *port[T]) enlist() {
	for _, e := range p.edges {
		e.in.senders.Add(1)
	}
	for _, f := range p.filters {
		f.port.enlist()
	}
}

// outlet is one task's sending side. It belongs to the task's goroutine.
//
// What the task makes of a tuple is staged first: put adds to values, then accept says which tuple it came from, or drop forgets
// it. deliver moves everything accepted into the batches of the edges, at the end of each batch that comes in.
type outlet[T any] struct {
	run     *run
	letters *letters // the task's
	values  []T      // staged
	anchors []anchor // of values that are accepted
	edges   []*edge[T]
	filters []*filter[T]
	width   int           // the most deliveries one value can become
	single  bool          // there is one edge, where every value is one delivery
	blocked time.Duration // how long full queues have held the task up
}

// newOutlet makes the sending side of task i of the port's stage.
func newOutlet[T any](l *letters, p *port[T], i int) *outlet[T] {
	o := &outlet[T]{run: l.run, letters: l}
	o.edges, o.filters = o.tree(p, i)
	o.single = len(o.edges) == 1 && len(o.filters) == 0 && o.edges[0].route != routeAll
	return o
}

func (o *outlet[T]) tree(p *port[T], task int) (edges []*edge[T], filters []*filter[T]) {
	for _, d := range p.edges {
		e := newEdge(o, d, task)
		edges = append(edges, e)
		if e.route == routeAll {
			o.width += len(e.open)
		} else {
			o.width++
		}
	}
	for _, d := range p.filters {
		f := &filter[T]{keep: d.keep, letters: newLetters(o.run, d.port.node)}
		width := o.width
		f.edges, f.filters = o.tree(&d.port, task)
		o.width = max(o.width, width+1) // room for a dead letter
		filters = append(filters, f)
	}
	return edges, filters
}

// put stages a value.
func (o *outlet[T]) put(v T) { o.values = append(o.values, v) }

// accept ties the values put since the last accept or drop to the tuple they came from, and returns how many they are. The
// caller holds one token of a and loses it.
func (o *outlet[T]) accept(a anchor) int {
	if o.width == 1 && len(o.values) == len(o.anchors)+1 {
		o.anchors = append(o.anchors, a) // the token goes with the value
		return 1
	}
	return o.acceptMany(a)
}

// acceptMany is accept for any number of values.
//
// Tokens are taken for the most deliveries possible before anything is sent, and what was too much is given back
// when it has been: so the count can't reach zero while there is still something to send.
func (o *outlet[T]) acceptMany(a anchor) int {
	n := len(o.values) - len(o.anchors)
	for range n {
		o.anchors = append(o.anchors, a)
	}
	switch most := n * o.width; {
	case most > 1:
		o.run.rings[a.ring()].take(a.slot(), most-1)
	case most == 0:
		clear(o.values[len(o.values)-n:])
		o.values, o.anchors = o.values[:len(o.values)-n], o.anchors[:len(o.anchors)-n]
		o.run.rings[a.ring()].release(a.slot(), 1)
	}
	if len(o.values) >= maxStaged {
		o.deliver()
	}
	return n
}

// room returns space behind what is staged, for n values and their anchors; acceptEach then stages the first of them.
func (o *outlet[T]) room(n int) ([]T, []anchor) {
	o.values, o.anchors = slices.Grow(o.values, n), slices.Grow(o.anchors, n)
	at := len(o.values)
	return o.values[at : at+n], o.anchors[at : at+n]
}

// acceptEach is accept for n tuples that became one value each, written to what room returned.
func (o *outlet[T]) acceptEach(n int) {
	at := len(o.anchors)
	o.values, o.anchors = o.values[:at+n], o.anchors[:at+n]
	switch {
	case o.width > 1:
		for _, a := range o.anchors[at:] {
			o.run.rings[a.ring()].take(a.slot(), o.width-1)
		}
	case o.width == 0:
		for _, a := range o.anchors[at:] {
			o.run.rings[a.ring()].release(a.slot(), 1)
		}
		clear(o.values[at:])
		o.values, o.anchors = o.values[:at], o.anchors[:at]
	}
}

// maxStaged is how many values are staged before they are delivered in the middle of a batch, and how much room is kept for them.
const maxStaged = 8 * maxBatch

// drop forgets the values put since the last accept.
func (o *outlet[T]) drop() {
	clear(o.values[len(o.anchors):])
	o.values = o.values[:len(o.anchors)]
}

// deliver puts all accepted values on the edges.
func (o *outlet[T]) deliver() {
	if o.single {
		o.edges[0].putAll(o.values, o.anchors)
	} else {
		for i, a := range o.anchors {
			if n := o.emit(o.values[i], a); n < o.width {
				o.run.rings[a.ring()].release(a.slot(), o.width-n)
			}
		}
	}
	clear(o.values)
	o.values, o.anchors = o.values[:0], o.anchors[:0]
	if cap(o.values) > 2*maxStaged {
		o.values, o.anchors = nil, nil // grown by one bolt's burst; not worth keeping
	}
}

// emit puts one tuple on every edge and returns how many tokens that used.
func (o *outlet[T]) emit(v T, a anchor) int {
	n := 0
	for _, e := range o.edges {
		n += e.put(v, a)
	}
	for _, f := range o.filters {
		n += f.put(v, a)
	}
	return n
}

// flush sends everything that is still open: before the task waits, and at its end.
func (o *outlet[T]) flush() {
	flushAll(o.edges, o.filters)
}

func flushAll[T any](edges []*edge[T], filters []*filter[T]) {
	for _, e := range edges {
		for i, b := range e.open {
			if b != nil {
				e.send(i)
			}
		}
	}
	for _, f := range filters {
		f.letters.counts.publish()
		flushAll(f.edges, f.filters)
	}
}

// close ends the sending side: the stages behind it see the end of their input when all senders have closed.
func (o *outlet[T]) close() {
	o.flush()
	closeAll(o.edges, o.filters)
}

func closeAll[T any](edges []*edge[T], filters []*filter[T]) {
	for _, e := range edges {
		e.in.leave()
	}
	for _, f := range filters {
		closeAll(f.edges, f.filters)
	}
}
