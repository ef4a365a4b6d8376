package pipeline

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
)

// Topology is a named graph of sources, bolts and sinks. Build it with From and the functions and methods on
// streams, in one goroutine, then call Run once.
type Topology struct {
	name    string
	cfg     Config
	letters *inlet[DeadLetter] // nil without Config.DeadLetters
	started atomic.Bool

	mu    sync.Mutex
	nodes []*node
	errs  []error
}

// New begins a topology.
func New(name string, cfg Config) *Topology {
	t := &Topology{name: name, cfg: cfg.withDefaults()}
	if name == "" {
		t.fault(errors.New("the topology has no name"))
	}
	if sink := t.cfg.DeadLetters; sink != nil {
		n := &node{name: deadLetters, kind: kindSink, tasks: 1}
		in := &inlet[DeadLetter]{node: n}
		n.layout = func(*run) { in.open(n.tasks) }
		n.open = func(r *run) error { return addSink(r, in, 0, sink, batching{}) }
		t.letters = in
	}
	return t
}

// all returns the nodes in the order of declaration, the dead letters last.
func (t *Topology) all() []*node {
	t.mu.Lock()
	defer t.mu.Unlock()
	nodes := t.nodes[:len(t.nodes):len(t.nodes)]
	if t.letters != nil {
		nodes = append(nodes, t.letters.node)
	}
	return nodes
}

// freeName returns name, or name with the first number that makes it new.
func (t *Topology) freeName(name string) string {
	taken := func(s string) bool {
		return slices.ContainsFunc(t.all(), func(n *node) bool { return n.name == s })
	}
	free := name
	for i := 2; taken(free); i++ {
		free = fmt.Sprintf("%s-%d", name, i)
	}
	return free
}

// nodeKind is what a node of the graph is.
type nodeKind uint8

const (
	kindSource nodeKind = iota
	kindFilter
	kindStage
	kindSink
)

func (k nodeKind) String() string {
	return [...]string{"source", "filter", "stage", "sink"}[k]
}

// node is a stage without its types: its place in the graph, its numbers, and how to make its tasks.
type node struct {
	name   string
	kind   nodeKind
	tasks  int // 0 for filters
	from   []*node
	silent bool // emits struct{}: nobody has to consume it
	used   bool // somebody consumes it

	// open makes what the stage's tasks need, in Run's goroutine; layout has made the queues of all stages before.
	layout func(r *run)
	open   func(r *run) error

	arrived, finished atomic.Int64 // tuples queued to the stage, and gone through it

	mu       sync.Mutex
	counters []*counters
	rings    []*ring // a source's
}

func (n *node) newCounters() *counters {
	c := &counters{}
	n.mu.Lock()
	n.counters = append(n.counters, c)
	n.mu.Unlock()
	return c
}

func (n *node) addRing(r *ring) {
	n.mu.Lock()
	n.rings = append(n.rings, r)
	n.mu.Unlock()
}

func (t *Topology) fault(err error) {
	t.mu.Lock()
	t.errs = append(t.errs, err)
	t.mu.Unlock()
}

// declare adds a stage with its options. What is wrong is kept for Build.
func (t *Topology) declare(kind nodeKind, name string, opts []Option) (*node, settings) {
	var s settings
	for _, o := range opts {
		o(&s)
	}
	n := &node{name: name, kind: kind, layout: func(*run) {}, open: func(*run) error { return nil }}
	n.tasks = t.cfg.Instances
	if t.cfg.Mode != Broadcast {
		n.tasks = 1
	}
	if s.parallelSet {
		n.tasks = s.parallel
	}
	for _, err := range s.check(kind, t.cfg.Mode) {
		t.fault(fmt.Errorf("%s %q: %w", kind, name, err))
	}
	t.mu.Lock()
	t.nodes = append(t.nodes, n)
	t.mu.Unlock()
	return n, s
}

