package parquet

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"math"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	pq "github.com/parquet-go/parquet-go"
	"go.uber.org/goleak"

	"github.com/metaq-go/metaq/internal/vfs"
	"github.com/metaq-go/metaq/internal/vfs/faultfs"
	"github.com/metaq-go/metaq/pipeline"
	"github.com/metaq-go/metaq/pipeline/pipelinetest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

type row struct {
	ID   int64
	Text string
}

func rowOf(i int) row { return row{int64(i), "text of row " + strconv.Itoa(i)} }

func rowsOf(from, to int) []row {
	var rows []row
	for i := from; i < to; i++ {
		rows = append(rows, rowOf(i))
	}
	return rows
}

func isPermanent(err error) bool {
	var p interface{ Permanent() bool }
	return errors.As(err, &p) && p.Permanent()
}

func open(tb testing.TB, cfg Config) *Sink[row] {
	tb.Helper()
	cfg.Dir = "/out"
	s, err := Open[row](cfg)
	must(tb, err)
	return s
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

// rowsIn reads the finished files in the order of their names.
func rowsIn(fsys vfs.FS, dir string) (rows []row, err error) {
	entries, err := fsys.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), ".") || filepath.Ext(e.Name()) != ".parquet" {
			continue
		}
		data, err := vfs.ReadFile(fsys, filepath.Join(dir, e.Name()))
		if err != nil {
			return nil, err
		}
		got, err := pq.Read[row](bytes.NewReader(data), int64(len(data)))
		if err != nil {
			return nil, fmt.Errorf("%s: %w", e.Name(), err)
		}
		rows = append(rows, got...)
	}
	return rows, nil
}

func wantRows(tb testing.TB, fsys vfs.FS, want []row) {
	tb.Helper()
	got, err := rowsIn(fsys, "/out")
	must(tb, err)
	if !slices.Equal(got, want) {
		tb.Fatalf("rows in the order of names: %v, want %v", got, want)
	}
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
						Open: func() (pipeline.Sink[row], error) { return Open[row](Config{Dir: dir, FS: faults, RowGroup: 30}) },
						Read: func() ([]row, error) { return rowsIn(fsys, dir) },
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

// TestTypesRefused refuses what parquet-go can't write, or writes as something else without saying so.
func TestTypesRefused(t *testing.T) {
	type loop struct {
		Next []*loop `parquet:",list"`
	}
	type Base struct{ A int }
	type Other struct{ A int }
	type twice struct {
		Base
		Other
	}
	type hidden struct {
		a int `parquet:"a"`
	}
	_ = hidden{}.a
	for _, tt := range []struct {
		typ  reflect.Type
		want string
	}{
		{reflect.TypeFor[int](), "int is not a struct"},
		{timeType, "time.Time is not a struct"},
		{reflect.TypeFor[struct{}](), "no exported field"},
		{reflect.TypeFor[loop](), "contains itself"},
		{reflect.TypeFor[twice](), `two fields are column "A"`},
		{reflect.TypeFor[hidden](), "field a has a parquet tag but is not exported"},
		{field[any](""), "can't be a column"},
		{field[chan int](""), "chan int can't be a column"},
		{field[**int](""), "**int is not supported"},
		{field[*[]int](""), "*[]int is not supported"},
		{field[[2]int](""), "[2]int is not supported"},
		{field[[]*int](""), `[]*int needs the option "list"`},
		{field[[][]int](""), `[][]int needs the option "list"`},
		{field[[]int](",optional"), `"optional" without "list"`},
		{field[string](",optional"), "null of the zero string"},
		{field[time.Time](",optional"), "null of the zero time.Time"},
		{field[[]byte](",json,optional"), "null of the zero []uint8"},
		{field[time.Time](",date"), `"date" is not supported for a time.Time`},
		{field[*time.Time](",date"), `"date" is not supported for a time.Time`},
		{field[time.Time](",timestamp(nanosecond:local)"), "is not supported"},
		{field[string](",uuid"), `"uuid" is not supported`},
		{field[int64](",int(8)"), `"int(8)" is not supported`},
		{field[map[string]int](",json"), `"json" is not supported for a map`},
		{field[map[bool]int](""), "keys are strings"},
		{field[map[string]map[string]int](""), "put the inner map"},
		{field[int](",nonsense"), `"nonsense" is not supported`},
		{embed[Base]("base"), "field Base is embedded"},
		{embed[time.Time](""), "field Time is embedded"},
		{embed[*Base](""), "field Base is embedded"},
		{reflect.StructOf([]reflect.StructField{{Name: "A", Type: reflect.TypeFor[[]int](), Tag: `parquet:",list" parquet-element:",optional"`}}), "parquet-element"},
	} {
		if _, err := planOf(tt.typ); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%v: %v, want an error about %s", tt.typ, err, tt.want)
		}
	}
	type odd struct {
		A int `parquet:",id(x)"`
	}
	if s, err := Open[odd](Config{Dir: "/out", FS: vfs.NewMem()}); err == nil || s != nil || !strings.Contains(err.Error(), "odd") {
		t.Errorf("a tag that parquet-go panics at: %v", err)
	}
}

