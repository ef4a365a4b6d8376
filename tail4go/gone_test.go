package tail4go

import (
	"fmt"
	"os"
	"testing"
	"testing/synctest"
	"time"

	"github.com/metaq-go/metaq/client"
)

// TestCutOff: a file that becomes shorter is read from its beginning.
func TestCutOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, "app.log")
		r := newRecorder(func(m *client.Message) outcome {
			if string(m.Payload) == "third" && m.Attr[len(m.Attr)-1] != '0' {
				return outcome{after: time.Minute, err: errSend, lost: true}
			}
			return outcome{after: time.Second}
		})
		b.write("app.log", "first\nsecond\nthird\n")
		b.start(r)
		wait(10 * time.Second)
		for _, text := range []string{"A\n", "", "B\n"} { // case C10
			if err := os.Truncate(b.path("app.log"), 0); err != nil {
				t.Fatal(err)
			}
			b.write("app.log", text)
			wait(10 * time.Second)
		}
		wait(time.Hour)
		wantLines(t, r.lines(), "first", "second", "A", "B")
		s := b.agent.Stats()
		if s.Truncated != 2 && s.Truncated != 3 || s.Lost != int64(len("third\n")) || s.InFlight != 0 || s.Open != 1 {
			t.Errorf("got %+v, want a truncated file, and a line lost that failed before", s)
		}
	})
}

// TestManyShortLivedFiles is case C11: what is kept of them is bounded.
func TestManyShortLivedFiles(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, "*.log")
		b.cfg.Logger = nil
		r := newRecorder(nil)
		b.start(r)
		const rounds, files = 10, 100
		for round := range rounds {
			for i := range files {
				b.write(fmt.Sprintf("%d.log", i), fmt.Sprintf("%d %d\n", round, i))
			}
			wait(3 * time.Second)
			for i := range files {
				b.remove(fmt.Sprintf("%d.log", i))
			}
			wait(3 * time.Second)
		}
		wait(time.Minute)
		if n := len(r.lines()); n != rounds*files {
			t.Errorf("got %d lines, want %d", n, rounds*files)
		}
		if entries := b.stored(); len(entries) != 0 {
			t.Errorf("%d files are remembered, want none", len(entries))
		}
	})
}

// stored returns the positions in the state directory.
func (b *bench) stored() []entry {
	b.t.Helper()
	text, err := os.ReadFile(b.cfg.StateDir + "/" + stateName)
	if err != nil {
		b.t.Fatal(err)
	}
	entries, err := decodeState(text)
	if err != nil {
		b.t.Fatal(err)
	}
	return entries
}

// TestRetention: files that went away are remembered for a while, in case they come back.
func TestRetention(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, "*.log")
		b.cfg.Retention = time.Hour
		b.cfg.ScanInterval, b.cfg.SaveInterval = 10*time.Second, 10*time.Second
		b.write("a.log", "1\n")
		r := newRecorder(nil)
		b.start(r)
		wait(20 * time.Second)
		b.rename("a.log", "a.old")
		wait(50 * time.Minute)
		if s := b.agent.Stats(); s.Open != 0 {
			t.Errorf("%d files are open, want none", s.Open)
		}
		b.write("a.old", "2\n")
		b.rename("a.old", "b.log")
		wait(time.Minute)
		wantLines(t, r.lines(), "1", "2")
		b.rename("b.log", "a.old")
		wait(65 * time.Minute)
		b.write("c.log", "3\n") // something to store
		wait(time.Minute)
		if entries := b.stored(); len(entries) != 1 {
			t.Errorf("%d files are remembered, want 1", len(entries))
		}
	})
}
