package vfs_test

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/metaq-go/metaq/internal/vfs"
)

// seeded returns the n-th source of chance, the same in each run.
func seeded(n int) *rand.Rand { return rand.New(rand.NewPCG(uint64(n), 0x6d657461)) }

// crashes calls f with many possible file systems after a power failure of m now.
func crashes(m *vfs.Mem, seeds int, f func(seed int, crashed *vfs.Mem)) {
	for seed := range seeds {
		f(seed, m.Crash(seeded(seed)))
	}
}

func TestCrashIsRepeatable(t *testing.T) {
	m := vfs.NewMem()
	for i := range 10 {
		dir := fmt.Sprintf("/d%d", i)
		check(t, m.MkdirAll(dir, 0o755))
		create(t, m, dir+"/f", strings.Repeat("x", 5000))
		check(t, m.Rename(dir+"/f", dir+"/g"))
	}
	check(t, m.SyncDir("/"))
	first := tree(t, m.Crash(seeded(1)), "/")
	for range 10 {
		if again := tree(t, m.Crash(seeded(1)), "/"); again != first {
			t.Fatalf("same seed, same state: first left\n%s, then\n%s", first, again)
		}
	}
	if other := tree(t, m.Crash(seeded(2)), "/"); other == first {
		t.Error("another seed left the same tree")
	}
}

func TestClonesAreIndependent(t *testing.T) {
	const page = 4 << 10
	old := strings.Repeat("o", 3*page)
	m := vfs.NewMem()
	create(t, m, "/f", old)
	f := open(t, m, "/f", os.O_RDWR)
	check(t, f.Sync())
	check(t, m.SyncDir("/"))
	lock, err := m.Lock("/f")
	check(t, err)
	defer lock.Close()
	m.Before(func(op vfs.Op) {
		if op.Name != "/f" {
			t.Errorf("the hook was called for a clone: %+v", op)
		}
	})

	for what, clone := range map[string]*vfs.Mem{"crash": m.Crash(seeded(0)), "kill": m.Kill()} {
		t.Run(what, func(t *testing.T) {
			wantContent(t, clone, "/f", old)
			cl, err := clone.Lock("/f")
			check(t, err)
			check(t, cl.Close())
			cf := open(t, clone, "/f", os.O_RDWR)
			write(t, cf, "clone", page-2)
			write(t, f, "orig", 2*page-2)
			check(t, cf.Truncate(2*page))
			create(t, clone, "/only in the clone", "")
			wantContent(t, m, "/f", old[:2*page-2]+"orig"+old[2*page+2:])
			wantContent(t, clone, "/f", old[:page-2]+"clone"+old[page+3:2*page])
			wantNames(t, m, "/", "f")
			check(t, cf.Sync())
			wantContent(t, m.Crash(seeded(0)), "/f", old) // seed 0 keeps nothing unsynced of one write
			write(t, f, old, 0)
			check(t, f.Sync())
		})
	}
}

func TestKillKeepsWhatWasWritten(t *testing.T) {
	m := vfs.NewMem()
	create(t, m, "/synced", "synced")
	f := open(t, m, "/synced", os.O_RDWR)
	check(t, f.Sync())
	check(t, m.SyncDir("/"))
	write(t, f, "WRITTEN", 0)
	check(t, m.MkdirAll("/d/e", 0o755))
	create(t, m, "/d/e/new", "new")
	check(t, m.Rename("/d/e/new", "/new"))
	create(t, m, "/gone", "")
	check(t, m.Remove("/gone"))

	killed := m.Kill()
	if got, want := tree(t, killed, "/"), tree(t, m, "/"); got != want {
		t.Errorf("after a kill:\n%swant:\n%s", got, want)
	}
	// The kernel of the killed process still has to store it all: the next power failure takes what the first would have.
	before, after := make(map[string]bool), make(map[string]bool)
	crashes(m, 500, func(_ int, crashed *vfs.Mem) { before[tree(t, crashed, "/")] = true })
	crashes(killed, 500, func(_ int, crashed *vfs.Mem) { after[tree(t, crashed, "/")] = true })
	for left := range before {
		if !after[left] {
			t.Errorf("a crash of the original left this, one after a kill never did:\n%s", left)
		}
	}
	// And syncing it works as ever.
	kf := open(t, killed, "/synced", os.O_RDWR)
	check(t, errors.Join(kf.Sync(), killed.SyncDir("/"), killed.SyncDir("/d")))
	crashes(killed, 100, func(seed int, crashed *vfs.Mem) {
		wantContent(t, crashed, "/synced", "WRITTEN")
		wantNames(t, crashed, "/", "d", "new", "synced")
	})
}

