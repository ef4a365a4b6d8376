package parquet

import (
	"math"
	"os"
	"slices"
	"strings"
	"testing"
	"time"
)

// TestC42 keeps null, missing and empty lists apart, at each depth.
func TestC42(t *testing.T) {
	type row struct {
		Opt    []int64   `parquet:"opt,optional,list"`
		Req    []int64   `parquet:"req,list"`
		Bare   []string  `parquet:"bare"`
		Ptrs   []*string `parquet:"ptrs,optional,list"`
		Deep   [][]int64 `parquet:"deep,optional,list"`
		Blobs  [][]byte  `parquet:"blobs,list"`
		Times  []time.Time
		Floats []float64 `parquet:",optional,list"`
		Bools  []bool    `parquet:",optional,list"`
	}
	at := time.Unix(1, 999)
	rows := []row{
		{},
		{Opt: nil},
		{
			Opt: []int64{}, Req: []int64{}, Bare: []string{}, Ptrs: []*string{}, Deep: [][]int64{}, Blobs: [][]byte{}, Times: []time.Time{},
			Floats: []float64{}, Bools: []bool{},
		},
		{
			Opt: []int64{1, 2}, Req: []int64{3}, Bare: []string{"", "a"}, Ptrs: []*string{nil, ptr(""), ptr("b")}, Deep: [][]int64{{}, {1}, {2, 3}},
			Blobs: [][]byte{{}, {1}}, Times: []time.Time{at}, Floats: []float64{math.NaN(), 0}, Bools: []bool{false, true},
		},
	}
	f := roundTrip(t, rows)
	for _, got := range [][]map[string]any{f.PyArrow, f.DuckDB} {
		if got[0]["opt"] != nil || got[2]["opt"] == nil {
			t.Errorf("null and empty: %v and %v", got[0]["opt"], got[2]["opt"])
		}
	}
}

// TestC43 writes a list whose parent is null.
func TestC43(t *testing.T) {
	type inner struct {
		I []int64          `parquet:"i,list"`
		O []int64          `parquet:"o,optional,list"`
		M map[string]int64 `parquet:"m,optional"`
	}
	type row struct {
		O    *inner   `parquet:"o"`
		List []*inner `parquet:"list,optional,list"`
	}
	roundTrip(t, []row{
		{O: &inner{I: []int64{1}}},
		{O: nil},
		{O: &inner{I: []int64{2}, O: []int64{}, M: map[string]int64{}}, List: []*inner{nil, {I: []int64{3}, O: []int64{4}, M: map[string]int64{"k": 5}}}},
		{List: []*inner{}},
	})
}

// TestC44 writes instants given in several zones, of every age, as instants.
func TestC44(t *testing.T) {
	newYork, err := time.LoadLocation("America/New_York")
	must(t, err)
	type row struct {
		Nano   time.Time
		Same   time.Time  `parquet:",timestamp(nanosecond)"`
		Micro  time.Time  `parquet:",timestamp(microsecond)"`
		Milli  time.Time  `parquet:",timestamp(millisecond)"`
		Ptr    *time.Time `parquet:",timestamp(microsecond)"`
		Micros int64      `parquet:",timestamp(microsecond)"`
	}
	var rows []row
	for _, at := range []time.Time{
		time.Date(2025, 3, 9, 1, 59, 59, 999999999, newYork), time.Date(2025, 11, 2, 1, 30, 0, 1, newYork).Add(time.Hour),
		time.Date(1900, 1, 1, 0, 0, 0, 1, time.UTC), time.Date(2262, 1, 1, 0, 0, 0, 1, time.UTC), time.Unix(0, -1),
		time.Date(1969, 12, 31, 23, 59, 59, 999_000_000, time.FixedZone("", -5*3600-45*60)),
	} {
		rows = append(rows, row{at, at, at, at, &at, at.UnixMicro()})
	}
	name := publish(t, Config{}, rows)
	f := readers(t, name)
	want := slices.Clone(rows) // what is finer than the unit is cut off
	for i, r := range rows {
		want[i].Micro, want[i].Milli, want[i].Ptr = time.UnixMicro(r.Micro.UnixMicro()), time.UnixMilli(r.Milli.UnixMilli()), ptr(time.UnixMicro(r.Ptr.UnixMicro()))
	}
	compare(t, "pyarrow", f.PyArrow, want)
	compare(t, "DuckDB", f.DuckDB, want)
	for column, want := range map[string]string{
		"Nano": "timestamp[ns, tz=UTC]", "Same": "timestamp[ns, tz=UTC]", "Micro": "timestamp[us, tz=UTC]", "Milli": "timestamp[ms, tz=UTC]",
		"Ptr": "timestamp[us, tz=UTC]",
	} {
		if got := f.Types[column]; got != want {
			t.Errorf("pyarrow: column %s is a %s, want %s", column, got, want)
		}
		if got := f.DuckDBTypes[column]; got != "TIMESTAMP WITH TIME ZONE" {
			t.Errorf("DuckDB: column %s is a %s", column, got)
		}
	}
	for i, g := range f.PyArrow { // to the nanosecond, where the column has them
		if want := printedTime(rows[i].Nano); g["Nano"] != want || g["Same"] != want {
			t.Errorf("pyarrow, row %d: %v and %v, want %v", i, g["Nano"], g["Same"], want)
		}
	}
}

