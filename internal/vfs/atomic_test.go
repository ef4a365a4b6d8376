package vfs_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/metaq-go/metaq/internal/vfs"
)

func TestWriteFileAtomic(t *testing.T) {
	onBoth(t, func(t *testing.T, fsys vfs.FS, dir string) {
		name := filepath.Join(dir, "state")
		for _, content := range []string{"first", "second, longer", "3rd", ""} {
			check(t, vfs.WriteFileAtomic(fsys, name, []byte(content), 0o600))
			wantContent(t, fsys, name, content)
			wantNames(t, fsys, dir, "state")
		}
		info, err := fsys.Stat(name)
		check(t, err)
		if info.Mode() != 0o600 {
			t.Errorf("mode: got %v, want 0600", info.Mode())
		}

		create(t, fsys, name+".tmp", "a longer rest of a crash")
		check(t, vfs.WriteFileAtomic(fsys, name, []byte("short"), 0o600))
		wantContent(t, fsys, name, "short")
		wantNames(t, fsys, dir, "state")

		err = vfs.WriteFileAtomic(fsys, filepath.Join(dir, "no/state"), nil, 0o600)
		wantErr(t, "in an absent folder", err, fs.ErrNotExist)
		if !strings.Contains(err.Error(), "no/state") {
			t.Errorf("error %q does not name the file", err)
		}
		check(t, fsys.MkdirAll(filepath.Join(dir, "folder"), 0o755))
		err = vfs.WriteFileAtomic(fsys, filepath.Join(dir, "folder"), []byte("x"), 0o600)
		wantErr(t, "in the place of a folder", err, fs.ErrExist)
		wantNames(t, fsys, dir, "folder", "state")
	})
}

// replacer is a way to replace the content of a file.
type replacer func(fsys vfs.FS, name string, data []byte, perm fs.FileMode) error

// crashWhile replaces the content of a file, crashes at every step and after the last one, and returns the contents
// found: during, and after the replacer had returned. "absent" stands for no file.
func crashWhile(t *testing.T, replace replacer, m *vfs.Mem, data string, seeds int) (during, after map[string]bool) {
	t.Helper()
	look := func(found map[string]bool) {
		crashes(m, seeds, func(_ int, crashed *vfs.Mem) {
			content, err := vfs.ReadFile(crashed, "/state")
			if errors.Is(err, fs.ErrNotExist) {
				content, err = []byte("absent"), nil
			}
			check(t, err)
			found[string(content)] = true
		})
	}
	during, after = make(map[string]bool), make(map[string]bool)
	steps := 0
	m.Before(func(vfs.Op) {
		steps++
		look(during)
		if killed, err := vfs.ReadFile(m.Kill(), "/state"); err == nil {
			during[string(killed)] = true
		}
	})
	check(t, replace(m, "/state", []byte(data), 0o644))
	m.Before(nil)
	if steps < 3 {
		t.Fatalf("looked at %d steps only", steps)
	}
	look(after)
	return during, after
}

func wantOnly(t *testing.T, what string, found map[string]bool, want ...string) {
	t.Helper()
	for _, w := range want {
		if !found[w] {
			t.Errorf("%s: never found %.40q", what, w)
		}
		delete(found, w)
	}
	for other := range found {
		t.Errorf("%s: found %.40q (%d bytes)", what, other, len(other))
	}
}

// TestWriteFileAtomicSurvivesCrashes crashes at every step, many times: there is the old content or the new one, and the new
// one once the call has returned.
func TestWriteFileAtomicSurvivesCrashes(t *testing.T) {
	long := func(s string) string { return strings.Repeat(s, 3000/len(s)) } // some sectors
	m := vfs.NewMem()
	during, after := crashWhile(t, vfs.WriteFileAtomic, m, long("one "), 500)
	wantOnly(t, "first, during", during, "absent", long("one "))
	wantOnly(t, "first, after", after, long("one "))

	during, after = crashWhile(t, vfs.WriteFileAtomic, m, long("second "), 500)
	wantOnly(t, "second, during", during, long("one "), long("second "))
	wantOnly(t, "second, after", after, long("second "))

	// A process killed at any step leaves something that the next one can replace.
	var killed []*vfs.Mem
	m.Before(func(vfs.Op) { killed = append(killed, m.Kill()) })
	check(t, vfs.WriteFileAtomic(m, "/state", []byte(long("third ")), 0o644))
	for _, k := range killed {
		during, after = crashWhile(t, vfs.WriteFileAtomic, k, long("fourth "), 100)
		delete(during, long("third "))
		delete(during, long("second "))
		delete(during, long("fourth "))
		wantOnly(t, "after a kill, during", during)
		wantOnly(t, "after a kill, after", after, long("fourth "))
	}
}