func TestCrashAfterCrash(t *testing.T) {
	m := vfs.NewMem()
	create(t, m, "/f", "unsynced")
	crashes(m, 50, func(seed int, crashed *vfs.Mem) {
		want := tree(t, crashed, "/")
		if got := tree(t, crashed.Crash(seeded(seed+1)), "/"); got != want {
			t.Fatalf("what a crash left was lost by the next one: got\n%swant\n%s", got, want)
		}
	})

	crashed := m.Crash(seeded(0))
	check(t, touch(crashed, "/new"))
	lost := 0
	crashes(crashed, 50, func(_ int, again *vfs.Mem) {
		if _, err := again.Stat("/new"); err != nil {
			lost++
		}
	})
	if lost == 0 || lost == 50 {
		t.Errorf("a file created after a crash and not synced was lost by %d of 50 further crashes", lost)
	}
}

func TestLoseUnsynced(t *testing.T) {
	m := vfs.NewMem()
	f := open(t, m, "/f", os.O_RDWR|os.O_CREATE)
	check(t, m.SyncDir("/"))
	write(t, f, "synced", 0)
	check(t, f.Sync())
	write(t, f, " lost", 6)
	check(t, m.LoseUnsynced("/f"))
	wantContent(t, m, "/f", "synced lost")
	check(t, f.Sync())
	crashes(m, 50, func(_ int, crashed *vfs.Mem) { wantContent(t, crashed, "/f", "synced") })
	write(t, f, "more", 20<<10) // another page
	check(t, f.Sync())
	crashes(m, 50, func(_ int, crashed *vfs.Mem) {
		wantContent(t, crashed, "/f", "synced"+string(make([]byte, 20<<10-6))+"more")
	})
	wantErr(t, "LoseUnsynced of nothing", m.LoseUnsynced("/no"), fs.ErrNotExist)
}

func TestBefore(t *testing.T) {
	m := vfs.NewMem()
	var got []string
	m.Before(func(op vfs.Op) {
		got = append(got, fmt.Sprint(op.Kind, " ", op.Name, " ", op.To, " ", op.Off, " ", op.Len, " -> ", names(t, m, "/")))
	})
	check(t, m.MkdirAll("/d/e", 0o755))
	f := open(t, m, "/d/f", os.O_RDWR|os.O_CREATE)
	write(t, f, "12345", 10)
	_, err := f.ReadAt(make([]byte, 3), 0)
	check(t, err)
	check(t, errors.Join(f.Truncate(7), f.Sync(), f.Datasync(), f.Preallocate(0, 10)))
	open(t, m, "/d/f", os.O_RDONLY)
	open(t, m, "/d/f", os.O_RDWR|os.O_TRUNC)
	check(t, errors.Join(m.Rename("/d/f", "/g"), m.Remove("/g"), m.SyncDir("/d")))
	lock, err := m.Lock("/l")
	check(t, err)
	check(t, lock.Close())
	_, err = m.Stat("/")
	check(t, err)
	m.Before(nil)
	check(t, m.Remove("/l"))
	want := []string{
		"mkdir /d  0 0 -> ",
		"mkdir /d/e  0 0 -> /d/",
		"create /d/f  0 0 -> /d/ /d/e/",
		"write /d/f  10 5 -> /d/ /d/e/ /d/f",
		"truncate /d/f  7 0 -> /d/ /d/e/ /d/f",
		"sync /d/f  0 0 -> /d/ /d/e/ /d/f",
		"datasync /d/f  0 0 -> /d/ /d/e/ /d/f",
		"truncate /d/f  0 0 -> /d/ /d/e/ /d/f",
		"rename /d/f /g 0 0 -> /d/ /d/e/ /d/f",
		"remove /g  0 0 -> /d/ /d/e/ /g",
		"syncdir /d  0 0 -> /d/ /d/e/",
		"lock /l  0 0 -> /d/ /d/e/",
	}
	if !slices.Equal(got, want) {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// TestCrashWhileInUse crashes a file system that others write to; each of them finds no less than it had synced.
func TestCrashWhileInUse(t *testing.T) {
	m := vfs.NewMem()
	var wg sync.WaitGroup
	var mu sync.Mutex
	synced := make(map[string]int)
	for w := range 3 {
		name := fmt.Sprint("/w", w)
		f := open(t, m, name, os.O_RDWR|os.O_CREATE)
		check(t, m.SyncDir("/"))
		wg.Go(func() {
			for i := range 200 {
				if _, err := f.WriteAt(bytes.Repeat([]byte{byte('a' + w)}, 100), int64(i)*100); err != nil {
					t.Error(err)
				}
				if err := f.Datasync(); err != nil {
					t.Error(err)
				}
				mu.Lock()
				synced[name] = (i + 1) * 100
				mu.Unlock()
			}
		})
	}
	wg.Go(func() {
		for seed := range 100 {
			mu.Lock()
			least := map[string]int{}
			for name, n := range synced {
				least[name] = n
			}
			mu.Unlock()
			crashed := m.Crash(seeded(seed))
			for name, n := range least {
				content, err := vfs.ReadFile(crashed, name)
				if err != nil || len(content) < n || strings.Trim(string(content[:n]), string(content[:1])) != "" {
					t.Errorf("%s: %d bytes, %v, of %d synced", name, len(content), err, n)
				}
			}
		}
	})
	wg.Wait()
}
