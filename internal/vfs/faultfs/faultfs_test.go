package faultfs_test

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"slices"
	"sync"
	"syscall"
	"testing"

	"github.com/metaq-go/metaq/internal/vfs"
	"github.com/metaq-go/metaq/internal/vfs/faultfs"
)

var errInjected = errors.New("injected")

func check(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func wantContent(t testing.TB, fsys vfs.FS, name, want string) {
	t.Helper()
	got, err := vfs.ReadFile(fsys, name)
	if err != nil || string(got) != want {
		t.Errorf("content of %s: got %q, %v, want %q", name, got, err, want)
	}
}

func TestDoneReportsTheRealError(t *testing.T) {
	fsys, _, _ := fixture(t)
	fsys.Add(faultfs.Rule{Op: vfs.OpRemove, Err: errInjected, Done: true})
	if err := fsys.Remove("/no"); !errors.Is(err, fs.ErrNotExist) || errors.Is(err, errInjected) {
		t.Errorf("got error %v, want the call's own", err)
	}
}

// TestLockReleasedAfterFault holds that a lock that was taken but not handed out is not held.
func TestLockReleasedAfterFault(t *testing.T) {
	fsys, _, _ := fixture(t)
	fsys.Add(faultfs.Rule{Op: vfs.OpLock, Times: 1, Err: errInjected, Done: true})
	if _, err := fsys.Lock("/lock"); !errors.Is(err, errInjected) {
		t.Fatalf("got error %v, want the injected one", err)
	}
	lock, err := fsys.Lock("/lock")
	check(t, err)
	check(t, lock.Close())
}

// TestFileClosedAfterFault holds the same for a file that was opened but not handed out.
func TestFileClosedAfterFault(t *testing.T) {
	counting := faultfs.New(vfs.NewMem())
	fsys := faultfs.New(counting)
	fsys.Add(faultfs.Rule{Op: vfs.OpCreate, Err: errInjected, Done: true})
	if err := vfs.WriteFileAtomic(fsys, "/f", nil, 0o644); !errors.Is(err, errInjected) {
		t.Errorf("got error %v, want the injected one", err)
	}
	if opened, closed := counting.Count(vfs.OpCreate), counting.Count(vfs.OpClose); opened != 1 || closed != 1 {
		t.Errorf("%d files opened, %d closed, want 1 of each", opened, closed)
	}
}

func TestAfterAndTimes(t *testing.T) {
	tests := []struct {
		after, times int
		fails        []int // of ten calls
	}{
		{0, 0, []int{0, 1, 2, 3, 4, 5, 6, 7, 8, 9}},
		{0, 1, []int{0}},
		{3, 1, []int{3}},
		{3, 2, []int{3, 4}},
		{7, 0, []int{7, 8, 9}},
		{10, 0, nil},
	}
	for _, tt := range tests {
		t.Run(fmt.Sprint(tt.after, tt.times), func(t *testing.T) {
			fsys, _, f := fixture(t)
			check(t, f.Sync()) // made before the rule, does not count
			fault := fsys.Add(faultfs.Rule{Op: vfs.OpSync, After: tt.after, Times: tt.times, Err: errInjected})
			var fails []int
			for i := range 10 {
				check(t, f.Datasync())
				if f.Sync() != nil {
					fails = append(fails, i)
				}
			}
			if !slices.Equal(fails, tt.fails) || fault.Acted() != len(fails) {
				t.Errorf("calls %v failed, want %v; acted %d times", fails, tt.fails, fault.Acted())
			}
			fault.Remove()
			check(t, f.Sync())
			if got := fsys.Count(vfs.OpSync); got != 12 {
				t.Errorf("counted %d syncs, want 12", got)
			}
		})
	}
}

func TestPath(t *testing.T) {
	tests := []struct {
		pattern string
		matches []string // of the names below
	}{
		{"", []string{"/a.log", "/d/b.log", "/d/c"}},
		{"*.log", []string{"/a.log", "/d/b.log"}},
		{"c", []string{"/d/c"}},
		{"/d/*", []string{"/d/b.log", "/d/c"}},
		{"/*.log", []string{"/a.log"}},
		{"d", nil},
	}
	for _, tt := range tests {
		t.Run(tt.pattern, func(t *testing.T) {
			fsys, _, _ := fixture(t)
			fsys.Add(faultfs.Rule{Path: tt.pattern, Err: errInjected})
			var matches []string
			for _, name := range []string{"/a.log", "/d/b.log", "/d/c"} {
				if _, err := fsys.Stat(name); errors.Is(err, errInjected) {
					matches = append(matches, name)
				}
			}
			if !slices.Equal(matches, tt.matches) {
				t.Errorf("matched %v, want %v", matches, tt.matches)
			}
		})
	}

	fsys, _, f := fixture(t)
	fsys.Add(faultfs.Rule{Op: vfs.OpRename, Path: "new", Err: errInjected})
	if err := fsys.Rename("/f", "/d/new"); !errors.Is(err, errInjected) {
		t.Errorf("rename to a name that matches: got error %v", err)
	}
	check(t, fsys.Rename("/f", "/new2"))
	fsys.Add(faultfs.Rule{Op: vfs.OpSync, Path: "f", Err: errInjected})
	if err := f.Sync(); !errors.Is(err, errInjected) {
		t.Errorf("sync of a file by the name it was opened with: got error %v", err)
	}

	defer func() {
		if recover() == nil {
			t.Error("a malformed pattern was taken")
		}
	}()
	fsys.Add(faultfs.Rule{Path: "[", Err: errInjected})
}

// TestDiskBecomesFull: the first write is cut short, the next ones write nothing, until there is room again.
func TestDiskBecomesFull(t *testing.T) {
	fsys, m, f := fixture(t)
	fault := fsys.Add(faultfs.Rule{Op: vfs.OpWrite, After: 1, Partial: 2, Err: syscall.ENOSPC})
	steps := []struct {
		n   int
		err error
	}{{4, nil}, {2, syscall.ENOSPC}, {0, syscall.ENOSPC}}
	off := int64(7)
	for i, want := range steps {
		n, err := f.WriteAt([]byte("abcd"), off)
		if n != want.n || !errors.Is(err, want.err) {
			t.Errorf("write %d: got %d, %v, want %d, %v", i, n, err, want.n, want.err)
		}
		off += int64(n)
	}
	fault.Remove()
	if n, err := f.WriteAt([]byte("WXYZ"), off); n != 4 || err != nil {
		t.Errorf("write after removing the rule: got %d, %v", n, err)
	}
	wantContent(t, m, "/f", "contentabcdabWXYZ")
}

func TestPartial(t *testing.T) {
	tests := []struct {
		partial int
		err     error
		n       int
		want    error
	}{
		{2, nil, 2, io.ErrShortWrite},
		{2, errInjected, 2, errInjected},
		{4, errInjected, 4, errInjected},
		{100, errInjected, 4, errInjected},
	}
	for _, tt := range tests {
		fsys, m, f := fixture(t)
		fsys.Add(faultfs.Rule{Op: vfs.OpWrite, Partial: tt.partial, Err: tt.err})
		n, err := f.WriteAt([]byte("ABCD"), 0)
		if n != tt.n || !errors.Is(err, tt.want) {
			t.Errorf("partial %d: got %d, %v, want %d, %v", tt.partial, n, err, tt.n, tt.want)
		}
		wantContent(t, m, "/f", "ABCD"[:tt.n]+"content"[tt.n:])
	}
}

func TestBefore(t *testing.T) {
	fsys, _, f := fixture(t)
	var got []vfs.Op
	note := func(op vfs.Op) { got = append(got, op) }
	fsys.Add(faultfs.Rule{Before: note}) // without an error it only looks on
	_, err := f.ReadAt(make([]byte, 3), 1)
	check(t, err)
	_, err = f.WriteAt(make([]byte, 4), 2)
	check(t, err)
	check(t, errors.Join(f.Truncate(5), f.Preallocate(6, 7), fsys.Rename("/f", "/g")))
	want := []vfs.Op{
		{Kind: vfs.OpRead, Name: "/f", Off: 1, Len: 3},
		{Kind: vfs.OpWrite, Name: "/f", Off: 2, Len: 4},
		{Kind: vfs.OpTruncate, Name: "/f", Off: 5},
		{Kind: vfs.OpPreallocate, Name: "/f", Off: 6, Len: 7},
		{Kind: vfs.OpRename, Name: "/f", To: "/g"},
	}
	if !slices.Equal(got, want) {
		t.Errorf("got\n%+v, want\n%+v", got, want)
	}
}

// TestSeveralRules: all that act are asked, the first error counts.
func TestSeveralRules(t *testing.T) {
	fsys, _, f := fixture(t)
	var order []int
	var faults []*faultfs.Fault
	for i, err := range []error{nil, errInjected, io.ErrUnexpectedEOF} {
		faults = append(faults, fsys.Add(faultfs.Rule{Op: vfs.OpSync, Times: 1, Err: err, Before: func(vfs.Op) { order = append(order, i) }}))
	}
	if err := f.Sync(); !errors.Is(err, errInjected) {
		t.Errorf("got error %v, want the first rule's", err)
	}
	if want := []int{0, 1, 2}; !slices.Equal(order, want) {
		t.Errorf("asked in order %v, want %v", order, want)
	}
	for i, fault := range faults {
		if fault.Acted() != 1 {
			t.Errorf("rule %d acted %d times, want 1", i, fault.Acted())
		}
	}
	check(t, f.Sync())
}

// TestSlowSync lets a sync wait while another goroutine goes on writing.
func TestSlowSync(t *testing.T) {
	fsys, m, f := fixture(t)
	started, release := make(chan struct{}), make(chan struct{})
	fsys.Add(faultfs.Rule{Op: vfs.OpDatasync, Times: 1, Before: func(vfs.Op) {
		close(started)
		<-release
	}})
	var wg sync.WaitGroup
	wg.Go(func() {
		if err := f.Datasync(); err != nil {
			t.Error(err)
		}
	})
	<-started
	_, err := f.WriteAt([]byte("during"), 0)
	check(t, err)
	check(t, f.Sync()) // another sync is not held up
	close(release)
	wg.Wait()
	wantContent(t, m, "/f", "duringt")
}

func TestConcurrentUse(t *testing.T) {
	fsys, _, f := fixture(t)
	const goroutines, writes = 4, 200
	fault := fsys.Add(faultfs.Rule{Op: vfs.OpWrite, After: 100, Times: 50, Err: errInjected})
	var failed sync.Map
	var wg sync.WaitGroup
	for g := range goroutines {
		wg.Go(func() {
			for i := range writes {
				if _, err := f.WriteAt([]byte("x"), int64(i)); err != nil {
					failed.Store([2]int{g, i}, true)
				}
				added := fsys.Add(faultfs.Rule{Op: vfs.OpSync, Before: func(vfs.Op) {}})
				if err := f.Sync(); err != nil {
					t.Error(err)
				}
				added.Remove()
			}
		})
	}
	wg.Wait()
	n := 0
	failed.Range(func(_, _ any) bool { n++; return true })
	if n != 50 || fault.Acted() != 50 || fsys.Count(vfs.OpWrite) != goroutines*writes {
		t.Errorf("%d writes failed, the rule acted %d times, %d writes counted", n, fault.Acted(), fsys.Count(vfs.OpWrite))
	}
}
