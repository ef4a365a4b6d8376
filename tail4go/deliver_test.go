package tail4go

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/metaq-go/metaq/client"
	"github.com/metaq-go/metaq/internal/vfs"
)

// logBuffer keeps what is logged.
type logBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *logBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

// count returns how many lines hold all of the words.
func (l *logBuffer) count(words ...string) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	n := 0
	for line := range strings.Lines(l.b.String()) {
		if !slices.ContainsFunc(words, func(w string) bool { return !strings.Contains(line, w) }) {
			n++
		}
	}
	return n
}

// TestBrokerAway: while nothing can be sent the agent waits, says so, and goes on by itself.
func TestBrokerAway(t *testing.T) {
	for name, away := range map[string]outcome{
		"answers fail":    {after: time.Second, err: client.ErrTimeout, lost: true},
		"sends fail":      {err: errNotTaken},
		"nothing comes":   {after: 20 * time.Minute},
		"answers at once": {err: errSend, lost: true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := newBench(t, "*.log")
				var log logBuffer
				b.cfg.Logger = slog.New(slog.NewTextHandler(&log, nil))
				start := time.Now()
				var sent atomic.Int64
				r := newRecorder(func(*client.Message) outcome {
					sent.Add(1)
					if time.Since(start) < 10*time.Minute {
						return away
					}
					return outcome{after: time.Millisecond}
				})
				r.limit = 5
				w := newWriter(b, "app.log")
				for range 100 {
					w.line()
				}
				b.start(r)
				wait(9 * time.Minute)
				s := b.agent.Stats()
				if s.Lag != 1200 || s.Acked != 0 {
					t.Errorf("got lag %d, acknowledged %d, want 1200 and 0", s.Lag, s.Acked)
				}
				if (s.LastFailure != "") != (away.err != nil) {
					t.Errorf("last failure is %q", s.LastFailure)
				}
				if n := log.count("lines wait", "wait_bytes=1200"); n < 8 || n > 10 {
					t.Errorf("said %d times in 9 minutes that bytes wait, want once a minute", n)
				}
				if n := sent.Load(); n > 1000 {
					t.Errorf("%d tries in 9 minutes, want fewer", n)
				}
				wait(30 * time.Minute)
				if s := b.agent.Stats(); s.Lag != 0 || s.LastFailure != "" {
					t.Errorf("afterwards: %+v", s)
				}
				if log.count("acknowledged again") != 1 {
					t.Errorf("did not say once that all is well again:\n%s", log.b.String())
				}
				wantLines(t, r.lines(), w.want...)
				if r.most > r.limit {
					t.Errorf("%d messages were on their way, at most %d are allowed", r.most, r.limit)
				}
			})
		})
	}
}

// TestFailuresKeepOrder: where each send fails at random and later ones wait for it, nothing is lost, doubled or out of order.
func TestFailuresKeepOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, "*.log")
		failing := false
		n := 0
		r := newRecorder(func(*client.Message) outcome {
			// As a broker that goes away: from some line on all fail, until it comes back.
			n++
			if n%97 == 0 {
				failing = true
			} else if n%97 == 30 {
				failing = false
			}
			if failing {
				return outcome{after: time.Millisecond, err: errSend, lost: true}
			}
			return outcome{after: time.Millisecond}
		})
		r.limit = 20
		w := newWriter(b, "app.log")
		for range 1000 {
			w.line()
		}
		b.start(r)
		wait(10 * time.Minute)
		got := r.lines()
		slices.Sort(got)
		wantLines(t, got, w.want...)
	})
}

// TestPositionWaitsForFirst: what is stored never passes a line that is not acknowledged (case C09).
func TestPositionWaitsForFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, "*.log")
		r := newRecorder(func(m *client.Message) outcome {
			if string(m.Payload) == "two" {
				return outcome{after: time.Hour}
			}
			return outcome{}
		})
		b.write("app.log", "one\ntwo\nthree\n")
		b.start(r)
		wait(time.Minute)
		if e := b.stored(); len(e) != 1 || e[0].Pos != 4 {
			t.Errorf("stored is %+v, want position 4", e)
		}
		wait(2 * time.Hour)
		if e := b.stored(); len(e) != 1 || e[0].Pos != 14 {
			t.Errorf("stored is %+v, want position 14", e)
		}
	})
}

