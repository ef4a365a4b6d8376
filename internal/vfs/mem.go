package vfs

import (
	"io"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

// Mem is a file system in memory, for tests and for programs that want to keep nothing. It behaves as OS on Linux, and
// remembers what was synced: Crash tells what a power failure would leave. It has no links, keeps modes without enforcing
// them, and takes relative names as relative to its root. A file holds at most 16 GiB (EFBIG beyond).
//
// All methods may be called concurrently.
type Mem struct {
	before atomic.Pointer[func(Op)]

	mu      sync.RWMutex
	root    *inode
	journal journal
}

// NewMem returns a file system that holds nothing but its root directory.
func NewMem() *Mem { return &Mem{root: newDir(0o755)} }

// Before lets each call that may change something, or make something durable, first call f: create, write, truncate, sync,
// datasync, remove, rename, mkdir (once per directory), syncdir, lock, whether or not the call then succeeds. f runs in
// the goroutine of the call and may use the file system, take a Crash or a Kill of it for one; changes made by f itself
// call f again. nil ends it.
func (m *Mem) Before(f func(op Op)) {
	if f == nil {
		m.before.Store(nil)
		return
	}
	m.before.Store(&f)
}

func (m *Mem) step(op Op) {
	if f := m.before.Load(); f != nil {
		(*f)(op)
	}
}

// OpenFile implements FS.
func (m *Mem) OpenFile(name string, flag int, perm fs.FileMode) (File, error) {
	if err := checkFlag(name, flag); err != nil {
		return nil, err
	}
	switch {
	case flag&os.O_CREATE != 0:
		m.step(Op{Kind: OpCreate, Name: name})
	case flag&os.O_TRUNC != 0:
		m.step(Op{Kind: OpTruncate, Name: name})
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	n, err := m.open(name, flag, perm)
	if err != nil {
		return nil, pathError("open", name, err)
	}
	access := flag & (os.O_WRONLY | os.O_RDWR)
	return &memFile{m: m, n: n, name: name, reads: access != os.O_WRONLY, writes: access != os.O_RDONLY}, nil
}

func (m *Mem) open(name string, flag int, perm fs.FileMode) (*inode, error) {
	dir, base, err := m.parent(name)
	if err != nil {
		return nil, err
	}
	n := m.root
	if base != "" {
		n = dir.entries[base]
	}
	switch {
	case n == nil && flag&os.O_CREATE == 0:
		return nil, syscall.ENOENT
	case n == nil:
		n = newFile(perm)
		m.change(change{node: n, to: dir, new: base})
	case flag&os.O_EXCL != 0:
		return nil, syscall.EEXIST
	case n.mode.IsDir():
		return nil, syscall.EISDIR
	case flag&os.O_TRUNC != 0:
		n.truncate(0)
	}
	return n, nil
}

// Remove implements FS.
func (m *Mem) Remove(name string) error {
	m.step(Op{Kind: OpRemove, Name: name})
	m.mu.Lock()
	defer m.mu.Unlock()
	dir, base, err := m.parent(name)
	if err != nil {
		return pathError("remove", name, err)
	}
	n := dir.entries[base]
	switch {
	case base == "":
		return pathError("remove", name, syscall.EBUSY)
	case n == nil:
		return pathError("remove", name, syscall.ENOENT)
	case len(n.entries) > 0:
		return pathError("remove", name, syscall.ENOTEMPTY)
	}
	m.change(change{node: n, from: dir, old: base})
	return nil
}

// Rename implements FS.
func (m *Mem) Rename(oldname, newname string) error {
	m.step(Op{Kind: OpRename, Name: oldname, To: newname})
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := m.rename(oldname, newname); err != nil {
		return &os.LinkError{Op: "rename", Old: oldname, New: newname, Err: err}
	}
	return nil
}

func (m *Mem) rename(oldname, newname string) error {
	from, oldBase, err := m.parent(oldname)
	if err != nil {
		return err
	}
	to, newBase, err := m.parent(newname)
	if err != nil {
		return err
	}
	n, err := m.find(oldname)
	if err != nil {
		return err
	}
	target, _ := m.find(newname)
	switch {
	case target != nil && target.mode.IsDir():
		return syscall.EEXIST
	case n == m.root:
		return syscall.EBUSY
	case n.mode.IsDir() && strings.HasPrefix(clean(newname), clean(oldname)+"/"):
		return syscall.EINVAL
	case n.mode.IsDir() && target != nil:
		return syscall.ENOTDIR
	}
	m.change(change{node: n, from: from, old: oldBase, to: to, new: newBase})
	return nil
}

// MkdirAll implements FS.
func (m *Mem) MkdirAll(dir string, perm fs.FileMode) error {
	dir = filepath.ToSlash(filepath.Clean(dir))
	for i, c := range dir + "/" {
		if c != '/' || i == 0 {
			continue
		}
		if err := m.mkdir(dir[:i], perm); err != nil {
			return pathError("mkdir", dir[:i], err)
		}
	}
	return nil
}

// mkdir makes one directory; fine if it exists.
func (m *Mem) mkdir(name string, perm fs.FileMode) error {
	m.mu.RLock()
	_, err := m.find(name)
	m.mu.RUnlock()
	if err != nil {
		m.step(Op{Kind: OpMkdir, Name: name})
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	dir, base, err := m.parent(name)
	if err != nil {
		return err
	}
	n := dir.entries[base]
	switch {
	case base == "":
	case n == nil:
		m.change(change{node: newDir(perm), to: dir, new: base})
	case !n.mode.IsDir():
		return syscall.ENOTDIR
	}
	return nil
}

// ReadDir implements FS.
func (m *Mem) ReadDir(dir string) ([]fs.DirEntry, error) {
	m.mu.RLock()
	defer m.mu.RUnlock()
	n, err := m.find(dir)
	if err == nil && !n.mode.IsDir() {
		err = syscall.ENOTDIR
	}
	if err != nil {
		return nil, pathError("open", dir, err)
	}
	entries := make([]fs.DirEntry, 0, len(n.entries))
	for _, name := range slices.Sorted(maps.Keys(n.entries)) {
		entries = append(entries, fs.FileInfoToDirEntry(n.entries[name].info(name)))
	}
	return entries, nil
}

// Stat implements FS.
func (m *Mem) Stat(name string) (fs.FileInfo, error) {
	m.mu.RLock()
	defer m.mu.RUnlock()
	n, err := m.find(name)
	if err != nil {
		return nil, pathError("stat", name, err)
	}
	return n.info(filepath.Base(name)), nil
}

// SyncDir implements FS.
func (m *Mem) SyncDir(dir string) error {
	m.step(Op{Kind: OpSyncDir, Name: dir})
	m.mu.Lock()
	defer m.mu.Unlock()
	n, err := m.find(dir)
	if err == nil && !n.mode.IsDir() {
		err = syscall.ENOTDIR
	}
	if err != nil {
		return pathError("sync", dir, err)
	}
	m.journal = m.journal.sync(n)
	return nil
}

// Lock implements FS. A Crash or Kill clone has no locks.
func (m *Mem) Lock(name string) (io.Closer, error) {
	m.step(Op{Kind: OpLock, Name: name})
	m.mu.Lock()
	defer m.mu.Unlock()
	n, err := m.open(name, os.O_RDWR|os.O_CREATE, 0o644)
	if err == nil && n.locked {
		err = ErrLocked
	}
	if err != nil {
		return nil, pathError("lock", name, err)
	}
	n.locked = true
	return &memLock{m: m, n: n, name: name}, nil
}

type memLock struct {
	m    *Mem
	n    *inode
	name string
}

func (l *memLock) Close() error {
	l.m.mu.Lock()
	defer l.m.mu.Unlock()
	if l.n == nil {
		return pathError("close", l.name, fs.ErrClosed)
	}
	l.n.locked = false
	l.n = nil
	return nil
}

// change changes names, and notes that this is not durable yet.
func (m *Mem) change(c change) {
	c.apply(liveNames)
	for _, d := range c.dirs() {
		d.modTime = time.Now()
	}
	m.journal = append(m.journal, c)
}

func clean(name string) string { return path.Clean("/" + filepath.ToSlash(name)) }

// find returns the file or directory of a name.
func (m *Mem) find(name string) (*inode, error) {
	dir, base, err := m.parent(name)
	if err != nil {
		return nil, err
	}
	if base == "" {
		return m.root, nil
	}
	if n := dir.entries[base]; n != nil {
		return n, nil
	}
	return nil, syscall.ENOENT
}

// parent returns the directory that holds, or could hold, a name, and the last part of that name: empty for the root.
func (m *Mem) parent(name string) (dir *inode, base string, err error) {
	if name == "" {
		return nil, "", syscall.ENOENT
	}
	dirName, base := path.Split(clean(name))
	dir = m.root
	for part := range strings.SplitSeq(strings.Trim(dirName, "/"), "/") {
		if part == "" {
			continue
		}
		dir = dir.entries[part]
		if dir == nil {
			return nil, "", syscall.ENOENT
		}
		if !dir.mode.IsDir() {
			return nil, "", syscall.ENOTDIR
		}
	}
	return dir, base, nil
}

func pathError(op, name string, err error) error {
	return &fs.PathError{Op: op, Path: name, Err: err}
}
