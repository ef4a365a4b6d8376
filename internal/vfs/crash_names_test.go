package vfs_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/metaq-go/metaq/internal/vfs"
)

// TestCrashNames holds that of the changes of names a crash leaves what the package comment says: each outcome occurs,
// and no other.
func TestCrashNames(t *testing.T) {
	tests := []struct {
		what  string
		calls func(m *vfs.Mem) error
		want  []string // trees of which all must occur, and nothing else
	}{
		{"create", func(m *vfs.Mem) error { return touch(m, "/new") }, []string{"/a /b /d/", "/a /b /d/ /new"}},
		{"create, file synced", func(m *vfs.Mem) error {
			f, err := m.OpenFile("/new", os.O_RDWR|os.O_CREATE, 0o644)
			return errors.Join(err, f.Sync(), f.Close())
		}, []string{"/a /b /d/", "/a /b /d/ /new"}},
		{"create, folder synced", func(m *vfs.Mem) error { return errors.Join(touch(m, "/new"), m.SyncDir("/")) }, []string{"/a /b /d/ /new"}},
		{"create, other folder synced", func(m *vfs.Mem) error { return errors.Join(touch(m, "/new"), m.SyncDir("/d")) }, []string{"/a /b /d/", "/a /b /d/ /new"}},
		{"remove", func(m *vfs.Mem) error { return m.Remove("/a") }, []string{"/a /b /d/", "/b /d/"}},
		{"remove, synced", func(m *vfs.Mem) error { return errors.Join(m.Remove("/a"), m.SyncDir("/")) }, []string{"/b /d/"}},
		{"remove and create again", func(m *vfs.Mem) error { return errors.Join(m.Remove("/a"), touch(m, "/a")) }, []string{"/a /b /d/", "/b /d/"}},
		{"rename", func(m *vfs.Mem) error { return m.Rename("/a", "/c") }, []string{"/a /b /d/", "/b /c /d/"}},
		{"rename over", func(m *vfs.Mem) error { return m.Rename("/a", "/b") }, []string{"/a /b /d/", "/b /d/"}},
		{
			"in order within a folder", func(m *vfs.Mem) error {
				return errors.Join(touch(m, "/n1"), m.Remove("/a"), touch(m, "/n2"))
			},
			[]string{"/a /b /d/", "/a /b /d/ /n1", "/b /d/ /n1", "/b /d/ /n1 /n2"},
		},
		{
			"folders independent", func(m *vfs.Mem) error { return errors.Join(touch(m, "/n"), touch(m, "/d/m")) },
			[]string{"/a /b /d/", "/a /b /d/ /n", "/a /b /d/ /d/m", "/a /b /d/ /d/m /n"},
		},
		{
			"move between folders", func(m *vfs.Mem) error { return m.Rename("/a", "/d/a") },
			[]string{"/a /b /d/", "/b /d/ /d/a"},
		},
		{
			"move between folders, the source synced", func(m *vfs.Mem) error { return errors.Join(m.Rename("/a", "/d/a"), m.SyncDir("/")) },
			[]string{"/b /d/ /d/a"},
		},
		{
			"move between folders, the target synced", func(m *vfs.Mem) error { return errors.Join(m.Rename("/a", "/d/a"), m.SyncDir("/d")) },
			[]string{"/b /d/ /d/a"},
		},
		{
			"a sync takes along what a move needs", func(m *vfs.Mem) error {
				return errors.Join(touch(m, "/n"), m.Rename("/a", "/d/a"), touch(m, "/d/m"), m.Remove("/b"), m.SyncDir("/d"))
			},
			[]string{"/b /d/ /d/a /d/m /n", "/d/ /d/a /d/m /n"},
		},
		{
			"a move waits for both folders", func(m *vfs.Mem) error {
				return errors.Join(touch(m, "/n"), touch(m, "/d/m"), m.Rename("/a", "/d/a"))
			},
			[]string{"/a /b /d/", "/a /b /d/ /n", "/a /b /d/ /d/m", "/a /b /d/ /d/m /n", "/b /d/ /d/a /d/m /n"},
		},
		{
			"nothing in either folder comes before a move that comes before it", func(m *vfs.Mem) error {
				return errors.Join(touch(m, "/d/m"), m.Rename("/a", "/d/a"), touch(m, "/n"), touch(m, "/d/o"))
			},
			[]string{
				"/a /b /d/", "/a /b /d/ /d/m", "/b /d/ /d/a /d/m", "/b /d/ /d/a /d/m /n", "/b /d/ /d/a /d/m /d/o",
				"/b /d/ /d/a /d/m /d/o /n",
			},
		},
		{
			"moving a folder comes after everything before it", func(m *vfs.Mem) error {
				err := errors.Join(m.MkdirAll("/e/f", 0o755), m.SyncDir("/"), m.SyncDir("/e"))
				return errors.Join(err, touch(m, "/d/m"), m.Rename("/e/f", "/f"))
			},
			[]string{"/a /b /d/ /e/ /e/f/", "/a /b /d/ /d/m /e/ /e/f/", "/a /b /d/ /d/m /e/ /f/"},
		},
		{
			"moving a folder comes after everything before it, synced", func(m *vfs.Mem) error {
				err := errors.Join(m.MkdirAll("/e/f", 0o755), m.SyncDir("/"), m.SyncDir("/e"))
				return errors.Join(err, touch(m, "/d/m"), m.Rename("/e/f", "/f"), m.SyncDir("/e"))
			},
			[]string{"/a /b /d/ /d/m /e/ /f/"},
		},
		{
			"new folder", func(m *vfs.Mem) error {
				return errors.Join(m.MkdirAll("/e", 0o755), touch(m, "/e/x"), m.SyncDir("/e"))
			},
			[]string{"/a /b /d/", "/a /b /d/ /e/ /e/x"}, // its content is durable, its name is not
		},
		{
			"new folders, one by one", func(m *vfs.Mem) error { return m.MkdirAll("/e/f", 0o755) },
			[]string{"/a /b /d/", "/a /b /d/ /e/", "/a /b /d/ /e/ /e/f/"},
		},
		{
			"a folder that moves below a former child", func(m *vfs.Mem) error {
				err := errors.Join(m.MkdirAll("/e/f/g", 0o755), m.SyncDir("/"), m.SyncDir("/e"), m.SyncDir("/e/f"))
				return errors.Join(err, m.Rename("/e/f", "/f"), m.Rename("/e", "/f/g/e"))
			},
			[]string{"/a /b /d/ /e/ /e/f/ /e/f/g/", "/a /b /d/ /e/ /f/ /f/g/", "/a /b /d/ /f/ /f/g/ /f/g/e/"},
		},
		{
			"a lock file", func(m *vfs.Mem) error {
				lock, err := m.Lock("/lock")
				return errors.Join(err, lock.Close())
			},
			[]string{"/a /b /d/", "/a /b /d/ /lock"},
		},
	}
	for _, tt := range tests {
		t.Run(tt.what, func(t *testing.T) {
			m := vfs.NewMem()
			check(t, errors.Join(touch(m, "/a"), touch(m, "/b"), m.MkdirAll("/d", 0o755), m.SyncDir("/")))
			check(t, tt.calls(m))
			seen := make(map[string]bool)
			crashes(m, 500, func(_ int, crashed *vfs.Mem) { seen[names(t, crashed, "/")] = true })
			for _, want := range tt.want {
				if !seen[want] {
					t.Errorf("never left %q", want)
				}
				delete(seen, want)
			}
			for other := range seen {
				t.Errorf("left %q", other)
			}
		})
	}
}