// field is a struct with one field.
func field[T any](tag string) reflect.Type { return structOf[T](tag, false) }

// embed is a struct that embeds T.
func embed[T any](tag string) reflect.Type { return structOf[T](tag, true) }

func structOf[T any](tag string, embedded bool) reflect.Type {
	f := reflect.StructField{Name: "A", Type: reflect.TypeFor[T](), Tag: reflect.StructTag(`parquet:"` + tag + `"`), Anonymous: embedded}
	if embedded {
		f.Name = f.Type.Name()
		if f.Type.Kind() == reflect.Pointer {
			f.Name = f.Type.Elem().Name()
		}
	}
	return reflect.StructOf([]reflect.StructField{f})
}

func TestConfigErrors(t *testing.T) {
	for _, cfg := range []Config{{Prefix: "a/b"}, {Prefix: ".hidden"}, {RowGroup: -1}, {Level: Best + 1}} {
		cfg.FS = vfs.NewMem()
		if s, err := Open[row](cfg); err == nil {
			t.Errorf("opened: %+v", cfg)
			s.Close(t.Context())
		}
	}
}

func TestMetadataAndLevels(t *testing.T) {
	rows := rowsOf(0, 5000)
	sizes := make(map[Level]int64)
	for _, level := range []Level{Fastest, Normal, Better, Best} {
		fsys := vfs.NewMem()
		s := open(t, Config{FS: fsys, Level: level})
		must(t, s.Write(t.Context(), rows))
		sizes[level] = s.Stats().Bytes
		must(t, s.Close(t.Context()))
		wantRows(t, fsys, rows)
	}
	if sizes[Best] == sizes[Normal] || sizes[Fastest] == sizes[Normal] {
		t.Errorf("the level makes no difference: %v", sizes)
	}
	meta := map[string]string{"source": "access/0-0@4711", "日本": ""}
	f := readers(t, publish(t, Config{Metadata: meta}, rows[:1]))
	if !maps.Equal(f.Metadata, meta) {
		t.Errorf("metadata %v, want %v", f.Metadata, meta)
	}
}

// TestSecondFile writes two files by one sink: the second holds nothing of the first, not even its statistics.
func TestSecondFile(t *testing.T) {
	type row struct {
		A int64   `parquet:",dict"`
		F float64 // NaN must not spoil the statistics by which readers skip
	}
	dir := t.TempDir()
	s, err := Open[row](Config{Dir: dir, RowGroup: 2, Metadata: map[string]string{"k": "v"}})
	must(t, err)
	batches := [][]row{{{1, math.NaN()}, {2, 1}, {3, 2}}, {{4, -1}}}
	for _, b := range batches {
		must(t, s.Write(t.Context(), b))
	}
	must(t, s.Close(t.Context()))
	names, err := filepath.Glob(filepath.Join(dir, "*.parquet"))
	must(t, err)
	for i, name := range names {
		f := readers(t, name)
		compare(t, "pyarrow", f.PyArrow, batches[i])
		compare(t, "DuckDB", f.DuckDB, batches[i])
		if f.Metadata["k"] != "v" {
			t.Errorf("file %d has the metadata %v", i, f.Metadata)
		}
	}
}

