package pipeline

import "time"

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

// filter is one task's share of a filter on its stream, with what is behind it.
type filter[T any] struct {
	keep    func(T) bool
	letters *letters
	edges   []*edge[T]
	filters []*filter[T]
}

// newEdge makes the way of task number task to one consuming stage.
func newEdge[T any](o *outlet[T], d declaredEdge[T], task int) *edge[T] {
	tasks := len(d.in.queues)
	mode := o.run.top.cfg.Mode
	e := &edge[T]{
		in: d.in, route: d.group.route, hash: d.group.hash, ordered: mode == Ordered,
		only: -1, limit: 1, letters: o.letters, outlet: o,
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

func (f *filter[T]) put(v T, a anchor) int {
	f.letters.counts.in.n++
	keep, err := f.ask(v)
	if err != nil {
		f.letters.reject(a, err, 1, v)
		return 1
	}
	if !keep {
		return 0
	}
	f.letters.counts.out.n++
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

// putAll puts tuples on an edge where each is one delivery.
func (e *edge[T]) putAll(values []T, anchors []anchor) {
	switch e.route {
	case routeKey:
		for at := 0; at < len(values); {
			at = e.putByKey(values, anchors, at)
		}
		return
	case routeOrder:
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

// putByKey puts tuples from at on, until the key function panics, and returns where to go on. So one recover serves many.
func (e *edge[T]) putByKey(values []T, anchors []anchor, at int) (next int) {
	user := false
	next = at
	defer func() {
		if !user {
			return
		}
		if err := caught(recover()); err != nil {
			e.letters.reject(anchors[next], err, 1, values[next])
			next++
		}
	}()
	for ; next < len(values); next++ {
		a := anchors[next]
		user = true
		h := e.hash(values[next])
		user = false
		if e.ordered {
			a = a.withKey(h)
		}
		e.append(spread(h, len(e.open)), values[next], a)
	}
	return next
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
