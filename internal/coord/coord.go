// Package coord is what metaq asks of a coordination service: a small tree of nodes with data, some of which vanish with
// the session that made them, and hints that something changed.
//
// client uses it to share partitions among the members of a group, broker/registry to be found. The implementations are
// memcoord (inside one process) and, over ZooKeeper's protocol, zkcoord; both pass the suite in coordtest. Nothing of
// ours uses more of ZooKeeper than this interface offers.
package coord

import (
	"context"
	"errors"
)

// Errors that callers decide by. Implementations wrap them with the path.
var (
	ErrNoNode  = errors.New("no such node")
	ErrExists  = errors.New("node exists")
	ErrExpired = errors.New("session has ended") // its ephemeral nodes are gone
)

// Kind says how long a node lives.
type Kind uint8

// Kinds of nodes.
const (
	Persistent Kind = iota
	Ephemeral       // until the session that made it ends
)

// Session is one participant's view of the tree. Paths begin with a slash. All methods are safe for concurrent use,
// block at most until ctx ends, and return ErrExpired once the session has ended.
type Session interface {
	// Create makes a node, and persistent ones without data above it where they are missing. It returns ErrExists if the
	// node is there, whoever made it.
	Create(ctx context.Context, path string, data []byte, kind Kind) error
	// Set replaces the data of a node, whatever it was; ErrNoNode if there is none.
	Set(ctx context.Context, path string, data []byte) error
	// Get returns the data of a node, or ErrNoNode.
	Get(ctx context.Context, path string) ([]byte, error)
	// Delete removes a node without children, or returns ErrNoNode.
	Delete(ctx context.Context, path string) error
	// Children returns the names of the nodes below one, sorted, or ErrNoNode.
	Children(ctx context.Context, path string) ([]string, error)
	// Watch returns a channel that gets a token when the node, its data or its children may have changed, until stop is
	// called. A token is a hint, never the truth: read again. There need not be a node yet.
	Watch(path string) (changed <-chan struct{}, stop func())
	// Done is closed when the session has ended.
	Done() <-chan struct{}
	// Close ends the session: its ephemeral nodes vanish. Twice is fine.
	Close() error
}
