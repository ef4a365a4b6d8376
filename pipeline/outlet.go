package pipeline

import "time"

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
	values  []T      // staged
	anchors []anchor // of values that are accepted
	edges   []*edge[T]
	filters []*filter[T]
	width   int           // the most deliveries one value can become
	plain   bool          // there is one edge, where every value is one delivery that needs no user code
	blocked time.Duration // how long full queues have held the task up
}

// edge is one task's way to one consuming stage.
type edge[T any] struct {
	in      *inlet[T]
	route   routing
	hash    func(T) uint32
	ordered bool
	only    int         // the one task to send to, or -1
	open    []*batch[T] // being filled, for each target; one for all if any task or only one will do; nil: empty
	limit   int         // the inlet's, as of the last send
	letters *letters
	outlet  *outlet[T]
}

type filter[T any] struct {
	keep    func(T) bool
	letters *letters
	edges   []*edge[T]
	filters []*filter[T]
	counts  *counters
}

// newOutlet makes the sending side of task i of the port's stage.
func newOutlet[T any](r *run, p *port[T], i int) *outlet[T] {
	o := &outlet[T]{run: r}
	o.edges, o.filters = o.tree(p, i)
	o.plain = len(o.edges) == 1 && len(o.filters) == 0 && o.edges[0].plain()
	return o
}

func (o *outlet[T]) tree(p *port[T], task int) (edges []*edge[T], filters []*filter[T]) {
	for _, d := range p.edges {
		e := o.edge(d, p.node, task)
		edges = append(edges, e)
		if e.route == routeAll {
			o.width += len(e.open)
		} else {
			o.width++
		}
	}
	for _, d := range p.filters {
		f := &filter[T]{keep: d.keep, letters: o.run.lettersOf(d.port.node), counts: d.port.node.newCounters()}
		width := o.width
		f.edges, f.filters = o.tree(&d.port, task)
		o.width = max(o.width, width+1) // room for a dead letter
		filters = append(filters, f)
	}
	return edges, filters
}

func (o *outlet[T]) edge(d declaredEdge[T], from *node, task int) *edge[T] {
	tasks := len(d.in.queues)
	mode := o.run.top.cfg.Mode
	e := &edge[T]{
		in: d.in, route: d.group.route, hash: d.group.hash, ordered: mode == Ordered,
		only: -1, limit: 1, letters: o.run.lettersOf(from), outlet: o,
	}
	switch {
	case tasks == 1, e.route == routeOne && mode != Broadcast:
		e.only = 0
	case mode == Broadcast:
		e.only = task // every instance keeps to itself
	case e.route == routeAny && mode == Ordered:
		e.route = routeOrder
	}
	open := tasks
	if e.only >= 0 || e.route == routeAny {
		open = 1
	}
	if e.only >= 0 && (e.route != routeKey || !e.ordered) {
		e.route = routeOne
	}
	e.open = make([]*batch[T], open)
	return e
}

// put stages a value.
func (o *outlet[T]) put(v T) { o.values = append(o.values, v) }

// accept ties the values put since the last accept or drop to the tuple they came from, and returns how many they are. The
// caller holds one token of a and loses it.
//
// Tokens are taken for the most deliveries possible before anything is sent, and what was too much is given back
// when it has been: so the count can't reach zero while there is still something to send.
func (o *outlet[T]) accept(a anchor) int {
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

// maxStaged is how many values are staged before they are delivered in the middle of a batch, and how much room is kept for them.
const maxStaged = 8 * maxBatch

// drop forgets the values put since the last accept.
func (o *outlet[T]) drop() {
	clear(o.values[len(o.anchors):])
	o.values = o.values[:len(o.anchors)]
}

// deliver puts all accepted values on the edges.
func (o *outlet[T]) deliver() {
	if o.plain {
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

func (f *filter[T]) put(v T, a anchor) int {
	f.counts.in.n++
	keep, err := f.ask(v)
	if err != nil {
		f.counts.failed.n++
		f.letters.reject(a, err, 1, v)
		return 1
	}
	if !keep {
		return 0
	}
	f.counts.out.n++
	n := 0
	for _, e := range f.edges {
		n += e.put(v, a)
	}
	for _, sub := range f.filters {
		n += sub.put(v, a)
	}
	return n
}

func (f *filter[T]) ask(v T) (keep bool, err error) {
	defer catch(&err)
	return f.keep(v), nil
}

// plain tells whether a tuple on the edge is one delivery whose target needs no user code.
func (e *edge[T]) plain() bool {
	return e.route == routeAny || e.route == routeOne || e.route == routeOrder
}

// putAll puts tuples on a plain edge.
func (e *edge[T]) putAll(values []T, anchors []anchor) {
	if e.route == routeOrder {
		for i, a := range anchors {
			e.append(spread(a.key(), len(e.open)), values[i], a)
		}
		return
	}
	for len(values) > 0 {
		b := e.open[0]
		if b == nil {
			b = e.in.pool.get()
			e.open[0] = b
		}
		n := copy(b.values[b.n:max(e.limit, b.n+1)], values)
		copy(b.anchors[b.n:], anchors[:n])
		values, anchors = values[n:], anchors[n:]
		if b.n += n; b.n >= e.limit {
			e.send(0)
		}
	}
}

func (e *edge[T]) put(v T, a anchor) int {
	target := 0
	switch e.route {
	case routeOrder:
		target = spread(a.key(), len(e.open))
	case routeKey:
		h, err := e.ask(v)
		if err != nil {
			e.letters.reject(a, err, 1, v)
			return 1
		}
		target = spread(h, len(e.open))
		if e.ordered {
			a = a.withKey(h)
		}
	case routeAll:
		for i := range e.open {
			e.append(i, v, a)
		}
		return len(e.open)
	}
	e.append(target, v, a)
	return 1
}

func (e *edge[T]) ask(v T) (h uint32, err error) {
	defer catch(&err)
	return e.hash(v), nil
}

func (e *edge[T]) append(i int, v T, a anchor) {
	b := e.open[i]
	if b == nil {
		b = e.in.pool.get()
		e.open[i] = b
	}
	b.values[b.n], b.anchors[b.n] = v, a
	b.n++
	if b.n >= e.limit {
		e.send(i)
	}
}

// send hands an open batch over, waiting for room in the queue unless the run is being given up.
func (e *edge[T]) send(i int) {
	b := e.open[i]
	e.open[i] = nil
	e.limit = int(e.in.limit.Load())
	e.in.node.arrived.Add(int64(b.n))
	q := e.in.shared
	switch {
	case e.only >= 0:
		q = e.in.queues[e.only]
	case e.route != routeAny:
		q = e.in.queues[i]
	}
	select {
	case q <- b:
		return
	default:
	}
	start := time.Now()
	select {
	case q <- b:
	case <-e.outlet.run.work.Done(): // its tuples are answered by ring.abandon
	}
	e.outlet.blocked += time.Since(start)
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
		f.counts.publish()
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
