package file

import (
	"errors"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/metaq-go/metaq/internal/vfs"
	"github.com/metaq-go/metaq/internal/vfs/faultfs"
)

func TestRotationBySize(t *testing.T) {
	fsys := vfs.NewMem()
	line := len(`{"id":1,"text":"text of row 1"}`) + 1
	s := open(t, Config[row]{FS: fsys, Prefix: "hits", MaxBytes: int64(3 * line)})
	for i := range 8 {
		must(t, s.Write(t.Context(), []row{rowOf(i)}))
	}
	names, _ := finished(t, fsys, ".jsonl")
	if len(names) != 2 { // each as soon as it was full
		t.Errorf("finished before Close: %v, want two files", names)
	}
	must(t, s.Write(t.Context(), []row{rowOf(8), rowOf(9)})) // 10 is too long for the third: 2 + 2
	must(t, s.Write(t.Context(), rowsOf(10, 15)))            // a batch is not divided
	if got, want := s.Stats(), (Stats{Rows: 15, Bytes: int64(10*line + 5*(line+2)), Files: 5}); got != want {
		t.Errorf("stats %+v, want %+v", got, want)
	}
	must(t, s.Close(t.Context()))
	must(t, s.Close(t.Context()))
	names, _ = finished(t, fsys, ".jsonl")
	var counts []int
	for _, n := range names {
		counts = append(counts, strings.Count(read(t, fsys, n), "\n"))
		if !strings.HasPrefix(n, "hits-2") || len(n) != len("hits-20251201T130405.000000007Z.jsonl") {
			t.Errorf("name %s", n)
		}
	}
	if want := []int{3, 3, 2, 2, 5}; !slices.Equal(counts, want) {
		t.Errorf("rows by file in the order of names: %v, want %v", counts, want)
	}
	if got := rowsIn(t, fsys); !slices.Equal(got, rowsOf(0, 15)) {
		t.Errorf("rows in the order of names: %v", got)
	}
	if all := list(t, fsys); len(all) != len(names)+1 { // the lock
		t.Errorf("left in the folder: %v", all)
	}
}

func TestRotationByAge(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fsys := vfs.NewMem()
		s := open(t, Config[row]{FS: fsys, MaxAge: time.Minute})
		count := func() int { names, _ := finished(t, fsys, ".jsonl"); return len(names) }
		time.Sleep(time.Hour) // no row, no file
		must(t, s.Write(t.Context(), rowsOf(0, 1)))
		time.Sleep(40 * time.Second)
		must(t, s.Write(t.Context(), rowsOf(1, 2)))
		time.Sleep(20*time.Second - 1)
		if n := count(); n != 0 {
			t.Errorf("%d files a nanosecond before the age", n)
		}
		time.Sleep(time.Nanosecond)
		synctest.Wait()
		if n := count(); n != 1 {
			t.Errorf("%d files at the age, with no row coming", n)
		}
		time.Sleep(time.Hour)
		must(t, s.Write(t.Context(), rowsOf(2, 3)))
		time.Sleep(time.Minute)
		synctest.Wait()
		if n := count(); n != 2 {
			t.Errorf("%d files, want 2", n)
		}
		must(t, s.Write(t.Context(), rowsOf(3, 4)))
		must(t, s.Close(t.Context()))
		time.Sleep(time.Hour)
		if got := rowsIn(t, fsys); !slices.Equal(got, rowsOf(0, 4)) {
			t.Errorf("rows %v", got)
		}
	})
}

func TestNoAge(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fsys := vfs.NewMem()
		s := open(t, Config[row]{FS: fsys, MaxAge: -1})
		must(t, s.Write(t.Context(), rowsOf(0, 1)))
		time.Sleep(1000 * time.Hour)
		if names, _ := finished(t, fsys, ".jsonl"); len(names) > 0 {
			t.Errorf("published by age: %v", names)
		}
		must(t, s.Close(t.Context()))
	})
}

