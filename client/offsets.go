package client

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"sync"

	"github.com/metaq-go/metaq/internal/coord"
	"github.com/metaq-go/metaq/internal/vfs"
)

// Position is how far a group has come in a partition.
type Position struct {
	TopicPartition
	Offset int64 // everything below is done
	ID     int64 // of the last message below it, -1 if not known
}

// OffsetStore keeps the positions of groups. Implementations are safe for concurrent use.
type OffsetStore interface {
	// Load returns the stored position; found is false if there is none.
	Load(ctx context.Context, group string, tp TopicPartition) (offset int64, found bool, err error)
	// Store stores positions. When it returns nil they survive what the store promises to survive.
	Store(ctx context.Context, group string, positions []Position) error
}

// locker is an OffsetStore that a group can have to itself only: the members that come from one Client.
type locker interface {
	lock(group string, by *Client) error
	unlock(group string) error
}

// coordOffsets keeps positions in the coordination tree, as MetaQ's clients do by default.
type coordOffsets struct{ session coord.Session }

func (o coordOffsets) Load(ctx context.Context, group string, tp TopicPartition) (int64, bool, error) {
	node := coord.Layout{}.Offset(group, tp.Topic, tp.Partition.String())
	data, err := o.session.Get(ctx, node)
	if errors.Is(err, coord.ErrNoNode) {
		return 0, false, nil
	}
	if err != nil {
		return 0, false, err
	}
	_, offset, err := coord.ParseOffset(data)
	if err != nil {
		return 0, false, fmt.Errorf("position in %s: %w", node, err)
	}
	return offset, true, nil
}

func (o coordOffsets) Store(ctx context.Context, group string, positions []Position) error {
	for _, pos := range positions {
		node := coord.Layout{}.Offset(group, pos.Topic, pos.Partition.String())
		data := coord.FormatOffset(pos.ID, pos.Offset)
		err := o.session.Set(ctx, node, data)
		if errors.Is(err, coord.ErrNoNode) {
			err = o.session.Create(ctx, node, data, coord.Persistent)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// FileOffsets keeps positions in a folder, one file for each group, written atomically. While a consumer of a group is
// open, only members from the same Client can join it: others, in this process or another, don't know of each other and
// would move each other's positions.
func FileOffsets(dir string) OffsetStore {
	return &fileOffsets{fs: vfs.OS(), dir: dir, groups: make(map[string]*fileGroup)}
}

type fileOffsets struct {
	fs  vfs.FS
	dir string

	mu     sync.Mutex
	groups map[string]*fileGroup
}

// fileGroup is a group's file in memory.
type fileGroup struct {
	positions map[TopicPartition]Position
	lock      io.Closer
	by        *Client // whose members use it
	users     int
}

// fileEntry is a position in the file, which is JSON: {"GROUP": [entry, …]}, as MetaQ's local offset storage writes it.
type fileEntry struct {
	Topic     string `json:"topic"`
	Offset    int64  `json:"offset"`
	MsgID     int64  `json:"msgId"`
	Partition struct {
		BrokerID  int `json:"brokerId"`
		Partition int `json:"partition"`
	} `json:"partition"`
}

func (o *fileOffsets) name(group string) string { return filepath.Join(o.dir, group+".json") }

func (o *fileOffsets) lock(group string, by *Client) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	if g := o.groups[group]; g != nil {
		if g.by != by {
			return o.inUse(group, "client", vfs.ErrLocked)
		}
		g.users++
		return nil
	}
	if err := vfs.MkdirAllSync(o.fs, o.dir, 0o755); err != nil {
		return fmt.Errorf("offsets folder: %w", err)
	}
	lock, err := o.fs.Lock(filepath.Join(o.dir, group+".lock"))
	if errors.Is(err, vfs.ErrLocked) {
		return o.inUse(group, "process", err)
	}
	if err != nil {
		return fmt.Errorf("offsets of group %s: %w", group, err)
	}
	g, err := o.read(group)
	if err != nil {
		return errors.Join(err, lock.Close())
	}
	g.lock, g.by, g.users = lock, by, 1
	o.groups[group] = g
	return nil
}

func (o *fileOffsets) inUse(group, whose string, err error) error {
	return fmt.Errorf("group %s is in use by another %s (offsets in %s): "+
		"stop it, or use another group or, for broadcast, another member name: %w", group, whose, o.dir, err)
}

func (o *fileOffsets) unlock(group string) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	g := o.groups[group]
	if g == nil {
		return nil
	}
	if g.users--; g.users > 0 {
		return nil
	}
	delete(o.groups, group)
	return g.lock.Close()
}

// read reads a group's file. A damaged one is an error, not an empty one: beginning anew is for a person to decide.
func (o *fileOffsets) read(group string) (*fileGroup, error) {
	g := &fileGroup{positions: make(map[TopicPartition]Position)}
	f, err := o.fs.OpenFile(o.name(group), os.O_RDONLY, 0)
	if errors.Is(err, os.ErrNotExist) {
		return g, nil
	}
	if err != nil {
		return nil, fmt.Errorf("offsets of group %s: %w", group, err)
	}
	defer f.Close()
	size, err := f.Size()
	if err != nil {
		return nil, fmt.Errorf("offsets of group %s: %w", group, err)
	}
	var file map[string][]fileEntry
	if err := json.NewDecoder(io.NewSectionReader(f, 0, size)).Decode(&file); err != nil {
		return nil, fmt.Errorf("offsets of group %s: file %s is damaged: %w; move it away to begin anew", group, f.Name(), err)
	}
	for _, e := range file[group] {
		tp := TopicPartition{e.Topic, Partition{e.Partition.BrokerID, e.Partition.Partition}}
		g.positions[tp] = Position{TopicPartition: tp, Offset: e.Offset, ID: e.MsgID}
	}
	return g, nil
}

// Load implements OffsetStore.
func (o *fileOffsets) Load(_ context.Context, group string, tp TopicPartition) (int64, bool, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	g := o.groups[group]
	if g == nil {
		return 0, false, fmt.Errorf("offsets of group %s: not open", group)
	}
	pos, found := g.positions[tp]
	return pos.Offset, found, nil
}

// Store implements OffsetStore.
func (o *fileOffsets) Store(_ context.Context, group string, positions []Position) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	g := o.groups[group]
	if g == nil {
		return fmt.Errorf("offsets of group %s: not open", group)
	}
	for _, pos := range positions {
		g.positions[pos.TopicPartition] = pos
	}
	file := map[string][]fileEntry{group: {}}
	for _, pos := range sortedPositions(g.positions) {
		e := fileEntry{Topic: pos.Topic, Offset: pos.Offset, MsgID: pos.ID}
		e.Partition.BrokerID, e.Partition.Partition = pos.Broker, pos.Number
		file[group] = append(file[group], e)
	}
	data, err := json.MarshalIndent(file, "", "  ")
	if err != nil {
		return fmt.Errorf("offsets of group %s: %w", group, err)
	}
	return vfs.WriteFileAtomic(o.fs, o.name(group), append(data, '\n'), 0o644)
}

func sortedPositions(m map[TopicPartition]Position) []Position {
	return slices.SortedFunc(maps.Values(m), func(a, b Position) int { return a.TopicPartition.compare(b.TopicPartition) })
}
