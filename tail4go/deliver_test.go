package tail4go

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/metaq-go/metaq/client"
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
			switch n++; n % 97 {
			case 0:
				failing = true
			case 30:
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