// TestNames has the clock set back by a century: names still sort by the order of writing. (Reading in a synctest bubble would leave
// parquet-go's shared decoders in it.)
func TestNames(t *testing.T) {
	future := time.Date(2100, 1, 1, 0, 0, 0, 0, time.UTC)
	fsys := vfs.NewMem()
	must(t, fsys.MkdirAll("/out", 0o755))
	p := prefix("rows")
	foreign := map[string]string{
		".rows-20251201T130405Z.parquet.part":             "not ours",
		".rows-x.parquet.part":                            "not ours",
		".rows.parquet.part":                              "not ours",
		p.finished(future) + ".part":                      "not ours",
		".other-20251201T130405.000000007Z.parquet.part":  "not ours",
		".rows-20251201T130405.000000007Z.csv.part":       "not ours",
		".rows-a-20251201T130405.000000007Z.parquet.part": "not ours",
		".rows-20251301T130405.000000007Z.parquet.part":   "not ours",
	}
	for name, text := range foreign {
		must(t, vfs.WriteFileAtomic(fsys, "/out/"+name, []byte(text), 0o644))
	}
	left := "/out/" + p.part(future)
	must(t, vfs.WriteFileAtomic(fsys, left, []byte("left by a crash"), 0o644))
	must(t, fsys.MkdirAll("/out/"+p.part(future.Add(-1)), 0o755)) // a folder

	s := open(t, Config{FS: fsys})
	if _, err := Open[row](Config{FS: fsys, Dir: "/out"}); !errors.Is(err, vfs.ErrLocked) {
		t.Errorf("a second sink: %v, want ErrLocked", err)
	}
	if _, err := fsys.Stat(left); err == nil || s.Stats().Removed != 1 {
		t.Errorf("the temporary file of a crash: %v, stats %+v", err, s.Stats())
	}
	inTheWay := p.finished(future.Add(1))
	foreign[inTheWay] = "in the way"
	must(t, vfs.WriteFileAtomic(fsys, "/out/"+inTheWay, []byte("in the way"), 0o644))
	must(t, s.Write(t.Context(), rowsOf(0, 1)))
	must(t, s.Write(t.Context(), rowsOf(1, 3)))
	must(t, s.Close(t.Context()))
	must(t, s.Close(t.Context()))
	if err := s.Write(t.Context(), rowsOf(0, 1)); err == nil || isPermanent(err) {
		t.Errorf("write after close: %v", err)
	}
	for name, text := range foreign {
		got, err := vfs.ReadFile(fsys, "/out/"+name)
		if err != nil || string(got) != text {
			t.Errorf("%s is now %q, %v", name, got, err)
		}
		must(t, fsys.Remove("/out/"+name))
	}
	wantRows(t, fsys, rowsOf(0, 3))
	if got := s.Stats(); got.Files != 2 || got.Rows != 3 || got.Bytes < 100 {
		t.Errorf("stats %+v", got)
	}
	s = open(t, Config{FS: fsys})
	must(t, s.Write(t.Context(), rowsOf(3, 4)))
	must(t, s.Close(t.Context()))
	wantRows(t, fsys, rowsOf(0, 4))
	for _, name := range list(t, fsys) {
		if strings.HasPrefix(name, "rows-") && !strings.HasPrefix(name, "rows-2100") {
			t.Errorf("%s sorts before files that were there", name)
		}
	}
}

func TestSize(t *testing.T) {
	type all struct {
		A  int64
		S  string
		P  *string
		L  []string          `parquet:",list"`
		M  map[string]string `parquet:",optional"`
		T  time.Time
		In struct{ B []byte }
		U  [16]byte
	}
	s, err := Open[all](Config{Dir: "/out", FS: vfs.NewMem()})
	must(t, err)
	defer s.Close(t.Context())
	small := s.Size(all{})
	long := strings.Repeat("x", 1000)
	large := s.Size(all{S: long, P: &long, L: []string{long, long}, M: map[string]string{long: long}, In: struct{ B []byte }{[]byte(long)}})
	if small < 30 || small > 60 || large-small < 6990 || large-small > 7020 {
		t.Errorf("sizes %d and %d", small, large)
	}
}
