package faultfs_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"syscall"
	"testing"

	"github.com/metaq-go/metaq/internal/vfs"
	"github.com/metaq-go/metaq/internal/vfs/faultfs"
)

// TestWriteFileAtomicWithEveryCallFailing lets each call fail in turn, without and with effect, and a write fall short:
// the old content stays and no temporary file does, but for a failure of the last step; a crash leaves the old or the new
// content; and the next try succeeds.
func TestWriteFileAtomicWithEveryCallFailing(t *testing.T) {
	for _, rule := range []faultfs.Rule{
		{Err: syscall.EIO},
		{Err: syscall.EIO, Done: true},
		{Err: syscall.ENOSPC, Partial: 2},
	} {
		failures := 0
		for n := 0; ; n++ {
			m := vfs.NewMem()
			check(t, vfs.WriteFileAtomic(m, "/state", []byte("old"), 0o644))
			fsys := faultfs.New(m)
			var failing vfs.Op
			rule.After, rule.Times, rule.Before = n, 1, func(op vfs.Op) { failing = op }
			fault := fsys.Add(rule)
			err := vfs.WriteFileAtomic(fsys, "/state", []byte("new, longer"), 0o644)
			if fault.Acted() == 0 {
				check(t, err)
				break
			}
			failures++
			what := fmt.Sprintf("call %d, %s fails with %v, partial %d, done %t", n, failing.Kind, rule.Err, rule.Partial, rule.Done)
			if !errors.Is(err, rule.Err) {
				t.Errorf("%s: got error %v", what, err)
			}
			want := "old"
			if failing.Kind == vfs.OpSyncDir || failing.Kind == vfs.OpRename && rule.Done {
				want = "new, longer"
			}
			if got := content(m, "/state"); got != want {
				t.Errorf("%s: got %q, want %q", what, got, want)
			}
			if entries, err := m.ReadDir("/"); err != nil || len(entries) != 1 {
				t.Errorf("%s: left %v, %v", what, entries, err)
			}
			for seed := range 50 {
				crashed := m.Crash(rand.New(rand.NewPCG(uint64(seed), 0)))
				if got := content(crashed, "/state"); got != "old" && got != want {
					t.Errorf("%s, then a crash: got %q", what, got)
				}
			}
			check(t, vfs.WriteFileAtomic(fsys, "/state", []byte("newer"), 0o644))
			wantContent(t, m, "/state", "newer")
		}
		if failures < 6 { // create, write, sync, close, rename, syncdir
			t.Errorf("only %d calls failed", failures)
		}
	}
}

// TestTemporaryFileThatStays: if it can't be removed either, the error tells both, and the next try overwrites it.
func TestTemporaryFileThatStays(t *testing.T) {
	m := vfs.NewMem()
	fsys := faultfs.New(m)
	fsys.Add(faultfs.Rule{Op: vfs.OpSync, Times: 1, Err: syscall.EIO})
	fsys.Add(faultfs.Rule{Op: vfs.OpRemove, Times: 1, Err: syscall.EROFS})
	err := vfs.WriteFileAtomic(fsys, "/state", []byte("longer content"), 0o644)
	if !errors.Is(err, syscall.EIO) || !errors.Is(err, syscall.EROFS) {
		t.Errorf("got error %v, want both", err)
	}
	check(t, vfs.WriteFileAtomic(fsys, "/state", []byte("content"), 0o644))
	wantContent(t, m, "/state", "content")
}

// TestMkdirAllSyncWithEveryCallFailing: after an error the next try makes what is missing, durably.
func TestMkdirAllSyncWithEveryCallFailing(t *testing.T) {
	for n := 0; ; n++ {
		m := vfs.NewMem()
		fsys := faultfs.New(m)
		fault := fsys.Add(faultfs.Rule{After: n, Times: 1, Err: syscall.EIO})
		err := vfs.MkdirAllSync(fsys, "/a/b", 0o755)
		if fault.Acted() == 0 {
			if n < 6 {
				t.Errorf("only %d calls", n)
			}
			break
		}
		if !errors.Is(err, syscall.EIO) {
			t.Errorf("call %d fails: got error %v", n, err)
		}
		check(t, vfs.MkdirAllSync(fsys, "/a/b", 0o755))
		for seed := range 20 {
			if !exists(m.Crash(rand.New(rand.NewPCG(uint64(seed), 0))), "/a/b") {
				t.Errorf("call %d fails, tried again, then a crash: the directory is gone", n)
			}
		}
	}
}

// TestMkdirAllSyncInAFolderThatMayNotBeRead: syncing the parent of a folder that somebody else made may be forbidden.
func TestMkdirAllSyncInAFolderThatMayNotBeRead(t *testing.T) {
	m := vfs.NewMem()
	check(t, m.MkdirAll("/var/data", 0o755))
	fsys := faultfs.New(m)
	fsys.Add(faultfs.Rule{Op: vfs.OpSyncDir, Path: "/var", Err: syscall.EACCES})
	check(t, vfs.MkdirAllSync(fsys, "/var/data", 0o755))
	check(t, vfs.MkdirAllSync(fsys, "/var/data/ours", 0o755))
	if err := vfs.MkdirAllSync(fsys, "/var/other", 0o755); !errors.Is(err, syscall.EACCES) {
		t.Errorf("a new folder whose name can't be made durable: got error %v, want %v", err, syscall.EACCES)
	}
}

// TestReadFileWithEveryCallFailing: it never returns an error with content, nor leaves the file open.
func TestReadFileWithEveryCallFailing(t *testing.T) {
	for n := 0; ; n++ {
		fsys, _, _ := fixture(t)
		opened := fsys.Count(vfs.OpOpen)
		fault := fsys.Add(faultfs.Rule{After: n, Times: 1, Err: syscall.EIO})
		_, err := vfs.ReadFile(fsys, "/f")
		if fault.Acted() == 0 {
			if n != 4 { // open, size, read, close
				t.Errorf("%d calls, want 4", n)
			}
			break
		}
		if !errors.Is(err, syscall.EIO) {
			t.Errorf("call %d fails: got error %v", n, err)
		}
		if n > 0 && fsys.Count(vfs.OpClose) != fsys.Count(vfs.OpOpen)-opened {
			t.Errorf("call %d fails: %d files opened, %d closed", n, fsys.Count(vfs.OpOpen)-opened, fsys.Count(vfs.OpClose))
		}
	}
}

// TestFailedSyncLosesData plays what Linux does when a disk fails: the sync reports it once, the next one succeeds, and the data
// is not there.
func TestFailedSyncLosesData(t *testing.T) {
	fsys, m, f := fixture(t)
	fsys.Add(faultfs.Rule{Op: vfs.OpSync, Times: 1, Err: syscall.EIO, Before: func(op vfs.Op) {
		if err := m.LoseUnsynced(op.Name); err != nil {
			t.Error(err)
		}
	}})
	_, err := f.WriteAt([]byte(" lost"), 7)
	check(t, err)
	if err := f.Sync(); !errors.Is(err, syscall.EIO) {
		t.Errorf("got error %v, want %v", err, syscall.EIO)
	}
	check(t, f.Sync())
	wantContent(t, m, "/f", "content lost")
	wantContent(t, m.Crash(rand.New(rand.NewPCG(0, 0))), "/f", "content")
}
