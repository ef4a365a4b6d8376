package tail4go

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/metaq-go/metaq/client"
)

// writer writes numbered lines through an open handle, as programs do.
type writer struct {
	b    *bench
	f    *os.File
	want []string // all lines, in order
}

func newWriter(b *bench, name string) *writer {
	w := &writer{b: b}
	w.open(name)
	return w
}

func (w *writer) open(name string) {
	w.b.t.Helper()
	f, err := os.OpenFile(w.b.path(name), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	if err != nil {
		w.b.t.Fatal(err)
	}
	w.f = f
	w.b.t.Cleanup(func() { f.Close() })
}

func (w *writer) line() {
	w.b.t.Helper()
	l := fmt.Sprintf("line %06d", len(w.want))
	w.want = append(w.want, l)
	if _, err := w.f.WriteString(l + "\n"); err != nil {
		w.b.t.Fatal(err)
	}
}

// late answers after some milliseconds, later messages sometimes before earlier ones.
func late(m *client.Message) outcome {
	return outcome{after: time.Duration(1+m.Tag*7919%37) * time.Millisecond}
}

// TestRenameUnderLoad renames the log away while it is written, and lets the writer go on with the old file for a while,
// as one does that waits for a signal. Rotated names match no pattern. All lines come, in their order.
func TestRenameUnderLoad(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, "app.log")
		r := newRecorder(late)
		w := newWriter(b, "app.log")
		b.start(r)
		for i := range 20 {
			for range 300 {
				w.line()
				wait(5 * time.Millisecond)
			}
			b.rename("app.log", fmt.Sprintf("old.%d", i))
			for range 100 {
				w.line()
				wait(5 * time.Millisecond)
			}
			w.f.Close()
			w.open("app.log")
		}
		wait(10 * time.Second)
		wantLines(t, r.lines(), w.want...)
		if s := b.agent.Stats(); s.Open != 1 || s.Rotated != 20 || s.Lag != 0 || s.Lost != 0 {
			t.Errorf("got %+v, want one open file and 20 rotations", s)
		}
	})
}

// TestRotatedBetweenScans rotates a busy log ten times between two scans, to names that match no pattern, while the broker
// answers and while it doesn't.
func TestRotatedBetweenScans(t *testing.T) {
	for name, takes := range map[string]time.Duration{"broker answers": time.Millisecond, "broker is away": time.Minute} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := newBench(t, "app.log")
				start := time.Now()
				r := newRecorder(func(*client.Message) outcome {
					return outcome{after: max(time.Millisecond, takes-time.Since(start))}
				})
				r.limit = 10
				w := newWriter(b, "app.log")
				b.start(r)
				for i := range 100 {
					for range 10 {
						w.line()
						wait(10 * time.Millisecond)
					}
					b.rename("app.log", fmt.Sprintf("old.%d", i))
					w.line()
					w.f.Close()
					w.open("app.log")
				}
				wait(2 * time.Minute)
				wantLines(t, r.lines(), w.want...)
			})
		})
	}
}

// TestNameIsFreeForAWhile leaves the name of a busy log free until its file is read to its end and let go of: the files that
// take the name after it, and go before the next scan, are not missed.
func TestNameIsFreeForAWhile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, "*.log")
		b.cfg.ScanInterval = 10 * time.Second
		r := newRecorder(func(*client.Message) outcome { return outcome{after: time.Millisecond} })
		w := newWriter(b, "app.log")
		b.start(r)
		lines := func(n int) {
			for range n {
				w.line()
				wait(100 * time.Millisecond)
			}
		}
		lines(5)
		for i := range 10 {
			for k := range 5 {
				lines(5)
				w.f.Close()
				b.rename("app.log", fmt.Sprintf("old.%d.%d", i, k))
				wait(200 * time.Millisecond)
				w.open("app.log")
			}
			lines(55)
			w.f.Close()
			b.rename("app.log", fmt.Sprintf("old.%d", i))
			b.write(fmt.Sprintf("new%d.log", i), "") // makes the scan that comes by look twice
			wait(time.Second)
			w.open("app.log")
		}
		wait(2 * time.Minute)
		wantLines(t, r.lines(), w.want...)
	})
}

// TestShiftChain rotates several times between two scans, through names that match, of which the last is deleted.
func TestShiftChain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, "app.log*")
		r := newRecorder(late)
		w := newWriter(b, "app.log")
		b.start(r)
		const keep = 8
		for range 100 {
			for range 10 {
				w.line()
				wait(20 * time.Millisecond)
			}
			for i := keep; i > 0; i-- {
				from := fmt.Sprintf("app.log.%d", i-1)
				if i == 1 {
					from = "app.log"
				}
				if _, err := os.Stat(b.path(from)); err == nil {
					b.rename(from, fmt.Sprintf("app.log.%d", i))
				}
			}
			w.line() // into the renamed file
			w.f.Close()
			w.open("app.log")
		}
		wait(10 * time.Second)
		got := r.lines()
		slices.Sort(got)
		wantLines(t, got, w.want...)
		if s := b.agent.Stats(); s.Open != keep+1 {
			t.Errorf("%d files are open, want the %d that are there", s.Open, keep+1)
		}
	})
}

// TestOrderAcrossRotation is case C02: 10 000 unread lines are rotated away, new ones come while the broker is slow.
func TestOrderAcrossRotation(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, "app.log*")
		r := newRecorder(func(*client.Message) outcome { return outcome{after: 10 * time.Millisecond} })
		r.limit = 100
		w := newWriter(b, "app.log")
		b.start(r)
		wait(time.Second)
		for range 10_000 {
			w.line()
		}
		b.rename("app.log", "app.log.1")
		w.f.Close()
		w.open("app.log")
		for range 100 {
			w.line()
		}
		wait(time.Minute)
		wantLines(t, r.lines(), w.want...)
		for _, m := range r.records() {
			if m.key != "h:"+b.path("app.log") {
				t.Fatalf("key is %q, want the same for both files", m.key)
			}
		}
	})
}

