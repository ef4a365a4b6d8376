package parquet

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"syscall"
	"testing"

	"github.com/metaq-go/metaq/internal/vfs"
	"github.com/metaq-go/metaq/internal/vfs/faultfs"
)

func smallGroups(fsys vfs.FS) Config { return Config{Dir: "/out", FS: fsys, RowGroup: 5} }

// checkFolder opens a sink on a file system as a crash left it: every row below acked is there once, no row below sent
// is there twice, every visible file is whole, and no temporary file is left.
func checkFolder(t *testing.T, what string, fsys vfs.FS, acked, sent int) {
	t.Helper()
	s, err := Open[row](smallGroups(fsys))
	if err != nil {
		t.Fatalf("%s: %v", what, err)
	}
	must(t, s.Close(t.Context()))
	rows, err := rowsIn(fsys, "/out")
	if err != nil {
		t.Fatalf("%s: %v", what, err)
	}
	for i, r := range rows {
		if r != rowOf(i) {
			t.Fatalf("%s: row %v is where %d should be", what, r, i)
		}
	}
	if len(rows) < acked || len(rows) > sent {
		t.Fatalf("%s: %d rows; %d were acknowledged and %d sent", what, len(rows), acked, sent)
	}
	for _, name := range list(t, fsys) {
		if strings.HasSuffix(name, partExt) {
			t.Fatalf("%s: %s is left", what, name)
		}
	}
}

// TestCrash crashes the machine, or kills the process, before every call that changes something.
func TestCrash(t *testing.T) {
	crashes := 0
	for seed := range 5 {
		rng := rand.New(rand.NewPCG(uint64(seed), 2))
		m := vfs.NewMem()
		acked, sent := 0, 0
		crash := func(op vfs.Op) {
			for i := range 5 {
				after := m.Kill()
				if i > 0 {
					after = m.Crash(rng)
				}
				crashes++
				checkFolder(t, fmt.Sprintf("seed %d, crash %d before %s %s", seed, i, op.Kind, op.Name), after, acked, sent)
			}
		}
		m.Before(crash)
		s := open(t, smallGroups(m))
		for range 4 {
			sent += 1 + rng.IntN(20)
			must(t, s.Write(t.Context(), rowsOf(acked, sent)))
			acked = sent
		}
		must(t, s.Close(t.Context()))
		crash(vfs.Op{Kind: "end"})
		m.Before(nil)
	}
	if crashes < 500 {
		t.Errorf("only %d crashes", crashes)
	}
}

// TestEveryCallFails fails each call in turn, without and with effect, while the writer repeats and the machine may crash.
func TestEveryCallFails(t *testing.T) {
	for name, rule := range map[string]faultfs.Rule{
		"fails":             {Err: syscall.EIO, Times: 1},
		"happens and fails": {Err: syscall.EIO, Times: 1, Done: true},
		"falls short":       {Op: vfs.OpWrite, Err: syscall.ENOSPC, Times: 1, Partial: 100},
		"twice":             {Err: syscall.EIO, Times: 2},
		"five times":        {Err: syscall.EIO, Times: 5},
	} {
		t.Run(name, func(t *testing.T) {
			n := 0
			for ; ; n++ {
				rule := rule
				rule.After = n
				if !fail(t, rule) {
					break
				}
			}
			if n < 3 {
				t.Errorf("only %d calls", n)
			}
		})
	}
}

// checkNothingLeft looks at a folder right after a Write that failed.
func checkNothingLeft(t *testing.T, what string, fsys vfs.FS, acked int) {
	t.Helper()
	rows, err := rowsIn(fsys, "/out")
	must(t, err)
	if len(rows) != acked {
		t.Errorf("%s: %d rows are visible, %d were acknowledged", what, len(rows), acked)
	}
	for _, name := range list(t, fsys) {
		if strings.HasSuffix(name, partExt) {
			t.Errorf("%s: %s is left on what may be a full disk", what, name)
		}
	}
}

// fail tells whether the rule has acted.
func fail(t *testing.T, rule faultfs.Rule) bool {
	t.Helper()
	rng := rand.New(rand.NewPCG(uint64(rule.After), 4))
	m := vfs.NewMem()
	faults := faultfs.New(m)
	var failing vfs.Op
	rule.Before = func(op vfs.Op) { failing = op }
	fault := faults.Add(rule)
	what := func() string { return fmt.Sprintf("call %d, %s %s fails", rule.After, failing.Kind, failing.Name) }
	s, err := Open[row](smallGroups(faults))
	for tries := 0; err != nil; tries++ {
		if tries > 10 {
			t.Fatal(err)
		}
		s, err = Open[row](smallGroups(faults))
	}
	acked, sent := 0, 0
	m.Before(func(op vfs.Op) {
		if rng.IntN(4) == 0 {
			checkFolder(t, fmt.Sprintf("%s, then a crash before %s %s", what(), op.Kind, op.Name), m.Crash(rng), acked, sent)
		}
	})
	for range 3 {
		sent += 1 + rng.IntN(20)
		err := s.Write(t.Context(), rowsOf(acked, sent))
		for tries := 0; err != nil; tries++ {
			if isPermanent(err) || tries > 10 {
				t.Fatalf("%s: %v", what(), err)
			}
			if rule.Times == 1 {
				checkNothingLeft(t, what(), m, acked)
			}
			err = s.Write(t.Context(), rowsOf(acked, sent))
		}
		acked = sent
	}
	must(t, s.Close(t.Context()))
	m.Before(nil)
	checkFolder(t, what(), m, acked, sent)
	return fault.Acted() > 0
}
