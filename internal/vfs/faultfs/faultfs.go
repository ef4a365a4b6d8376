// Package faultfs makes calls of a file system fail, fall short or wait, as tests of whatever stores data through
// internal/vfs want it. It wraps the real file system or the one in memory.
//
// To fail every call of an algorithm in turn, run it with Rule{After: n, Times: 1, Err: err} for n = 0, 1, 2 and so on,
// until the rule's Fault has not acted.
package faultfs

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"github.com/metaq-go/metaq/internal/vfs"
)

// Rule says which calls fail, and how. A rule with neither Err nor Partial lets them through, after Before.
type Rule struct {
	// Op is the kind of calls; default: any. OpCreate is OpenFile with O_CREATE, OpStat also File.Size.
	Op vfs.OpKind
	// Path is a pattern of path.Match for the name: for its last element if the pattern has no slash, else for all of it.
	// Of a rename the old or the new name has to match, of a file the one that it was opened with. Default: any.
	Path string

	// After is how many calls that match Op and Path are let through first.
	After int
	// Times is on how many calls the rule then acts; default: on all.
	Times int

	// Before is called, by the goroutine of the call, before anything is done. It may wait: that is a slow disk. It may
	// use the file system, and add and remove rules, which count from the next call on.
	Before func(op vfs.Op)
	// Err is returned, in an *fs.PathError or *os.LinkError as a system does it, and the call is not made. Close is made all
	// the same.
	Err error
	// Partial is for writes: so many bytes of the first one that the rule acts on are written before Err is returned, and
	// nothing of later ones, as on a disk that becomes full. Default of Err then: io.ErrShortWrite.
	Partial int
	// Done makes the call before Err is returned: it happened, and nobody knows.
	Done bool
}

// Fault is a Rule at work.
type Fault struct {
	fsys  *FS
	rule  Rule
	seen  int
	acted int
}

// FS is a vfs.FS that obeys rules. All methods may be called concurrently.
type FS struct {
	fsys vfs.FS

	mu     sync.Mutex
	faults []*Fault
	counts map[vfs.OpKind]int
}

// New returns fsys with rules to come.
func New(fsys vfs.FS) *FS { return &FS{fsys: fsys, counts: make(map[vfs.OpKind]int)} }

// Add adds a rule. If several act on one call, all their Before are called, in the order of adding, and the first with an
// error decides. Add panics if rule.Path is malformed.
func (f *FS) Add(rule Rule) *Fault {
	if _, err := path.Match(rule.Path, ""); err != nil {
		panic("faultfs: " + rule.Path + ": " + err.Error())
	}
	if rule.Partial > 0 && rule.Err == nil {
		rule.Err = io.ErrShortWrite
	}
	fault := &Fault{fsys: f, rule: rule}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.faults = append(f.faults, fault)
	return fault
}

// Acted returns on how many calls the rule has acted.
func (f *Fault) Acted() int {
	f.fsys.mu.Lock()
	defer f.fsys.mu.Unlock()
	return f.acted
}

// Remove ends the rule: the disk is well again.
func (f *Fault) Remove() {
	f.fsys.mu.Lock()
	defer f.fsys.mu.Unlock()
	f.fsys.faults = slices.DeleteFunc(f.fsys.faults, func(other *Fault) bool { return other == f })
}

// Count returns how many calls of a kind were made since New, those that failed included; of all kinds if kind is empty.
func (f *FS) Count(kind vfs.OpKind) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	if kind != "" {
		return f.counts[kind]
	}
	sum := 0
	for _, n := range f.counts {
		sum += n
	}
	return sum
}

// verdict is what is to be done with a call.
type verdict struct {
	err     error // nil: let it through
	partial int
	done    bool
}

// judge counts a call and asks the rules.
func (f *FS) judge(op vfs.Op) verdict {
	var v verdict
	var before []func(vfs.Op)
	f.mu.Lock()
	f.counts[op.Kind]++
	for _, fault := range f.faults {
		r := &fault.rule
		if !r.matches(op) {
			continue
		}
		fault.seen++
		if fault.seen <= r.After || r.Times > 0 && fault.acted == r.Times {
			continue
		}
		fault.acted++
		if r.Before != nil {
			before = append(before, r.Before)
		}
		if r.Err != nil && v.err == nil {
			v = verdict{err: wrap(op, r.Err), done: r.Done}
			if fault.acted == 1 {
				v.partial = r.Partial
			}
		}
	}
	f.mu.Unlock()
	for _, b := range before {
		b(op)
	}
	return v
}

