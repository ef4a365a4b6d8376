package tail4go

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// TestTailCases lets a script write and rotate log files the way programs and logrotate do, in real time, with the agent
// running from before, and compares what was sent with what the script says is due. Cases in which files are cut off or
// compressed are not among them yet.
func TestTailCases(t *testing.T) {
	if testing.Short() {
		t.Skip("the cases take half a minute of real time")
	}
	python, err := exec.LookPath("python3")
	if err != nil {
		t.Fatal("python3 is needed to write the cases: ", err)
	}
	for _, name := range []string{
		"rename", "rename-fast", "rename-delay", "delete-recreate", "replaced", "same-header", "empties", "pieces",
		"no-newline", "half-line", "odd-bytes", "long-lines", "symlink", "late-writer", "hardlink", "folder-renamed", "moved",
		"many", "flash", "bursts", "mtime-back",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t, "**/*.log*")
			b.cfg.ScanInterval = 200 * time.Millisecond
			r := newRecorder(nil)
			b.start(r)
			cmd := exec.Command(python, filepath.Join("testdata", "tailcases.py"), name, b.dir)
			if out, err := cmd.CombinedOutput(); err != nil {
				t.Fatalf("case: %v\n%s", err, out)
			}
			truth, err := os.ReadFile(b.path("truth.txt"))
			if err != nil {
				t.Fatal(err)
			}
			want := strings.Split(strings.TrimSuffix(string(truth), "\n"), "\n")
			if name == "odd-bytes" || bytes.Contains(truth, []byte("\r")) {
				want = strings.Split(strings.TrimSuffix(string(truth), "\n"), "\n")
			}
			deadline := time.NewTimer(20 * time.Second)
			defer deadline.Stop()
			for len(r.lines()) < len(want) {
				select {
				case <-r.more:
				case <-deadline.C:
					t.Fatalf("got %d lines in time, want %d", len(r.lines()), len(want))
				}
			}
			if err := b.stop(); err != nil {
				t.Error(err)
			}
			got := r.lines()
			checkOrder(t, r.records())
			slices.Sort(got)
			slices.Sort(want)
			wantLines(t, got, want...)
		})
	}
}

// checkOrder checks that positions of a key never go back but to a new file's beginning.
func checkOrder(t *testing.T, got []record) {
	t.Helper()
	last := make(map[string]int64)
	for i, m := range got {
		before, ok := last[m.Path]
		if ok && m.Pos <= before && m.Pos != 0 {
			t.Errorf("record %d: %s at %d comes after %d", i, m.Path, m.Pos, before)
		}
		last[m.Path] = m.Pos
	}
}
