package tail4go

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

// TestTailCases lets a script write and rotate log files the way programs and logrotate do, in real time, with the agent
// running from before, and compares what was sent with what the script says is due: each line once, and those of a name in
// order. The cases run side by side. Those in which files are cut off or compressed are not among them yet.
func TestTailCases(t *testing.T) {
	if testing.Short() {
		t.Skip("the cases take half a minute of real time")
	}
	python, err := exec.LookPath("python3")
	if err != nil {
		t.Fatal("python3 is needed to write the cases: ", err)
	}
	var running []*tailCase
	for _, name := range []string{
		"rename", "rename-fast", "rename-delay", "delete-recreate", "replaced", "same-header", "empties", "pieces",
		"no-newline", "half-line", "odd-bytes", "long-lines", "symlink", "late-writer", "hardlink", "folder-renamed", "moved",
		"many", "flash", "bursts", "mtime-back",
	} {
		c := &tailCase{name: name, bench: newBench(t, "**/*.log*"), r: newRecorder(nil)}
		c.cfg.Logger = nil
		c.start(c.r)
		c.cmd = exec.Command(python, filepath.Join("testdata", "tailcases.py"), name, c.dir)
		c.cmd.Stderr = &c.complaint
		if err := c.cmd.Start(); err != nil {
			t.Fatal(err)
		}
		running = append(running, c)
	}
	for _, c := range running {
		t.Run(c.name, c.check)
	}
}

type tailCase struct {
	*bench
	name      string
	r         *recorder
	cmd       *exec.Cmd
	complaint strings.Builder
}

func (c *tailCase) check(t *testing.T) {
	if err := c.cmd.Wait(); err != nil {
		t.Fatalf("case: %v\n%s", err, c.complaint.String())
	}
	truth, err := os.ReadFile(c.path("truth.txt"))
	if err != nil {
		t.Fatal(err)
	}
	want := splitLines(truth)
	deadline := time.NewTimer(30 * time.Second)
	defer deadline.Stop()
	for len(c.r.lines()) < len(want) {
		select {
		case <-c.r.more:
		case <-deadline.C:
			t.Fatalf("got %d lines in time, want %d", len(c.r.lines()), len(want))
		}
	}
	if err := c.stop(); err != nil { // waits until nothing more can come
		t.Error(err)
	}
	checkOrder(t, c.r.records())
	got := c.r.lines()
	slices.Sort(got)
	slices.Sort(want)
	wantLines(t, got, want...)
	if s := c.agent.Stats(); s.Lost != 0 || s.Lag != 0 {
		t.Errorf("at the end: %+v", s)
	}
}

// checkOrder checks that the numbers which the script gives its lines only grow among those of a key.
func checkOrder(t *testing.T, got []record) {
	t.Helper()
	last := make(map[string]int)
	for _, m := range got {
		if m.Part > 1 || len(m.payload) < 7 {
			continue
		}
		n, err := strconv.Atoi(m.payload[:7])
		if err != nil {
			continue // a line that begins with something else
		}
		if n <= last[m.key] {
			t.Errorf("%s: line %d comes after line %d", m.key, n, last[m.key])
		}
		last[m.key] = n
	}
}
