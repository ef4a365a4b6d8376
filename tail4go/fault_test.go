package tail4go

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/metaq-go/metaq/internal/vfs"
)

// fullDisk refuses to create files while it is full.
type fullDisk struct {
	vfs.FS
	mu   sync.Mutex
	full bool
}

func (d *fullDisk) set(full bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.full = full
}

var errFull = errors.New("disk is full")

func (d *fullDisk) OpenFile(name string, flag int, perm os.FileMode) (vfs.File, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.full && flag&os.O_CREATE != 0 {
		return nil, errFull
	}
	return d.FS.OpenFile(name, flag, perm)
}

// TestStateDiskFull: lines go on being sent, positions are stored as soon as there is room.
func TestStateDiskFull(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, "*.log")
		disk := &fullDisk{FS: vfs.OS()}
		b.cfg.fs = disk
		var log logBuffer
		b.cfg.Logger = slog.New(slog.NewTextHandler(&log, nil))
		r := newRecorder(nil)
		b.start(r)
		b.write("a.log", "1\n")
		wait(5 * time.Second)
		disk.set(true)
		b.write("a.log", "2\n")
		wait(5 * time.Second)
		wantLines(t, r.lines(), "1", "2")
		if s := b.agent.Stats(); s.SaveErrors == 0 || log.count("can't be stored") != 1 {
			t.Errorf("%d errors were counted, %d logged, want some and one", s.SaveErrors, log.count("can't be stored"))
		}
		disk.set(false)
		wait(5 * time.Second)
		if e := b.stored(); len(e) != 1 || e[0].Pos != 4 {
			t.Errorf("stored is %+v, want position 4", e)
		}
		disk.set(true)
		b.write("a.log", "3\n")
		wait(5 * time.Second)
		if err := b.stop(); !errors.Is(err, errFull) {
			t.Errorf("stopping gave %v, want %v", err, errFull)
		}
	})
}

// TestVanished: a file that is gone, or another one, between the look at its name and its opening is no error.
func TestVanished(t *testing.T) {
	b := newBench(t, "*.log")
	in := newInput(b.cfg.Inputs[0].withDefaults(), mustDefaults(t, b.cfg), newRecorder(nil), new(counters), nil)
	b.write("a.log", "1\n")
	s, err := sightingOf(b.path("a.log"))
	if err != nil {
		t.Fatal(err)
	}
	b.write("b.log", "2\n")
	b.rename("b.log", "a.log")
	if _, err := in.meet(s); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("another file: got %v, want %v", err, os.ErrNotExist)
	}
	b.remove("a.log")
	if _, err := in.meet(s); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("no file: got %v, want %v", err, os.ErrNotExist)
	}
	if err := os.Mkdir(b.path("a.log"), 0o755); err != nil {
		t.Fatal(err)
	}
	if _, err := in.meet(s); !errors.Is(err, errNotRegular) {
		t.Errorf("a folder: got %v, want %v", err, errNotRegular)
	}
}

// TestFilesComeAndGo scans while names change as fast as they can.
func TestFilesComeAndGo(t *testing.T) {
	b := newBench(t, "*.log")
	var log logBuffer
	b.cfg.Logger = slog.New(slog.NewTextHandler(&log, nil))
	b.cfg.ScanInterval, b.cfg.PollInterval = time.Millisecond, time.Millisecond
	b.start(newRecorder(nil))
	for i := range 2000 {
		name := fmt.Sprintf("%d.log", i%7)
		b.write(name, "line\n")
		if i%3 == 0 {
			b.rename(name, fmt.Sprintf("%d.log", 10+i%5))
		} else {
			b.remove(name)
		}
	}
	if err := b.stop(); err != nil {
		t.Error(err)
	}
	if log.count("level=ERROR")+log.count("level=WARN") > 0 {
		t.Errorf("there were complaints:\n%s", log.b.String())
	}
}

// TestPermission: a file that may not be read is tried again at each scan. As root nothing is forbidden, so the test runs
// itself as somebody else then.
func TestPermission(t *testing.T) {
	if os.Getuid() == 0 {
		runAsNobody(t)
		return
	}
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, "*.log", "sub/*.log")
		chmod := func(name string, mode os.FileMode) {
			if err := os.Chmod(b.path(name), mode); err != nil {
				t.Fatal(err)
			}
		}
		if err := os.Mkdir(b.path("sub"), 0o755); err != nil {
			t.Fatal(err)
		}
		b.write("a.log", "1\n")
		b.write("sub/b.log", "2\nhalf")
		chmod("a.log", 0)
		var log logBuffer
		b.cfg.Logger = slog.New(slog.NewTextHandler(&log, nil))
		r := newRecorder(nil)
		b.start(r)
		wait(10 * time.Second)
		wantLines(t, r.lines(), "2")
		if s := b.agent.Stats(); len(s.Unreadable) != 1 || !strings.Contains(s.Unreadable[0], "a.log: ") {
			t.Errorf("unreadable: %q, want a.log with the cause", s.Unreadable)
		}
		if n := log.count("can't be read", filepath.Base("a.log")); n != 1 {
			t.Errorf("said %d times that the file can't be read, want once", n)
		}
		chmod("a.log", 0o600)
		chmod("sub", 0)
		wait(10 * time.Second)
		wantLines(t, r.lines(), "2", "1") // and the half line is held back: its file is where it was
		chmod("sub", 0o755)
		b.write("sub/b.log", " line\n")
		wait(10 * time.Second)
		wantLines(t, r.lines(), "2", "1", "half line")
		if s := b.agent.Stats(); len(s.Unreadable) != 0 || s.Rotated != 0 {
			t.Errorf("afterwards: %+v", s)
		}
	})
}