// TestC37 refuses what is not UTF-8, wherever it is; besides, instants that don't fit, and what is not JSON.
func TestC37(t *testing.T) {
	bad := "ok\xff\xfe"
	type inner struct{ S string }
	type row struct {
		S    string
		P    *string
		N    named
		L    []string `parquet:",list"`
		M    map[string]string
		In   inner
		Ptr  *inner
		Ptrs []*inner `parquet:",list"`
		B    []byte   `parquet:",string"`
		J    string   `parquet:",json"`
		T    time.Time
		TP   *time.Time
		TM   time.Time `parquet:",timestamp(microsecond)"`
		embedded
	}
	good := row{J: "1", T: time.Unix(0, 0), TM: time.Unix(0, 0)}
	tests := map[string]func(r *row){
		"S":                                 func(r *row) { r.S = bad },
		"P":                                 func(r *row) { r.P = &bad },
		"N":                                 func(r *row) { r.N = named(bad) },
		`L": element 1`:                     func(r *row) { r.L = []string{"a", bad} },
		`M": key "k": the text`:             func(r *row) { r.M = map[string]string{"k": bad} },
		"M":                                 func(r *row) { r.M = map[string]string{bad: "v"} },
		`In": column "S`:                    func(r *row) { r.In.S = bad },
		`Ptr": column "S`:                   func(r *row) { r.Ptr = &inner{bad} },
		`Ptrs": element 1: column "S`:       func(r *row) { r.Ptrs = []*inner{nil, {bad}} },
		"B":                                 func(r *row) { r.B = []byte(bad) },
		"J":                                 func(r *row) { r.J = "{" },
		"Embedded":                          func(r *row) { r.Embedded = bad },
		`T": the time 0001-01-01`:           func(r *row) { r.T = time.Time{} },
		`TP": the time 2262-04-12`:          func(r *row) { r.TP = ptr(time.Date(2262, 4, 12, 0, 0, 0, 0, time.UTC)) },
		`TM": the time 300000-01-01`:        func(r *row) { r.TM = time.Date(300000, 1, 1, 0, 0, 0, 0, time.UTC) },
		`TP": the time 1677-09-20 00:00:00`: func(r *row) { r.TP = ptr(time.Date(1677, 9, 20, 0, 0, 0, 0, time.UTC)) },
	}
	dir := t.TempDir()
	s, err := Open[row](Config{Dir: dir})
	must(t, err)
	defer s.Close(t.Context())
	for where, spoil := range tests {
		r := good
		spoil(&r)
		err := s.Write(t.Context(), []row{good, r, good})
		if !isPermanent(err) || !strings.Contains(err.Error(), `column "`+where) {
			t.Errorf("column %s: %v, want a Permanent error that names it", where, err)
		}
	}
	if entries, err := os.ReadDir(dir); err != nil || len(entries) != 1 {
		t.Errorf("of batches with a bad row there is %v, %v", entries, err)
	}
	must(t, s.Write(t.Context(), []row{good}))
}
