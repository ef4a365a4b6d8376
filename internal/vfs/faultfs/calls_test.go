package faultfs_test

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"testing"

	"github.com/metaq-go/metaq/internal/vfs"
	"github.com/metaq-go/metaq/internal/vfs/faultfs"
)

// calls are all calls there are, each on a file system that has /f, open, and the directory /d.
var calls = []struct {
	kind   vfs.OpKind
	call   func(fsys vfs.FS, f vfs.File) error
	effect func(m *vfs.Mem) bool // whether the call has done something; nil: one cannot tell
}{
	{vfs.OpOpen, func(fsys vfs.FS, _ vfs.File) error {
		f, err := fsys.OpenFile("/f", os.O_RDONLY, 0)
		if err == nil {
			return f.Close()
		}
		return err
	}, nil},
	{vfs.OpCreate, func(fsys vfs.FS, _ vfs.File) error {
		f, err := fsys.OpenFile("/new", os.O_RDWR|os.O_CREATE, 0o644)
		if err == nil {
			return f.Close()
		}
		return err
	}, func(m *vfs.Mem) bool { return exists(m, "/new") }},
	{vfs.OpClose, func(_ vfs.FS, f vfs.File) error { return f.Close() }, nil},
	{vfs.OpRead, func(_ vfs.FS, f vfs.File) error {
		_, err := f.ReadAt(make([]byte, 3), 0)
		return err
	}, nil},
	{vfs.OpWrite, func(_ vfs.FS, f vfs.File) error {
		n, err := f.WriteAt([]byte("NEW"), 0)
		if n != 0 && n != 3 || (n == 3) != (err == nil) {
			err = fmt.Errorf("n is %d: %w", n, err)
		}
		return err
	}, func(m *vfs.Mem) bool { return content(m, "/f") == "NEWtent" }},
	{
		vfs.OpTruncate, func(_ vfs.FS, f vfs.File) error { return f.Truncate(3) },
		func(m *vfs.Mem) bool { return content(m, "/f") == "con" },
	},
	{vfs.OpSync, func(_ vfs.FS, f vfs.File) error { return f.Sync() }, nil},
	{vfs.OpDatasync, func(_ vfs.FS, f vfs.File) error { return f.Datasync() }, nil},
	{vfs.OpPreallocate, func(_ vfs.FS, f vfs.File) error { return f.Preallocate(0, 10) }, nil},
	{vfs.OpStat, func(_ vfs.FS, f vfs.File) error {
		_, err := f.Size()
		return err
	}, nil},
	{vfs.OpStat, func(fsys vfs.FS, _ vfs.File) error {
		_, err := fsys.Stat("/f")
		return err
	}, nil},
	{
		vfs.OpRemove, func(fsys vfs.FS, _ vfs.File) error { return fsys.Remove("/f") },
		func(m *vfs.Mem) bool { return !exists(m, "/f") },
	},
	{
		vfs.OpRename, func(fsys vfs.FS, _ vfs.File) error { return fsys.Rename("/f", "/g") },
		func(m *vfs.Mem) bool { return exists(m, "/g") },
	},
	{
		vfs.OpMkdir, func(fsys vfs.FS, _ vfs.File) error { return fsys.MkdirAll("/e", 0o755) },
		func(m *vfs.Mem) bool { return exists(m, "/e") },
	},
	{vfs.OpReadDir, func(fsys vfs.FS, _ vfs.File) error {
		entries, err := fsys.ReadDir("/")
		if err == nil && len(entries) != 2 {
			err = fmt.Errorf("got %v", entries)
		}
		return err
	}, nil},
	{vfs.OpSyncDir, func(fsys vfs.FS, _ vfs.File) error { return fsys.SyncDir("/") }, nil},
	{vfs.OpLock, func(fsys vfs.FS, _ vfs.File) error {
		lock, err := fsys.Lock("/lock")
		if err == nil {
			return lock.Close()
		}
		return err
	}, func(m *vfs.Mem) bool { return exists(m, "/lock") }},
}

func exists(m *vfs.Mem, name string) bool {
	_, err := m.Stat(name)
	return err == nil
}

func content(m *vfs.Mem, name string) string {
	b, _ := vfs.ReadFile(m, name)
	return string(b)
}

func fixture(t *testing.T) (*faultfs.FS, *vfs.Mem, vfs.File) {
	m := vfs.NewMem()
	check(t, m.MkdirAll("/d", 0o755))
	check(t, vfs.WriteFileAtomic(m, "/f", []byte("content"), 0o644))
	fsys := faultfs.New(m)
	f, err := fsys.OpenFile("/f", os.O_RDWR, 0)
	check(t, err)
	return fsys, m, f
}

// TestEachCall holds for each kind of call that it goes through, fails without effect, and fails with effect.
func TestEachCall(t *testing.T) {
	for i, tt := range calls {
		t.Run(fmt.Sprint(i, tt.kind), func(t *testing.T) {
			fsys, m, f := fixture(t)
			count, total := fsys.Count(tt.kind), fsys.Count("")
			fault := fsys.Add(faultfs.Rule{Op: tt.kind, After: 1, Times: 1, Err: errInjected})
			other := fsys.Add(faultfs.Rule{Op: "another", Err: errors.New("a rule for other calls has acted")})
			check(t, tt.call(fsys, f))
			if tt.effect != nil && !tt.effect(m) {
				t.Error("let through, without effect")
			}
			if got := fsys.Count(tt.kind) - count; got != 1 || fsys.Count("") == total {
				t.Errorf("counted %d calls, want 1", got)
			}
			if fault.Acted() != 0 || other.Acted() != 0 {
				t.Errorf("rules acted %d and %d times, want none", fault.Acted(), other.Acted())
			}

			for _, done := range []bool{false, true} {
				fsys, m, f = fixture(t)
				fault = fsys.Add(faultfs.Rule{Op: tt.kind, Times: 1, Err: errInjected, Done: done})
				err := tt.call(fsys, f)
				if !errors.Is(err, errInjected) {
					t.Errorf("done %t: got error %v, want the injected one", done, err)
				}
				var pathErr *fs.PathError
				var linkErr *os.LinkError
				if !errors.As(err, &pathErr) && !errors.As(err, &linkErr) {
					t.Errorf("done %t: got error %#v, want a PathError or LinkError", done, err)
				}
				if tt.effect != nil && tt.effect(m) != done {
					t.Errorf("done %t: the call had an effect: %t", done, !done)
				}
				if fault.Acted() != 1 {
					t.Errorf("the rule acted %d times, want 1", fault.Acted())
				}
				if tt.kind == vfs.OpClose {
					if err := f.Close(); !errors.Is(err, fs.ErrClosed) {
						t.Errorf("close after a failed close: got error %v, want %v", err, fs.ErrClosed)
					}
					continue
				}
				if err := f.Close(); err != nil {
					t.Error(err)
				}
			}
		})
	}
}