func (s *settings) check(kind nodeKind, mode Mode) (errs []error) {
	if s.parallelSet && s.parallel < 1 {
		errs = append(errs, fmt.Errorf("Parallel(%d): at least one task is needed", s.parallel))
	}
	if s.parallelSet && mode == Broadcast {
		errs = append(errs, errors.New("Parallel: in Broadcast mode every stage has Config.Instances tasks"))
	}
	if s.batchSet && kind != kindSink {
		errs = append(errs, errors.New("Batch and BatchBytes are for sinks"))
	}
	if s.batch.wait && s.batch.count < 1 {
		errs = append(errs, fmt.Errorf("Batch(%d, %v): the count must be at least 1", s.batch.count, s.batch.every))
	}
	if s.batch.every < 0 || s.batch.bytes < 0 {
		errs = append(errs, errors.New("Batch, BatchBytes: time and bytes can't be negative"))
	}
	return errs
}

// Build checks the topology and returns everything that is wrong with it, joined. Run calls it; a test may, to check a
// topology without running it. It starts nothing.
//
// Wrong are: missing or repeated names, streams of another topology, a stage without a task, numbers out of range, no source, and
// a stream nobody consumes, unless it is a Stream[struct{}], the stream of a bolt that emits nothing.
func (t *Topology) Build() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	errs := append(t.errs[:len(t.errs):len(t.errs)], t.cfg.check()...)
	seen := make(map[string]bool)
	seen[deadLetters] = t.letters != nil
	tasks, sources := 0, 0
	for _, n := range t.nodes {
		switch {
		case n.name == "":
			errs = append(errs, fmt.Errorf("a %s has no name", n.kind))
		case seen[n.name]:
			errs = append(errs, fmt.Errorf("%s %q: the name is taken by another stage", n.kind, n.name))
		}
		seen[n.name] = true
		if n.kind != kindSink && !n.used && !n.silent {
			errs = append(errs, fmt.Errorf("%s %q: nobody consumes its stream; send it To a sink", n.kind, n.name))
		}
		if n.kind == kindSource {
			sources++
			tasks += n.tasks
		}
	}
	if sources == 0 {
		errs = append(errs, errors.New("no source; begin with From"))
	}
	if tasks > math.MaxUint16 {
		errs = append(errs, fmt.Errorf("%d source tasks; at most %d are possible", tasks, math.MaxUint16))
	}
	if len(errs) > 0 {
		return fmt.Errorf("topology %q: %w", t.name, errors.Join(errs...))
	}
	return nil
}

func (c Config) check() (errs []error) {
	if c.Mode > Broadcast {
		errs = append(errs, fmt.Errorf("Config.Mode: there is no %v", c.Mode))
	}
	if c.Instances < 1 || c.Instances > 1 && c.Mode != Broadcast {
		errs = append(errs, fmt.Errorf("Config.Instances %d: at least 1, and more than 1 in Broadcast mode only", c.Instances))
	}
	if c.MaxPending < 1 || c.MaxPending > maxMaxPending {
		errs = append(errs, fmt.Errorf("Config.MaxPending %d: must be 1 to %d", c.MaxPending, maxMaxPending))
	}
	if c.Attempts < 1 {
		errs = append(errs, fmt.Errorf("Config.Attempts %d: must be at least 1", c.Attempts))
	}
	if c.Backoff < 0 || c.MaxBackoff < c.Backoff {
		errs = append(errs, fmt.Errorf("Config.Backoff %v, MaxBackoff %v: must be positive and rise", c.Backoff, c.MaxBackoff))
	}
	if c.DrainTimeout < 0 {
		errs = append(errs, fmt.Errorf("Config.DrainTimeout %v: can't be negative", c.DrainTimeout))
	}
	return errs
}

// String draws the topology as a Mermaid flow chart.
func (t *Topology) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	var b strings.Builder
	b.WriteString("flowchart LR\n")
	id := make(map[*node]int, len(t.nodes))
	for i, n := range t.nodes {
		id[n] = i
		label := n.name
		if n.tasks > 1 {
			label = fmt.Sprintf("%s ×%d", n.name, n.tasks)
		}
		label = strings.ReplaceAll(label, `"`, "#quot;")
		shape := map[nodeKind]string{kindSource: `(["%s"])`, kindFilter: `{{"%s"}}`, kindStage: `["%s"]`, kindSink: `[("%s")]`}[n.kind]
		fmt.Fprintf(&b, "  n%d"+shape+"\n", i, label)
	}
	for i, n := range t.nodes {
		for _, f := range n.from {
			fmt.Fprintf(&b, "  n%d --> n%d\n", id[f], i)
		}
	}
	return b.String()
}