func touch(fsys vfs.FS, name string) error {
	f, err := fsys.OpenFile(name, os.O_RDWR|os.O_CREATE, 0o644)
	if err != nil {
		return err
	}
	return f.Close()
}

// names returns all names below dir in one line.
func names(t testing.TB, fsys vfs.FS, dir string) string {
	t.Helper()
	entries, err := fsys.ReadDir(dir)
	check(t, err)
	var all []string
	for _, e := range entries {
		name := filepath.Join(dir, e.Name())
		if e.IsDir() {
			all = append(all, name+"/")
			if below := names(t, fsys, name); below != "" {
				all = append(all, below)
			}
			continue
		}
		all = append(all, name)
	}
	return strings.Join(all, " ")
}

func TestRenameOverCarriesTheContent(t *testing.T) {
	m := vfs.NewMem()
	create(t, m, "/a", "unsynced")
	create(t, m, "/b", "old")
	for _, name := range []string{"/a", "/b"} {
		f := open(t, m, name, os.O_RDWR)
		if name == "/b" {
			check(t, f.Sync())
		}
	}
	check(t, m.SyncDir("/"))
	check(t, m.Rename("/a", "/b"))
	seen := make(map[string]bool)
	crashes(m, 500, func(_ int, crashed *vfs.Mem) {
		content, err := vfs.ReadFile(crashed, "/b")
		check(t, err)
		seen[string(content)] = true
	})
	for _, want := range []string{"old", "unsynced", "", "\x00\x00\x00\x00\x00\x00\x00\x00"} {
		if !seen[want] {
			t.Errorf("never left %q: the classic lost file after a rename without a sync", want)
		}
	}
}