// TestCrashesFindWrongReplacers holds that the model is unkind enough: each omission is found.
func TestCrashesFindWrongReplacers(t *testing.T) {
	replaceWithout := func(omit string) replacer {
		return func(fsys vfs.FS, name string, data []byte, perm fs.FileMode) error {
			tmp := name + ".tmp"
			if omit == "temporary file" {
				tmp = name
			}
			f, err := fsys.OpenFile(tmp, os.O_RDWR|os.O_CREATE|os.O_TRUNC, perm)
			if err != nil {
				return err
			}
			if _, err := f.WriteAt(data, 0); err != nil {
				return err
			}
			if omit != "sync" {
				err = f.Sync()
			}
			err = errors.Join(err, f.Close())
			if omit != "temporary file" {
				err = errors.Join(err, fsys.Rename(tmp, name))
			}
			if omit != "sync of the folder" {
				err = errors.Join(err, fsys.SyncDir(filepath.Dir(name)))
			}
			return err
		}
	}
	for _, omit := range []string{"nothing", "temporary file", "sync", "sync of the folder"} {
		t.Run(omit, func(t *testing.T) {
			m := vfs.NewMem()
			check(t, vfs.WriteFileAtomic(m, "/state", []byte("old"), 0o644))
			during, after := crashWhile(t, replaceWithout(omit), m, "new", 200)
			delete(during, "old")
			delete(during, "new")
			delete(after, "new")
			wrong := len(during) + len(after)
			if omit == "nothing" && wrong > 0 || omit != "nothing" && wrong == 0 {
				t.Errorf("wrong contents found during: %v, after: %v", during, after)
			}
		})
	}
}

func TestReadFile(t *testing.T) {
	onBoth(t, func(t *testing.T, fsys vfs.FS, dir string) {
		create(t, fsys, filepath.Join(dir, "f"), "content")
		got, err := vfs.ReadFile(fsys, filepath.Join(dir, "f"))
		if err != nil || string(got) != "content" {
			t.Errorf("got %q, %v", got, err)
		}
		_, err = vfs.ReadFile(fsys, filepath.Join(dir, "no"))
		wantErr(t, "absent", err, fs.ErrNotExist)
	})
}

func TestMkdirAllSync(t *testing.T) {
	onBoth(t, func(t *testing.T, fsys vfs.FS, dir string) {
		deep := filepath.Join(dir, "a/b/c")
		for range 2 {
			check(t, vfs.MkdirAllSync(fsys, deep+"/", 0o755))
			check(t, vfs.MkdirAllSync(fsys, "/", 0o755))
			check(t, vfs.MkdirAllSync(fsys, ".", 0o755))
		}
		info, err := fsys.Stat(deep)
		if err != nil || !info.IsDir() {
			t.Fatalf("got %v, %v, want a directory", info, err)
		}
		create(t, fsys, filepath.Join(dir, "f"), "")
		if err := vfs.MkdirAllSync(fsys, filepath.Join(dir, "f"), 0o755); err == nil {
			t.Error("over a file: no error")
		}
		if err := vfs.MkdirAllSync(fsys, filepath.Join(dir, "f/g"), 0o755); err == nil {
			t.Error("below a file: no error")
		}
	})
}

// TestMkdirAllSyncSurvivesCrashes: what is synced inside is there after a crash, also if the process that made the first
// directories was killed at any step.
func TestMkdirAllSyncSurvivesCrashes(t *testing.T) {
	m := vfs.NewMem()
	start := []*vfs.Mem{vfs.NewMem()}
	m.Before(func(vfs.Op) { start = append(start, m.Kill()) })
	check(t, vfs.MkdirAllSync(m, "/a/b/c", 0o755))
	if len(start) < 7 {
		t.Fatalf("got %d steps, want 3 directories made and synced", len(start)-1)
	}
	for i, m := range start {
		check(t, vfs.MkdirAllSync(m, "/a/b/c", 0o755))
		check(t, vfs.WriteFileAtomic(m, "/a/b/c/state", []byte("synced"), 0o644))
		crashes(m, 100, func(_ int, crashed *vfs.Mem) {
			if got, err := vfs.ReadFile(crashed, "/a/b/c/state"); err != nil || string(got) != "synced" {
				t.Fatalf("killed at step %d, then crashed: got %q, %v", i, got, err)
			}
		})
	}
	plain := vfs.NewMem()
	check(t, plain.MkdirAll("/a/b/c", 0o755))
	check(t, vfs.WriteFileAtomic(plain, "/a/b/c/state", []byte("synced"), 0o644))
	lost := 0
	crashes(plain, 100, func(_ int, crashed *vfs.Mem) {
		if _, err := vfs.ReadFile(crashed, "/a/b/c/state"); err != nil {
			lost++
		}
	})
	if lost == 0 {
		t.Error("MkdirAll alone never lost the folder: the test above proves nothing")
	}
}