func TestStopWaits(t *testing.T) {
	for _, tt := range []struct {
		name  string
		takes time.Duration
		stops time.Duration
		pos   int64
	}{
		{"for what is on its way", 3 * time.Second, 3 * time.Second, 4},
		{"not for ever", time.Hour, 10 * time.Second, 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := newBench(t, "*.log")
				r := newRecorder(func(*client.Message) outcome { return outcome{after: tt.takes} })
				b.write("app.log", "one\n")
				b.start(r)
				synctest.Wait()
				start := time.Now()
				if err := b.stop(); err != nil {
					t.Error(err)
				}
				if took := time.Since(start).Round(time.Second); took != tt.stops {
					t.Errorf("stopping took %v, want %v", took, tt.stops)
				}
				if e := b.stored(); len(e) != 1 || e[0].Pos != tt.pos {
					t.Errorf("stored is %+v, want position %d", e, tt.pos)
				}
				wait(time.Hour)
			})
		})
	}
}

func TestSenderClosed(t *testing.T) {
	for name, o := range map[string]outcome{
		"while sending": {err: fmt.Errorf("%w: %w", errNotTaken, client.ErrClosed)},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := newBench(t, "*.log")
				b.write("app.log", "one\n")
				agent, err := Open(b.cfg, newRecorder(func(*client.Message) outcome { return o }))
				if err != nil {
					t.Fatal(err)
				}
				if err := agent.Run(t.Context()); !errors.Is(err, client.ErrClosed) {
					t.Errorf("got %v, want %v", err, client.ErrClosed)
				}
				if err := agent.Close(); err != nil {
					t.Error(err)
				}
			})
		})
	}
}

// TestRenamedWhileAway: a file that was renamed while no agent ran is finished first, found beside its old name, and files
// that were read to their end are not read again.
func TestRenamedWhileAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, "app.log")
		r := newRecorder(nil)
		b.write("app.log", "1\n2\n")
		b.run(r)
		b.write("app.log", "3\n4") // no end
		b.rename("app.log", "app-old.txt")
		b.write("app.log", "5\n")
		b.run(r)
		wantLines(t, r.lines(), "1", "2", "3", "4", "5")
		b.cfg.Inputs[0].Patterns = append(b.cfg.Inputs[0].Patterns, b.path("*"))
		b.run(r)
		wantLines(t, r.lines(), "1", "2", "3", "4", "5")
		if a := r.records()[3]; a.Path != b.path("app.log") || a.key != r.records()[4].key {
			t.Errorf("the old file's line came as of %s, want the name it had", a.Path)
		}
	})
}

// TestGoneWhileAway: bytes that vanished before they were read are told of.
func TestGoneWhileAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, "*.log")
		r := newRecorder(func(m *client.Message) outcome { return outcome{after: time.Hour} })
		b.write("app.log", "one\n")
		b.start(r)
		wait(5 * time.Second)
		if err := b.stop(); err != nil {
			t.Fatal(err)
		}
		b.remove("app.log")
		var log logBuffer
		b.cfg.Logger = slog.New(slog.NewTextHandler(&log, nil))
		b.run(newRecorder(nil))
		if s := b.agent.Stats(); s.Lost != 4 || log.count("gone", "unsent_bytes=4") != 1 {
			t.Errorf("lost is %d, want 4, and to be told", s.Lost)
		}
		b.run(newRecorder(nil))
		if s := b.agent.Stats(); s.Lost != 0 {
			t.Errorf("told again at the next start: %d", s.Lost)
		}
		wait(2 * time.Hour)
	})
}

// TestRestored: a folder that was copied back, or whose device has another number, holds the same files.
func TestRestored(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, "*.log")
		r := newRecorder(nil)
		b.write("a.log", "1\n2\n")
		b.run(r)
		text, err := os.ReadFile(b.path("a.log"))
		if err != nil {
			t.Fatal(err)
		}
		b.write("copy", string(text)+"3\n")
		b.rename("copy", "a.log")
		b.run(r)
		wantLines(t, r.lines(), "1", "2", "3")
	})
}

// TestOtherInputs: what the state says of inputs that are not configured is kept.
func TestOtherInputs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, "*.log")
		r := newRecorder(nil)
		b.write("a.log", "1\n")
		b.run(r)
		first := b.cfg.Inputs[0]
		second := Input{Name: "second", Topic: "t", Patterns: first.Patterns}
		b.cfg.Inputs = []Input{second}
		b.run(r)
		wantLines(t, r.lines(), "1", "1")
		b.cfg.Inputs = []Input{second, first}
		b.run(r)
		wantLines(t, r.lines(), "1", "1")
	})
}

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
