package vfs_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/metaq-go/metaq/internal/vfs"
)

func TestRename(t *testing.T) {
	tests := []struct {
		what, from, to string
		want           error
		names          []string // afterwards, in the folder
	}{
		{"new name", "a", "c", nil, []string{"b", "c", "d", "e"}},
		{"over another file", "a", "b", nil, []string{"b", "d", "e"}},
		{"into a folder", "a", "d/a", nil, []string{"b", "d", "e"}},
		{"over a file in a folder", "a", "d/x", nil, []string{"b", "d", "e"}},
		{"itself", "a", "a", nil, []string{"a", "b", "d", "e"}},
		{"absent", "no", "c", fs.ErrNotExist, []string{"a", "b", "d", "e"}},
		{"absent over another", "no", "b", fs.ErrNotExist, []string{"a", "b", "d", "e"}},
		{"into an absent folder", "a", "no/c", fs.ErrNotExist, []string{"a", "b", "d", "e"}},
		{"below a file", "a", "b/c", syscall.ENOTDIR, []string{"a", "b", "d", "e"}},
		{"over a folder", "a", "e", fs.ErrExist, []string{"a", "b", "d", "e"}},
		{"absent over a folder", "no", "e", fs.ErrNotExist, []string{"a", "b", "d", "e"}},
		{"folder", "d", "g", nil, []string{"a", "b", "e", "g"}},
		{"folder into a folder", "d", "e/g", nil, []string{"a", "b", "e"}},
		{"folder over a file", "d", "a", syscall.ENOTDIR, []string{"a", "b", "d", "e"}},
		{"folder over an empty one", "d", "e", fs.ErrExist, []string{"a", "b", "d", "e"}},
		{"folder into itself", "d", "d/g", syscall.EINVAL, []string{"a", "b", "d", "e"}},
		{"folder over itself", "d", "d", fs.ErrExist, []string{"a", "b", "d", "e"}},
	}
	for _, tt := range tests {
		t.Run(tt.what, func(t *testing.T) {
			onBoth(t, func(t *testing.T, fsys vfs.FS, dir string) {
				check(t, fsys.MkdirAll(filepath.Join(dir, "d"), 0o755))
				check(t, fsys.MkdirAll(filepath.Join(dir, "e"), 0o755))
				content := map[string]string{"a": "content of a", "b": "content of b", "d/x": "content of d/x"}
				for name, c := range content {
					create(t, fsys, filepath.Join(dir, name), c)
				}
				from, to := filepath.Join(dir, tt.from), filepath.Join(dir, tt.to)
				err := fsys.Rename(from, to)
				wantErr(t, "Rename", err, tt.want)
				var linkErr *os.LinkError
				if err != nil && !errors.As(err, &linkErr) {
					t.Errorf("got error %#v, want a LinkError", err)
				}
				wantNames(t, fsys, dir, tt.names...)
				if tt.want == nil && content[tt.from] != "" {
					wantContent(t, fsys, to, content[tt.from])
				}
				if tt.want == nil && tt.from == "d" {
					wantContent(t, fsys, filepath.Join(to, "x"), content["d/x"])
				}
			})
		})
	}
}

func TestOpenFileOutlivesItsName(t *testing.T) {
	onBoth(t, func(t *testing.T, fsys vfs.FS, dir string) {
		a, b := filepath.Join(dir, "a"), filepath.Join(dir, "b")
		create(t, fsys, a, "a's")
		create(t, fsys, b, "b's")
		fa, fb := open(t, fsys, a, os.O_RDWR), open(t, fsys, b, os.O_RDWR)
		readAll := func(f vfs.File) string {
			size, err := f.Size()
			check(t, err)
			got := make([]byte, size)
			_, err = f.ReadAt(got, 0)
			check(t, err)
			return string(got)
		}

		check(t, fsys.Rename(a, b)) // b's file has no name any more
		write(t, fb, "still ", 3)
		write(t, fa, " moved", 3)
		check(t, fb.Sync())
		if got, want := readAll(fb), "b'sstill "; got != want {
			t.Errorf("file whose name was taken: got %q, want %q", got, want)
		}
		wantContent(t, fsys, b, "a's moved")

		check(t, fsys.Remove(b))
		write(t, fa, "!", 9)
		if got, want := readAll(fa), "a's moved!"; got != want {
			t.Errorf("removed file: got %q, want %q", got, want)
		}
		create(t, fsys, b, "new")
		wantContent(t, fsys, b, "new")
		if fa.Name() != a {
			t.Errorf("Name after rename: got %s, want %s", fa.Name(), a)
		}
	})
}

func TestRemove(t *testing.T) {
	onBoth(t, func(t *testing.T, fsys vfs.FS, dir string) {
		create(t, fsys, filepath.Join(dir, "a"), "x")
		check(t, fsys.MkdirAll(filepath.Join(dir, "d/e"), 0o755))
		wantErr(t, "absent", fsys.Remove(filepath.Join(dir, "no")), fs.ErrNotExist)
		wantErr(t, "below a file", fsys.Remove(filepath.Join(dir, "a/b")), syscall.ENOTDIR)
		wantErr(t, "full folder", fsys.Remove(filepath.Join(dir, "d")), syscall.ENOTEMPTY)
		wantNames(t, fsys, dir, "a", "d")
		check(t, fsys.Remove(filepath.Join(dir, "d/e")))
		check(t, fsys.Remove(filepath.Join(dir, "d")))
		check(t, fsys.Remove(filepath.Join(dir, "a")))
		wantNames(t, fsys, dir)
		if err := fsys.Remove("/"); err == nil {
			t.Error("the root directory let itself be removed")
		}
	})
}

