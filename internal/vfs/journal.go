package vfs

import "maps"

// change is one creation, removal or renaming of a name. It waits in Mem.journal until it is durable.
type change struct {
	node     *inode
	from, to *inode // the directories in which a name vanishes and appears; nil: in none
	old, new string // these names
}

// apply makes the change in the directories' entries that names returns.
func (c *change) apply(names func(dir *inode) map[string]*inode) {
	if c.from != nil {
		delete(names(c.from), c.old)
	}
	if c.to != nil {
		names(c.to)[c.new] = c.node
	}
}

// dirs returns the directories in which the change shows.
func (c *change) dirs() []*inode {
	switch {
	case c.from == nil:
		return []*inode{c.to}
	case c.to == nil || c.to == c.from:
		return []*inode{c.from}
	}
	return []*inode{c.from, c.to}
}

// needsAll tells that the change can't be durable before all earlier ones: it moves a directory to another place in the
// tree, which in another order could end up below itself.
func (c *change) needsAll() bool {
	return c.from != nil && c.to != nil && c.from != c.to && c.node.mode.IsDir()
}

func liveNames(dir *inode) map[string]*inode   { return dir.entries }
func syncedNames(dir *inode) map[string]*inode { return dir.synced }

// journal is the changes of names that a crash may undo, in their order.
type journal []change

// sync makes durable what happened in dir, and before that to whatever else must not come later, and returns the rest.
func (j journal) sync(dir *inode) journal {
	needed := map[*inode]bool{dir: true}
	all := false
	durable := make([]bool, len(j))
	for i := len(j) - 1; i >= 0; i-- {
		c := &j[i]
		dirs := c.dirs()
		for _, d := range dirs {
			durable[i] = durable[i] || all || needed[d]
		}
		if durable[i] {
			for _, d := range dirs {
				needed[d] = true
			}
			all = all || c.needsAll()
		}
	}
	rest := j[:0]
	for i := range j {
		if durable[i] {
			j[i].apply(syncedNames)
		} else {
			rest = append(rest, j[i])
		}
	}
	clear(j[len(rest):])
	return rest
}

// survivors returns the names in each directory after a crash: those synced, and of the changes in each directory as
// many, from the oldest on, as intn chooses.
func (j journal) survivors(intn func(n int) int) func(dir *inode) map[string]*inode {
	left := j.draw(intn)
	changed := make(map[*inode]map[string]*inode)
	names := func(dir *inode) map[string]*inode {
		if m := changed[dir]; m != nil {
			return m
		}
		return dir.synced
	}
	complete := true
	for i := range j {
		c := &j[i]
		dirs := c.dirs()
		survives := complete || !c.needsAll()
		for _, d := range dirs {
			survives = survives && left[d] > 0
		}
		if !survives {
			complete = false
			for _, d := range dirs {
				left[d] = 0
			}
			continue
		}
		for _, d := range dirs {
			left[d]--
			if changed[d] == nil {
				changed[d] = maps.Clone(d.synced)
			}
		}
		c.apply(names)
	}
	return names
}

// draw chooses for each directory how many of its changes survive at most.
func (j journal) draw(intn func(n int) int) map[*inode]int {
	count := make(map[*inode]int)
	for i := range j {
		for _, d := range j[i].dirs() {
			count[d]++
		}
	}
	drawn := make(map[*inode]int, len(count))
	for i := range j { // not over the map, whose order differs each time
		for _, d := range j[i].dirs() {
			if _, done := drawn[d]; !done {
				drawn[d] = intn(count[d] + 1)
			}
		}
	}
	return drawn
}
