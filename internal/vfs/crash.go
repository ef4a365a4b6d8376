package vfs

import (
	"maps"
	"math/rand/v2"
	"slices"
)

const sectorSize = 512 // what a disk writes whole or not at all

// Crash returns the file system that would be found if the power failed now, drawn by rng from the many that are
// possible; the package comment says which. It holds nothing unsynced and no locks, has no hook, and is independent of m,
// which goes on as if nothing had happened. Equal states and equal rng give equal results.
func (m *Mem) Crash(rng *rand.Rand) *Mem {
	m.mu.Lock()
	defer m.mu.Unlock()
	c := copier{
		done:  make(map[*inode]*inode),
		names: m.journal.survivors(rng.IntN),
		data: func(f *fileData) fileData {
			live := f.survivor(rng)
			return fileData{live: live, safe: live.clone()}
		},
	}
	return &Mem{root: c.copy(m.root)}
}

// Kill returns the file system that would be found if the process were killed now and another one started: everything
// written is there, locks are free. What was not synced still is not, so a later Crash of the result may lose it. It has no
// hook and is independent of m.
func (m *Mem) Kill() *Mem {
	m.mu.Lock()
	defer m.mu.Unlock()
	c := copier{done: make(map[*inode]*inode), names: liveNames, synced: syncedNames, data: (*fileData).clone}
	killed := &Mem{root: c.copy(m.root)}
	for _, ch := range m.journal {
		ch.node, ch.from, ch.to = c.copy(ch.node), c.copy(ch.from), c.copy(ch.to)
		killed.journal = append(killed.journal, ch)
	}
	return killed
}

// LoseUnsynced makes the file name as Linux leaves it after a failed fsync: what was written since the last sync can still
// be read, but the kernel counts it as stored. No later Sync makes it durable, a Crash loses it. Meant to be called where a
// test makes a sync fail.
func (m *Mem) LoseUnsynced(name string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	n, err := m.find(name)
	if err != nil {
		return pathError("lose unsynced", name, err)
	}
	n.file.forget()
	return nil
}

// copier copies a tree of inodes.
type copier struct {
	done  map[*inode]*inode                  // by original
	names func(dir *inode) map[string]*inode // what is in a directory
	// synced returns what is durable of a directory; nil: everything.
	synced func(dir *inode) map[string]*inode
	data   func(*fileData) fileData
}

func (c *copier) copy(n *inode) *inode {
	if n == nil {
		return nil
	}
	if to := c.done[n]; to != nil {
		return to
	}
	to := &inode{mode: n.mode, modTime: n.modTime}
	c.done[n] = to
	switch {
	case !n.mode.IsDir():
		to.file = c.data(&n.file)
	case c.synced == nil:
		to.entries = c.copyNames(c.names(n))
		to.synced = maps.Clone(to.entries)
	default:
		to.entries, to.synced = c.copyNames(c.names(n)), c.copyNames(c.synced(n))
	}
	return to
}

// copyNames works in the order of names, so that random choices fall alike each time.
func (c *copier) copyNames(names map[string]*inode) map[string]*inode {
	to := make(map[string]*inode, len(names))
	for _, name := range slices.Sorted(maps.Keys(names)) {
		to[name] = c.copy(names[name])
	}
	return to
}

// survivor returns the content after a crash.
func (f *fileData) survivor(rng *rand.Rand) content {
	c := f.safe.clone()
	if len(f.edits) == 0 {
		return c
	}
	fate := rng.IntN(8)
	for _, e := range f.edits {
		switch fate {
		case 0: // the disk saw nothing of it all
		case 1: // it saw everything
			e.apply(&c)
		default:
			e.survive(&c, rng)
		}
	}
	return c
}

func (e edit) apply(c *content) {
	if e.truncate {
		c.truncate(e.off)
	} else {
		c.writeAt(e.data, e.off)
	}
}

// survive applies what reached the disk of an edit: all, nothing, or some sectors of it.
func (e edit) survive(c *content, rng *rand.Rand) {
	fate := rng.IntN(4)
	if fate == 0 || e.truncate && fate == 1 {
		e.apply(c)
		return
	}
	if e.truncate {
		return
	}
	end := e.off + int64(len(e.data))
	switch fate {
	case 1: // nothing of the data
	case 2: // the first part
		cut := min(end, e.off/sectorSize*sectorSize+sectorSize*rng.Int64N((end-e.off)/sectorSize+2))
		if cut > e.off {
			c.writeAt(e.data[:cut-e.off], e.off)
		}
	case 3: // any parts, of one to 128 sectors
		unit := int64(sectorSize) << rng.IntN(8)
		for at := e.off; at < end; {
			next := min(end, (at/unit+1)*unit)
			if rng.IntN(2) == 0 {
				c.writeAt(e.data[at-e.off:next-e.off], at)
			}
			at = next
		}
	}
	if end > c.size && rng.IntN(2) == 0 { // the size can be ahead of the data
		grown := c.size + 1 + rng.Int64N(end-c.size)
		if rng.IntN(2) == 0 {
			grown = end
		} else {
			grown = min(end, (grown+sectorSize-1)/sectorSize*sectorSize)
		}
		c.truncate(grown)
	}
}
