package file

import (
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/metaq-go/metaq/internal/vfs"
	"github.com/metaq-go/metaq/internal/vfs/faultfs"
)

// smallFiles rotates often, so that a crash meets every step of it.
func smallFiles(fsys vfs.FS) Config[row] { return Config[row]{Dir: "/out", FS: fsys, MaxBytes: 1500} }

// batchesOf returns batches of rows of several lengths, the rows numbered from from on, and the number behind the last.
func batchesOf(from, seed int) (batches [][]row, to int) {
	rng := rand.New(rand.NewPCG(uint64(seed), 1))
	for range 6 {
		n := 1 + rng.IntN(20)
		batch := rowsOf(from, from+n)
		for i := range batch {
			batch[i].Text = "short"
		}
		batch[0].Text = words("long", rng.IntN(200)) // over sectors
		batches = append(batches, batch)
		from += n
	}
	return batches, from
}

func words(word string, n int) string { return strings.TrimSpace(strings.Repeat(word+" ", 1+n)) }

// checkFolder opens a sink on a file system as a crash left it and closes it again: then every row below acked is there once, no
// row below sent is there twice, and whatever else there is is not visible.
func checkFolder(t *testing.T, what string, fsys vfs.FS, acked, sent int) {
	t.Helper()
	s, err := Open(smallFiles(fsys))
	if err != nil {
		t.Fatalf("%s: %v", what, err)
	}
	if err := s.Close(t.Context()); err != nil {
		t.Fatalf("%s: %v", what, err)
	}
	rows := rowsIn(t, fsys)
	for i, r := range rows {
		if r.ID != i {
			t.Fatalf("%s: row %d is where %d should be", what, r.ID, i)
		}
		if w := slices.Compact(strings.Fields(r.Text)); len(w) != 1 {
			t.Fatalf("%s: row %d is a mixture: %v", what, r.ID, w)
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
	for seed := range 12 {
		rng := rand.New(rand.NewPCG(uint64(seed), 2))
		m := vfs.NewMem()
		batches, _ := batchesOf(0, seed)
		acked, sent := 0, 0
		crash := func(op vfs.Op) {
			for i := range 6 {
				what := fmt.Sprintf("seed %d, crash %d before %s %s with %d rows acknowledged", seed, i, op.Kind, op.Name, acked)
				after := m.Kill()
				if i > 0 {
					after = m.Crash(rng)
				}
				crashes++
				if i == 1 { // a crash may also meet what mends a crash
					crashAgain(t, what, after, rng, acked, sent)
				}
				checkFolder(t, what, after, acked, sent)
			}
		}
		m.Before(crash)
		s := open(t, smallFiles(m))
		for _, b := range batches {
			sent += len(b)
			must(t, s.Write(t.Context(), b))
			acked = sent
		}
		must(t, s.Close(t.Context()))
		crash(vfs.Op{Kind: "end"})
		m.Before(nil)
		checkFolder(t, "the end", m, acked, sent)
	}
	if crashes < 1000 {
		t.Errorf("only %d crashes", crashes)
	}
}

// crashAgain opens a sink on a copy of m and crashes it before each step.
func crashAgain(t *testing.T, what string, m *vfs.Mem, rng *rand.Rand, acked, sent int) {
	t.Helper()
	again := m.Kill()
	again.Before(func(op vfs.Op) {
		checkFolder(t, fmt.Sprintf("%s, again before %s %s", what, op.Kind, op.Name), again.Crash(rng), acked, sent)
	})
	must(t, open(t, smallFiles(again)).Close(t.Context()))
}

// TestCrashAndGoOn goes on after a crash as a topology does: with what was not acknowledged.
func TestCrashAndGoOn(t *testing.T) {
	for seed := range 60 {
		rng := rand.New(rand.NewPCG(uint64(seed), 3))
		m := vfs.NewMem()
		var after *vfs.Mem
		acked := 0
		in := rng.IntN(40) // steps until the crash
		m.Before(func(vfs.Op) {
			if in--; in == 0 {
				after = m.Crash(rng)
			}
		})
		batches, to := batchesOf(0, seed)
		s := open(t, smallFiles(m))
		for _, b := range batches {
			if must(t, s.Write(t.Context(), b)); after == nil {
				acked += len(b)
			}
		}
		must(t, s.Close(t.Context()))
		if after == nil {
			continue
		}
		s = open(t, smallFiles(after))
		rest := slices.Concat(batches...)[acked:]
		for b := range slices.Chunk(rest, 3) {
			must(t, s.Write(t.Context(), b))
		}
		must(t, s.Close(t.Context()))
		count := make(map[int]int)
		for _, r := range rowsIn(t, after) {
			count[r.ID]++
		}
		for id := range to {
			if n := count[id]; n == 0 || n > 1 && id < acked || n > 2 {
				t.Fatalf("seed %d: row %d is there %d times; the first %d were acknowledged before the crash", seed, id, n, acked)
			}
		}
	}
}

// TestEveryCallFails fails each call in turn, without and with effect, and writes repeat until they succeed; before
// every step the machine may crash besides.
func TestEveryCallFails(t *testing.T) {
	for name, rule := range map[string]faultfs.Rule{
		"fails":                        {Err: syscall.EIO},
		"happens and fails":            {Err: syscall.EIO, Done: true},
		"falls short":                  {Op: vfs.OpWrite, Err: syscall.ENOSPC, Partial: 100},
		"sync fails":                   {Op: vfs.OpSync, Err: syscall.EIO},
		"sync fails and loses":         {Op: vfs.OpDatasync, Err: syscall.EIO},
		"twice":                        {Err: syscall.EIO, Times: 2},
		"five times, over the repeats": {Err: syscall.EIO, Times: 5},
	} {
		t.Run(name, func(t *testing.T) {
			n := 0
			for ; ; n++ {
				rule := rule
				rule.After = n
				if !failOnce(t, rule, n) {
					break
				}
			}
			if n < 3 {
				t.Errorf("only %d calls", n)
			}
		})
	}
}

// failOnce tells whether the rule has acted.
func failOnce(t *testing.T, rule faultfs.Rule, seed int) bool {
	t.Helper()
	rng := rand.New(rand.NewPCG(uint64(seed), 4))
	m := vfs.NewMem()
	faults := faultfs.New(m)
	if rule.Times == 0 {
		rule.Times = 1
	}
	var failing vfs.Op
	rule.Before = func(op vfs.Op) {
		failing = op
		if rule.Op == vfs.OpDatasync {
			must(t, m.LoseUnsynced(op.Name))
		}
	}
	fault := faults.Add(rule)
	s, err := Open(smallFiles(faults))
	for tries := 0; err != nil; tries++ {
		if tries > 10 {
			t.Fatal(err)
		}
		s, err = Open(smallFiles(faults))
	}
	acked, sent := 0, 0
	what := func() string { return fmt.Sprintf("call %d, %s %s fails", rule.After, failing.Kind, failing.Name) }
	m.Before(func(op vfs.Op) {
		if rng.IntN(4) == 0 {
			checkFolder(t, fmt.Sprintf("%s, then a crash before %s %s", what(), op.Kind, op.Name), m.Crash(rng), acked, sent)
		}
	})
	batches, _ := batchesOf(0, 1)
	for _, b := range batches {
		sent += len(b)
		err := s.Write(t.Context(), b)
		for tries := 0; err != nil; tries++ {
			if isPermanent(err) || tries > 10 {
				t.Fatalf("%s: %v", what(), err)
			}
			for i := range b { // rows that encode differently each time must not be mixed
				b[i].Text = words("try"+strconv.Itoa(tries), 100*(tries%3))
			}
			err = s.Write(t.Context(), b)
		}
		acked = sent
	}
	if err := s.Close(t.Context()); err != nil && fault.Acted() == 0 {
		t.Fatal(err)
	}
	m.Before(nil)
	checkFolder(t, what(), m, acked, sent)
	return fault.Acted() > 0
}

// TestRecovery finds unfinished files of every kind.
func TestRecovery(t *testing.T) {
	long := strings.Repeat(strings.Repeat("x", 99)+"\n", 30_000) // over several reads
	tests := []struct {
		name, part, finished, torn string
	}{
		{"empty", "", "", ""},
		{"whole lines", "a\nb\n", "a\nb\n", ""},
		{"half a line", "a\nb\nc", "a\nb\n", "c"},
		{"nothing but half a line", "abc", "", "abc"},
		{"a hole", "a\n\x00\x00b\nc\n", "a\n", "\x00\x00b\nc\n"},
		{"a hole behind half a line", "a\nb\x00\nc\n", "a\n", "b\x00\nc\n"},
		{"nothing but zeros", "\x00\x00\x00", "", "\x00\x00\x00"},
		{"long", long, long, ""},
		{"long and half a line", long + "half", long, "half"},
		{"long, a hole, long", long + "\x00" + long, long, "\x00" + long},
	}
	n := names{"rows", ".txt"}
	stamp, _, ok := n.stamp("rows-20251201T130405.000000007Z.txt")
	if !ok {
		t.Fatal("the name is not understood")
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			m := vfs.NewMem()
			must(t, m.MkdirAll("/out", 0o755))
			must(t, vfs.WriteFileAtomic(m, filepath.Join("/out", n.part(stamp)), []byte(tt.part), 0o644))
			var log strings.Builder
			s := open(t, Config[row]{FS: m, Ext: ".txt", Logger: logTo(&log)})
			want := Stats{Torn: int64(len(tt.torn))}
			if tt.finished != "" {
				want.Files, want.Recovered = 1, 1
			}
			if got := s.Stats(); got != want {
				t.Errorf("stats %+v, want %+v", got, want)
			}
			must(t, s.Close(t.Context()))
			wantNames := []string{".rows.lock"}
			for name, text := range map[string]string{n.finished(stamp): tt.finished, n.torn(stamp): tt.torn} {
				if text == "" {
					continue
				}
				wantNames = append(wantNames, name)
				if got := read(t, m, name); got != text {
					t.Errorf("%s: %.40q, want %.40q", name, got, text)
				}
			}
			slices.Sort(wantNames)
			if got := list(t, m); !slices.Equal(got, wantNames) {
				t.Errorf("the folder holds %v, want %v", got, wantNames)
			}
			if warned := strings.Contains(log.String(), "level=WARN") && strings.Contains(log.String(), n.torn(stamp)); warned != (tt.torn != "") {
				t.Errorf("the log says: %s", log.String())
			}
		})
	}
}