func TestDirectories(t *testing.T) {
	onBoth(t, func(t *testing.T, fsys vfs.FS, dir string) {
		deep := filepath.Join(dir, "x/y/z")
		check(t, fsys.MkdirAll(deep, 0o750))
		check(t, fsys.MkdirAll(deep, 0o750))
		check(t, fsys.MkdirAll("/", 0o750))
		create(t, fsys, filepath.Join(dir, "x/b"), "12345")
		create(t, fsys, filepath.Join(dir, "x/a"), "")
		create(t, fsys, filepath.Join(dir, "x/z"), "")
		wantNames(t, fsys, filepath.Join(dir, "x"), "a", "b", "y", "z")
		wantErr(t, "MkdirAll over a file", fsys.MkdirAll(filepath.Join(dir, "x/b"), 0o755), syscall.ENOTDIR)
		wantErr(t, "MkdirAll below a file", fsys.MkdirAll(filepath.Join(dir, "x/b/c/d"), 0o755), syscall.ENOTDIR)
		_, err := fsys.ReadDir(filepath.Join(dir, "no"))
		wantErr(t, "ReadDir of nothing", err, fs.ErrNotExist)
		_, err = fsys.ReadDir(filepath.Join(dir, "x/b"))
		wantErr(t, "ReadDir of a file", err, syscall.ENOTDIR)
		check(t, fsys.SyncDir(filepath.Join(dir, "x")))
		wantErr(t, "SyncDir of nothing", fsys.SyncDir(filepath.Join(dir, "no")), fs.ErrNotExist)

		entries, err := fsys.ReadDir(filepath.Join(dir, "x"))
		check(t, err)
		for _, e := range entries {
			info, err := e.Info()
			check(t, err)
			stat, err := fsys.Stat(filepath.Join(dir, "x", e.Name()))
			check(t, err)
			if e.IsDir() != (e.Name() == "y") || info.IsDir() != e.IsDir() || stat.IsDir() != e.IsDir() || info.Mode() != stat.Mode() {
				t.Errorf("%s: entry %v, info %v, stat %v", e.Name(), e.Type(), info.Mode(), stat.Mode())
			}
			if !e.IsDir() && (info.Size() != stat.Size() || stat.Size() != map[string]int64{"b": 5}[e.Name()]) {
				t.Errorf("%s: entry has size %d, stat %d", e.Name(), info.Size(), stat.Size())
			}
		}
	})
}

func TestStat(t *testing.T) {
	onBoth(t, func(t *testing.T, fsys vfs.FS, dir string) {
		start := time.Now().Add(-time.Minute)
		name := filepath.Join(dir, "f")
		f, err := fsys.OpenFile(name, os.O_RDWR|os.O_CREATE, 0o600)
		check(t, err)
		defer f.Close()
		write(t, f, "123456", 0)
		info, err := fsys.Stat(name)
		check(t, err)
		if info.Name() != "f" || info.Size() != 6 || info.Mode() != 0o600 || info.IsDir() || info.ModTime().Before(start) {
			t.Errorf("got %s, %d bytes, %v, %v", info.Name(), info.Size(), info.Mode(), info.ModTime())
		}
		_, err = fsys.Stat(filepath.Join(dir, "no"))
		wantErr(t, "absent", err, fs.ErrNotExist)
		_, err = fsys.Stat(filepath.Join(name, "no"))
		wantErr(t, "below a file", err, syscall.ENOTDIR)
		root, err := fsys.Stat("/")
		if err != nil || !root.IsDir() {
			t.Errorf("the root: got %v, %v, want a directory", root, err)
		}
	})
}

func TestLock(t *testing.T) {
	onBoth(t, func(t *testing.T, fsys vfs.FS, dir string) {
		name := filepath.Join(dir, "lock")
		first, err := fsys.Lock(name)
		check(t, err)
		_, err = fsys.Lock(name)
		wantErr(t, "second lock", err, vfs.ErrLocked)
		other, err := fsys.Lock(filepath.Join(dir, "other"))
		check(t, err)

		create(t, fsys, name, "a locked file can be used") // and closing another handle keeps the lock
		_, err = fsys.Lock(name)
		wantErr(t, "lock after another handle was closed", err, vfs.ErrLocked)

		check(t, first.Close())
		wantErr(t, "close twice", first.Close(), fs.ErrClosed)
		again, err := fsys.Lock(name)
		check(t, err)
		wantErr(t, "close of the first lock, again", first.Close(), fs.ErrClosed)
		_, err = fsys.Lock(name)
		wantErr(t, "lock while held again", err, vfs.ErrLocked)
		check(t, errors.Join(again.Close(), other.Close()))
		wantNames(t, fsys, dir, "lock", "other")

		_, err = fsys.Lock(filepath.Join(dir, "no/lock"))
		wantErr(t, "lock in an absent folder", err, fs.ErrNotExist)
		_, err = fsys.Lock(dir)
		wantErr(t, "lock of a folder", err, syscall.EISDIR)
	})
}
