package pipeline

import "sync/atomic"

// Stats are the numbers of one stage since Run began, over all its tasks. A snapshot of a running topology is consistent
// within a batch per task, not to the tuple.
type Stats struct {
	Stage   string
	Kind    string // "source", "filter", "stage", "sink"
	Tasks   int
	In      int64 // tuples taken in; for a source: handed out by its spouts
	Out     int64 // tuples emitted; for a sink: stored
	Failed  int64 // tuples given up: to the dead letters, or ending Run
	Retried int64 // attempts after the first: of a tuple in a bolt, of a batch in a sink
	Pending int64 // a source: handed out and not done; other stages: waiting, being worked on, or waiting for their next attempt
	Batches int64 // batches taken in; for a sink: written
}

// counter is written by one task's goroutine, which publishes it once per batch.
type counter struct {
	n      int64
	public atomic.Int64
}

// counters are the numbers of one task, or of one task's share in a filter.
type counters struct {
	in, out, failed, retried, batches counter
	_                                 [48]byte // keep tasks' counters off each other's cache lines
}

func (c *counters) publish() {
	for _, n := range []*counter{&c.in, &c.out, &c.failed, &c.retried, &c.batches} {
		n.public.Store(n.n)
	}
}

// Stats returns the numbers of every stage in the order of declaration, the dead letters last. It may be called at any time from any goroutine.
func (t *Topology) Stats() []Stats {
	nodes := t.all()
	all := make([]Stats, 0, len(nodes))
	for _, n := range nodes {
		all = append(all, n.stats())
	}
	return all
}

func (n *node) stats() Stats {
	n.mu.Lock()
	defer n.mu.Unlock()
	s := Stats{Stage: n.name, Kind: n.kind.String(), Tasks: n.tasks}
	for _, c := range n.counters {
		s.In += c.in.public.Load()
		s.Out += c.out.public.Load()
		s.Failed += c.failed.public.Load()
		s.Retried += c.retried.public.Load()
		s.Batches += c.batches.public.Load()
	}
	switch n.kind {
	case kindSource:
		for _, r := range n.rings {
			s.Pending += r.pending()
		}
	case kindStage, kindSink:
		s.Pending = max(0, n.arrived.Load()-n.finished.Load())
	}
	return s
}