func (r *Rule) matches(op vfs.Op) bool {
	return (r.Op == "" || r.Op == op.Kind) && (r.matchesName(op.Name) || op.To != "" && r.matchesName(op.To))
}

func (r *Rule) matchesName(name string) bool {
	if r.Path == "" {
		return true
	}
	name = filepath.ToSlash(filepath.Clean(name))
	if !strings.Contains(r.Path, "/") {
		name = path.Base(name)
	}
	ok, _ := path.Match(r.Path, name) // Add has tried the pattern
	return ok
}

func wrap(op vfs.Op, err error) error {
	if op.Kind == vfs.OpRename {
		return &os.LinkError{Op: string(op.Kind), Old: op.Name, New: op.To, Err: err}
	}
	return &fs.PathError{Op: string(op.Kind), Path: op.Name, Err: err}
}

// do makes a call, or not, as the rules have it.
func (f *FS) do(op vfs.Op, call func() error) error {
	v := f.judge(op)
	if v.err == nil || v.done {
		if err := call(); err != nil {
			return err
		}
	}
	return v.err
}

// OpenFile implements vfs.FS.
func (f *FS) OpenFile(name string, flag int, perm fs.FileMode) (vfs.File, error) {
	op := vfs.Op{Kind: vfs.OpOpen, Name: name}
	if flag&os.O_CREATE != 0 {
		op.Kind = vfs.OpCreate
	}
	var opened vfs.File
	err := f.do(op, func() (err error) {
		opened, err = f.fsys.OpenFile(name, flag, perm)
		return err
	})
	if err != nil {
		if opened != nil {
			err = errors.Join(err, opened.Close())
		}
		return nil, err
	}
	return &file{File: opened, fsys: f}, nil
}

// Remove implements vfs.FS.
func (f *FS) Remove(name string) error {
	return f.do(vfs.Op{Kind: vfs.OpRemove, Name: name}, func() error { return f.fsys.Remove(name) })
}

// Rename implements vfs.FS.
func (f *FS) Rename(oldname, newname string) error {
	return f.do(vfs.Op{Kind: vfs.OpRename, Name: oldname, To: newname}, func() error { return f.fsys.Rename(oldname, newname) })
}

// MkdirAll implements vfs.FS.
func (f *FS) MkdirAll(dir string, perm fs.FileMode) error {
	return f.do(vfs.Op{Kind: vfs.OpMkdir, Name: dir}, func() error { return f.fsys.MkdirAll(dir, perm) })
}

// ReadDir implements vfs.FS.
func (f *FS) ReadDir(dir string) (entries []fs.DirEntry, err error) {
	err = f.do(vfs.Op{Kind: vfs.OpReadDir, Name: dir}, func() (err error) {
		entries, err = f.fsys.ReadDir(dir)
		return err
	})
	return entries, err
}

// Stat implements vfs.FS.
func (f *FS) Stat(name string) (info fs.FileInfo, err error) {
	err = f.do(vfs.Op{Kind: vfs.OpStat, Name: name}, func() (err error) {
		info, err = f.fsys.Stat(name)
		return err
	})
	return info, err
}

// SyncDir implements vfs.FS.
func (f *FS) SyncDir(dir string) error {
	return f.do(vfs.Op{Kind: vfs.OpSyncDir, Name: dir}, func() error { return f.fsys.SyncDir(dir) })
}

// Lock implements vfs.FS. Giving the lock back obeys no rules.
func (f *FS) Lock(name string) (io.Closer, error) {
	var lock io.Closer
	err := f.do(vfs.Op{Kind: vfs.OpLock, Name: name}, func() (err error) {
		lock, err = f.fsys.Lock(name)
		return err
	})
	if err != nil {
		if lock != nil {
			err = errors.Join(err, lock.Close())
		}
		return nil, err
	}
	return lock, nil
}