// TestNewFileWaitsForOld checks how long: as long as somebody may write to the old file, at most the rotate wait.
func TestNewFileWaitsForOld(t *testing.T) {
	for _, tt := range []struct {
		name        string
		close       bool
		key         string
		least, most time.Duration
	}{
		{"writer is gone", true, KeyFile, 0, 1500 * time.Millisecond},
		{"writer stays", false, KeyFile, 5 * time.Second, 6500 * time.Millisecond},
		{"no order", false, KeyNone, 0, 1500 * time.Millisecond},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := newBench(t, "app.log")
				b.cfg.Inputs[0].Key = tt.key
				old := newWriter(b, "app.log")
				old.line()
				if tt.close && !leases(t) {
					t.Skip("this file system doesn't tell who writes")
				}
				var came time.Time
				r := newRecorder(func(m *client.Message) outcome {
					if string(m.Payload) == "new" {
						came = time.Now()
					}
					return outcome{}
				})
				b.start(r)
				wait(time.Minute)
				b.rename("app.log", "app.log.1")
				b.write("app.log", "new\n")
				if tt.close {
					old.f.Close()
				}
				start := time.Now()
				wait(time.Minute)
				if took := came.Sub(start); took < tt.least || took > tt.most {
					t.Errorf("the new file's line came after %v, want %v to %v", took, tt.least, tt.most)
				}
			})
		})
	}
}

// leases reports whether the kernel tells if somebody writes to a file.
func leases(t *testing.T) bool {
	t.Helper()
	h, err := os.Create(t.TempDir() + "/probe")
	if err != nil {
		t.Fatal(err)
	}
	h.Close()
	if h, err = os.Open(h.Name()); err != nil {
		t.Fatal(err)
	}
	defer h.Close()
	return noWriter(h)
}

// TestSameInode is case C06: a file is deleted and made anew, and the new one has its inode.
func TestSameInode(t *testing.T) {
	inode := func(b *bench) uint64 {
		fi, err := os.Stat(b.path("app.log"))
		if err != nil {
			b.t.Fatal(err)
		}
		id, _ := identify(fi)
		return id.ino
	}
	for _, header := range []string{"", strings.Repeat("#", 2000) + "\n"} { // the second one: case C07 as well
		synctest.Test(t, func(t *testing.T) {
			b := newBench(t, "app.log")
			r := newRecorder(nil)
			var want []string
			reused := false
			for round := range 5 {
				text := header
				for i := range 100 - 10*round {
					text += fmt.Sprintf("round %d line %d\n", round, i)
				}
				want = append(want, splitLines([]byte(text))...)
				b.write("app.log", text)
				b.run(r)
				before := inode(b)
				b.remove("app.log")
				b.write("app.log", "")
				reused = reused || inode(b) == before
			}
			if !reused {
				t.Log("this file system gave no inode twice")
			}
			wantLines(t, r.lines(), want...)
		})
	}
}

// TestEqualHeads is case C07: files whose first kilobytes are equal.
func TestEqualHeads(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, "*.log")
		head := strings.Repeat("#", 2000) + "\n"
		r := newRecorder(nil)
		b.start(r)
		for _, name := range []string{"a", "b", "c"} {
			b.write(name+".log", head+name+"\n")
			wait(3 * time.Second)
		}
		if n := len(r.lines()); n != 6 {
			t.Errorf("got %d lines, want 6", n)
		}
		// A file that is read and gone is not the one that comes with the same head.
		b.rename("a.log", "a.1")
		wait(10 * time.Second)
		b.write("a.log", head+"A\n")
		wait(3 * time.Second)
		wantLines(t, r.lines()[6:], head[:2000], "A")
	})
}

// TestRotationWhileBrokerIsAway is case C08. Rotated names match no pattern, and at last the files are deleted.
func TestRotationWhileBrokerIsAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, "app.log")
		r := newRecorder(func(*client.Message) outcome { return outcome{after: time.Minute} })
		r.limit = 10
		w := newWriter(b, "app.log")
		b.start(r)
		for i := range 4 {
			for range 50 {
				w.line()
			}
			wait(5 * time.Second)
			b.rename("app.log", fmt.Sprintf("old.%d", i))
			w.f.Close()
			w.open("app.log")
		}
		for i := range 4 {
			b.remove(fmt.Sprintf("old.%d", i))
		}
		wait(5 * time.Second)
		if s := b.agent.Stats(); s.Lag != int64(len(w.want)*len("line 000000\n")) {
			t.Errorf("%d bytes wait, want all of them", s.Lag)
		}
		r.mu.Lock()
		r.judge = nil
		r.mu.Unlock()
		wait(3 * time.Minute)
		wantLines(t, r.lines(), w.want...)
		if s := b.agent.Stats(); s.Open != 1 || s.Lag != 0 {
			t.Errorf("got %+v, want one open file and no lag", s)
		}
	})
}

// TestDeletedWhileReading deletes a file of which most is unread.
func TestDeletedWhileReading(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, "app.log")
		r := newRecorder(func(*client.Message) outcome { return outcome{after: time.Second} })
		r.limit = 100
		w := newWriter(b, "app.log")
		for range 2000 {
			w.line()
		}
		b.start(r)
		wait(3 * time.Second)
		b.remove("app.log")
		w.line() // the writer doesn't know
		wait(time.Minute)
		wantLines(t, r.lines(), w.want...)
		if s := b.agent.Stats(); s.Open != 0 {
			t.Errorf("%d files are open, want none", s.Open)
		}
	})
}
