package file

import (
	"bytes"
	"encoding/json"
	"errors"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/metaq-go/metaq/internal/vfs"
	"github.com/metaq-go/metaq/internal/vfs/faultfs"
	"github.com/metaq-go/metaq/pipeline"
	"github.com/metaq-go/metaq/pipeline/pipelinetest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

type row struct {
	ID   int    `json:"id"`
	Text string `json:"text"`
}

func rowOf(i int) row { return row{i, "text of row " + strconv.Itoa(i)} }

func rowsOf(from, to int) []row {
	var rows []row
	for i := from; i < to; i++ {
		rows = append(rows, rowOf(i))
	}
	return rows
}

func must(tb testing.TB, err error) {
	tb.Helper()
	if err != nil {
		tb.Fatal(err)
	}
}

func isPermanent(err error) bool {
	var p interface{ Permanent() bool }
	return errors.As(err, &p) && p.Permanent()
}

// list returns the names in the folder.
func list(tb testing.TB, fsys vfs.FS) (names []string) {
	tb.Helper()
	entries, err := fsys.ReadDir("/out")
	must(tb, err)
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names
}

func read(tb testing.TB, fsys vfs.FS, name string) string {
	tb.Helper()
	data, err := vfs.ReadFile(fsys, filepath.Join("/out", name))
	must(tb, err)
	return string(data)
}

// finished returns the names and the lines of the finished files, in the order of their names.
func finished(tb testing.TB, fsys vfs.FS, ext string) (names, lines []string) {
	tb.Helper()
	for _, name := range list(tb, fsys) {
		if !strings.HasSuffix(name, ext) || strings.HasPrefix(name, ".") {
			continue
		}
		names = append(names, name)
		text := read(tb, fsys, name)
		if text == "" || !strings.HasSuffix(text, "\n") || strings.Contains(text, "\x00") {
			tb.Fatalf("%s holds %.80q, not whole lines", name, text)
		}
		lines = append(lines, strings.Split(strings.TrimSuffix(text, "\n"), "\n")...)
	}
	return names, lines
}

func rowsIn(tb testing.TB, fsys vfs.FS) (rows []row) {
	tb.Helper()
	_, lines := finished(tb, fsys, ".jsonl")
	for _, l := range lines {
		var r row
		must(tb, json.Unmarshal([]byte(l), &r))
		rows = append(rows, r)
	}
	return rows
}

func open(tb testing.TB, cfg Config[row]) *Sink[row] {
	tb.Helper()
	if cfg.Dir == "" {
		cfg.Dir = "/out"
	}
	s, err := Open(cfg)
	must(tb, err)
	return s
}

func TestSuite(t *testing.T) {
	for name, newFS := range map[string]func(*testing.T) (vfs.FS, string){
		"memory": func(*testing.T) (vfs.FS, string) { return vfs.NewMem(), "/out" },
		"disk":   func(t *testing.T) (vfs.FS, string) { return vfs.OS(), filepath.Join(t.TempDir(), "a", "b") },
	} {
		t.Run(name, func(t *testing.T) {
			pipelinetest.SinkSuite(t, pipelinetest.SinkCase[row]{
				New: func(t *testing.T) pipelinetest.SinkPlace[row] {
					fsys, dir := newFS(t)
					faults := faultfs.New(fsys)
					return pipelinetest.SinkPlace[row]{
						Open: func() (pipeline.Sink[row], error) {
							return Open(Config[row]{Dir: dir, FS: faults, MaxBytes: 2000})
						},
						Read: func() (rows []row, err error) {
							entries, err := fsys.ReadDir(dir)
							for _, e := range entries {
								if filepath.Ext(e.Name()) != ".jsonl" {
									continue
								}
								data, readErr := vfs.ReadFile(fsys, filepath.Join(dir, e.Name()))
								err = errors.Join(err, readErr)
								for line := range bytes.Lines(data) {
									var r row
									err = errors.Join(err, json.Unmarshal(line, &r))
									rows = append(rows, r)
								}
							}
							return rows, err
						},
						Break: func() func() {
							return faults.Add(faultfs.Rule{Op: vfs.OpWrite, Err: syscall.ENOSPC, Partial: 7}).Remove
						},
					}
				},
				Value: rowOf,
				Bad:   func() row { return row{1, "\xff"} },
			})
		})
	}
}

func TestOtherFilesAreLeftAlone(t *testing.T) {
	fsys := vfs.NewMem()
	must(t, fsys.MkdirAll("/out/.rows-20251201T130405.000000007Z.jsonl.part", 0o755)) // a folder
	others := []string{
		".rows-20251201T130405Z.jsonl.part", ".rows-x.jsonl.part", ".other-20251201T130405.000000008Z.jsonl.part", "rows.jsonl",
		".rows-20251201T130405.000000007Z.csv.part", ".rows-more-20251201T130405.000000007Z.jsonl.part", "rows-20251201T130405.000000007Z",
		".rows-20251301T130405.000000007Z.jsonl.part", ".rows-20251201T130405.000000007Z.jsonl.part.part",
	}
	for _, name := range others {
		must(t, vfs.WriteFileAtomic(fsys, filepath.Join("/out", name), []byte("half a li"), 0o644))
	}
	before := list(t, fsys)
	must(t, open(t, Config[row]{FS: fsys}).Close(t.Context()))
	if got := list(t, fsys); !slices.Equal(got, slices.Sorted(slices.Values(append(before, ".rows.lock")))) {
		t.Errorf("the folder was %v and is %v", before, got)
	}
	for _, name := range others {
		if got := read(t, fsys, name); got != "half a li" {
			t.Errorf("%s is now %q", name, got)
		}
	}
}

func TestLock(t *testing.T) {
	fsys := vfs.NewMem()
	s := open(t, Config[row]{FS: fsys})
	if _, err := Open(Config[row]{FS: fsys, Dir: "/out"}); !errors.Is(err, vfs.ErrLocked) {
		t.Errorf("a second sink: %v, want ErrLocked", err)
	}
	must(t, open(t, Config[row]{FS: fsys, Prefix: "other"}).Close(t.Context()))
	must(t, s.Close(t.Context()))
	must(t, open(t, Config[row]{FS: fsys}).Close(t.Context()))
	if err := s.Write(t.Context(), rowsOf(0, 1)); err == nil || isPermanent(err) {
		t.Errorf("write after close: %v", err)
	}
}

func TestConfigErrors(t *testing.T) {
	for _, cfg := range []Config[row]{
		{Prefix: "a/b"},
		{Prefix: ".."},
		{Prefix: ".hidden"},
		{Ext: "jsonl"},
		{Ext: ".a/b"},
		{Ext: ".part"},
		{Ext: ".torn"},
		{MaxBytes: -1},
	} {
		cfg.FS = vfs.NewMem()
		if s, err := Open(cfg); err == nil {
			t.Errorf("opened with prefix %q, extension %q, MaxBytes %d", cfg.Prefix, cfg.Ext, cfg.MaxBytes)
			s.Close(t.Context())
		}
	}
}

// TestC48 fills the disk: the sink waits and goes on where it was, and nothing torn is ever visible.
func TestC48(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fsys := vfs.NewMem()
		faults := faultfs.New(fsys)
		full := faults.Add(faultfs.Rule{Op: vfs.OpWrite, After: 3, Err: syscall.ENOSPC, Partial: 100})
		looks := 0
		faults.Add(faultfs.Rule{Before: func(vfs.Op) { // somebody looks all the time
			if _, err := fsys.Stat("/out"); err == nil {
				finished(t, fsys, ".jsonl")
				looks++
			}
		}})
		src := pipelinetest.NewSource("rows", rowsOf(0, 100))
		src.Finish()
		top := pipeline.New("c48", pipeline.Config{Mode: pipeline.Ordered})
		sink := open(t, Config[row]{FS: faults, MaxBytes: 1000})
		pipeline.From(top, src, pipelinetest.Same[row]).To(sink, pipeline.Batch(10, time.Second))
		go func() {
			time.Sleep(5 * time.Hour)
			if done := src.Done(); done != 30 {
				t.Errorf("%d rows acknowledged by a full disk, want 30", done)
			}
			full.Remove()
		}()
		must(t, top.Run(t.Context()))
		src.Check(t)
		if got := rowsIn(t, fsys); !slices.Equal(got, rowsOf(0, 100)) {
			t.Errorf("stored are %d rows", len(got))
		}
		if full.Acted() < 100 || looks < 100 {
			t.Errorf("the disk was found full %d times and looked at %d times", full.Acted(), looks)
		}
	})
}
