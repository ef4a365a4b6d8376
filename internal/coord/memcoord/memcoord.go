// Package memcoord is coordination within one process: what client uses when there is no ZooKeeper, and what tests use.
package memcoord

import (
	"context"
	"fmt"
	"path"
	"slices"
	"strings"
	"sync"

	"github.com/metaq-go/metaq/internal/coord"
)

// Tree is the nodes that several sessions share. Safe for concurrent use.
type Tree struct {
	mu      sync.Mutex
	nodes   map[string]*node
	watches map[string]map[chan struct{}]struct{}
}

type node struct {
	data     []byte
	owner    *session // of an ephemeral node
	children map[string]struct{}
}

// New returns a tree with nothing in it.
func New() *Tree {
	return &Tree{
		nodes:   map[string]*node{"/": {children: make(map[string]struct{})}},
		watches: make(map[string]map[chan struct{}]struct{}),
	}
}

// Session returns a new session.
func (t *Tree) Session() coord.Session { return &session{tree: t, done: make(chan struct{})} }

type session struct {
	tree *Tree
	done chan struct{}
}

var _ coord.Session = (*session)(nil)

// begin locks the tree for an operation of the session on a path.
func (s *session) begin(ctx context.Context, name string) error {
	if err := ctx.Err(); err != nil {
		return context.Cause(ctx)
	}
	if name == "" || name[0] != '/' || path.Clean(name) != name {
		return fmt.Errorf("path %q: must begin with a slash and be clean", name)
	}
	s.tree.mu.Lock()
	select {
	case <-s.done:
		s.tree.mu.Unlock()
		return coord.ErrExpired
	default:
		return nil
	}
}

// Create implements coord.Session.
func (s *session) Create(ctx context.Context, name string, data []byte, kind coord.Kind) error {
	if err := s.begin(ctx, name); err != nil {
		return err
	}
	defer s.tree.mu.Unlock()
	if s.tree.nodes[name] != nil {
		return fmt.Errorf("create %s: %w", name, coord.ErrExists)
	}
	for p := path.Dir(name); p != "/"; p = path.Dir(p) {
		if n := s.tree.nodes[p]; n != nil && n.owner != nil {
			return fmt.Errorf("create %s: %s is ephemeral and can't have children", name, p)
		}
	}
	n := s.tree.add(name)
	n.data = slices.Clone(data)
	if kind == coord.Ephemeral {
		n.owner = s
	}
	return nil
}

// add makes a node and those above it.
func (t *Tree) add(name string) *node {
	if n := t.nodes[name]; n != nil {
		return n
	}
	parent := path.Dir(name)
	t.add(parent).children[path.Base(name)] = struct{}{}
	n := &node{children: make(map[string]struct{})}
	t.nodes[name] = n
	t.changed(name, parent)
	return n
}

// Set implements coord.Session.
func (s *session) Set(ctx context.Context, name string, data []byte) error {
	n, err := s.find(ctx, "set", name)
	if err != nil {
		return err
	}
	defer s.tree.mu.Unlock()
	n.data = slices.Clone(data)
	s.tree.changed(name)
	return nil
}

// Get implements coord.Session.
func (s *session) Get(ctx context.Context, name string) ([]byte, error) {
	n, err := s.find(ctx, "get", name)
	if err != nil {
		return nil, err
	}
	defer s.tree.mu.Unlock()
	return slices.Clone(n.data), nil
}

// find returns a node with the tree locked, or an error with the tree unlocked.
func (s *session) find(ctx context.Context, verb, name string) (*node, error) {
	if err := s.begin(ctx, name); err != nil {
		return nil, err
	}
	n := s.tree.nodes[name]
	if n == nil {
		s.tree.mu.Unlock()
		return nil, fmt.Errorf("%s %s: %w", verb, name, coord.ErrNoNode)
	}
	return n, nil
}

// Delete implements coord.Session.
func (s *session) Delete(ctx context.Context, name string) error {
	n, err := s.find(ctx, "delete", name)
	if err != nil {
		return err
	}
	defer s.tree.mu.Unlock()
	if len(n.children) > 0 || name == "/" {
		return fmt.Errorf("delete %s: it has children", name)
	}
	s.tree.remove(name)
	return nil
}

func (t *Tree) remove(name string) {
	parent := path.Dir(name)
	delete(t.nodes, name)
	delete(t.nodes[parent].children, path.Base(name))
	t.changed(name, parent)
}

// Children implements coord.Session.
func (s *session) Children(ctx context.Context, name string) ([]string, error) {
	n, err := s.find(ctx, "list", name)
	if err != nil {
		return nil, err
	}
	defer s.tree.mu.Unlock()
	names := make([]string, 0, len(n.children))
	for c := range n.children {
		names = append(names, c)
	}
	slices.SortFunc(names, strings.Compare)
	return names, nil
}

// Watch implements coord.Session.
func (s *session) Watch(name string) (<-chan struct{}, func()) {
	ch := make(chan struct{}, 1)
	t := s.tree
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.watches[name] == nil {
		t.watches[name] = make(map[chan struct{}]struct{})
	}
	t.watches[name][ch] = struct{}{}
	return ch, func() {
		t.mu.Lock()
		defer t.mu.Unlock()
		delete(t.watches[name], ch)
		if len(t.watches[name]) == 0 {
			delete(t.watches, name)
		}
	}
}

// changed pokes those who watch one of names; the tree is locked.
func (t *Tree) changed(names ...string) {
	for _, name := range names {
		for ch := range t.watches[name] {
			select {
			case ch <- struct{}{}:
			default:
			}
		}
	}
}

// Done implements coord.Session.
func (s *session) Done() <-chan struct{} { return s.done }

// Close implements coord.Session.
func (s *session) Close() error {
	t := s.tree
	t.mu.Lock()
	defer t.mu.Unlock()
	select {
	case <-s.done:
		return nil
	default:
	}
	close(s.done)
	for name, n := range t.nodes {
		if n.owner == s {
			t.remove(name)
		}
	}
	return nil
}