// TestAgeCannotPublish has the timer meet a folder that refuses renames for a while: nothing is lost, and it is tried again
// without a Write.
func TestAgeCannotPublish(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fsys := vfs.NewMem()
		faults := faultfs.New(fsys)
		s := open(t, Config[row]{FS: faults, MaxAge: time.Minute})
		fault := faults.Add(faultfs.Rule{Op: vfs.OpRename, Err: syscall.EACCES})
		must(t, s.Write(t.Context(), rowsOf(0, 1)))
		time.Sleep(2 * time.Minute)
		if err := s.Write(t.Context(), rowsOf(1, 2)); !errors.Is(err, syscall.EACCES) || isPermanent(err) {
			t.Errorf("write while the full file can't be published: %v", err)
		}
		fault.Remove()
		time.Sleep(retry)
		synctest.Wait()
		if got := rowsIn(t, fsys); !slices.Equal(got, rowsOf(0, 1)) {
			t.Errorf("rows after the next try: %v", got)
		}
		must(t, s.Write(t.Context(), rowsOf(1, 2)))
		must(t, s.Close(t.Context()))
		if got := rowsIn(t, fsys); !slices.Equal(got, rowsOf(0, 2)) {
			t.Errorf("rows %v", got)
		}
	})
}

// TestNamesSortByWriting sets the clock back, and lets it stand still: in the bubble it does.
func TestNamesSortByWriting(t *testing.T) {
	fsys := vfs.NewMem()
	synctest.Test(t, func(t *testing.T) { // it is the year 2000
		later := filepath.Join("/out", names{"rows", ".jsonl"}.finished(time.Now().Add(time.Hour)))
		must(t, fsys.MkdirAll("/out", 0o755))
		must(t, vfs.WriteFileAtomic(fsys, later, []byte(`{"id":0,"text":"text of row 0"}`+"\n"), 0o644))
		s := open(t, Config[row]{FS: fsys, MaxBytes: 1})
		for i := range 5 {
			must(t, s.Write(t.Context(), rowsOf(i+1, i+2)))
		}
		must(t, s.Close(t.Context()))
		if got := rowsIn(t, fsys); !slices.Equal(got, rowsOf(0, 6)) {
			t.Errorf("rows in the order of names: %v", got)
		}
	})
}

// TestNothingIsReplaced finds files under the names it wants.
func TestNothingIsReplaced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fsys := vfs.NewMem()
		s := open(t, Config[row]{FS: fsys})
		n := names{"rows", ".jsonl"}
		foreign := []string{n.finished(time.Now()), n.finished(time.Now().Add(1)), n.part(time.Now().Add(2))}
		must(t, s.Write(t.Context(), rowsOf(0, 1)))
		for _, f := range foreign {
			must(t, vfs.WriteFileAtomic(fsys, filepath.Join("/out", f), []byte("theirs\n"), 0o644))
		}
		must(t, s.Close(t.Context()))
		for _, f := range foreign {
			if got := read(t, fsys, f); got != "theirs\n" {
				t.Errorf("%s is now %q", f, got)
			}
		}
		if got := read(t, fsys, n.finished(time.Now().Add(2))); got != `{"id":0,"text":"text of row 0"}`+"\n" {
			t.Errorf("published %q", got)
		}
	})
}

// TestReaderIsQuick takes a finished file away before its name was durable.
func TestReaderIsQuick(t *testing.T) {
	fsys := vfs.NewMem()
	faults := faultfs.New(fsys)
	s := open(t, Config[row]{FS: faults, MaxBytes: 1})
	faults.Add(faultfs.Rule{Op: vfs.OpSyncDir, After: 1, Times: 1, Err: syscall.EIO}) // the first is for the unfinished file's name
	must(t, s.Write(t.Context(), rowsOf(0, 1)))
	names, _ := finished(t, fsys, ".jsonl")
	if len(names) != 1 || s.Stats().Files != 0 {
		t.Fatalf("finished: %v, stats %+v", names, s.Stats())
	}
	must(t, fsys.Remove(filepath.Join("/out", names[0])))
	must(t, s.Write(t.Context(), rowsOf(1, 2)))
	must(t, s.Close(t.Context()))
	if got := rowsIn(t, fsys); !slices.Equal(got, rowsOf(1, 2)) {
		t.Errorf("rows %v", got)
	}
}
