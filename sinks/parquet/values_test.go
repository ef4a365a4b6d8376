package parquet

import (
	"math"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

func must(tb testing.TB, err error) {
	tb.Helper()
	if err != nil {
		tb.Fatal(err)
	}
}

func ptr[T any](v T) *T { return &v }

// publish writes rows as one file to a folder of the test's and returns its name.
func publish[T any](tb testing.TB, cfg Config, rows []T) string {
	tb.Helper()
	if cfg.Dir == "" {
		cfg.Dir = tb.TempDir()
	}
	s, err := Open[T](cfg)
	must(tb, err)
	must(tb, s.Write(tb.Context(), rows))
	must(tb, s.Close(tb.Context()))
	names, err := filepath.Glob(filepath.Join(cfg.Dir, "*.parquet"))
	must(tb, err)
	if len(names) != 1 {
		tb.Fatalf("published are %v, want one file", names)
	}
	return names[0]
}

// roundTrip writes rows and has both readers compare every value.
func roundTrip[T any](tb testing.TB, rows []T) found {
	tb.Helper()
	f := readers(tb, publish(tb, Config{RowGroup: 2}, rows))
	compare(tb, "pyarrow", f.PyArrow, rows)
	compare(tb, "DuckDB", f.DuckDB, rows)
	return f
}

type scalars struct {
	Bool   bool `parquet:"bool"`
	I8     int8
	I16    int16
	I32    int32
	I64    int64
	I      int
	U8     uint8
	U16    uint16
	U32    uint32
	U64    uint64
	U      uint
	F32    float32
	F64    float64
	Text   string `parquet:"text with a space"`
	Named  named
	Bytes  []byte
	Fixed  [3]byte
	At     time.Time
	Took   time.Duration
	Left   string `parquet:"-"`
	hidden string
	embedded
}

type named string

type embedded struct {
	Embedded string
}

func TestScalars(t *testing.T) {
	at := time.Date(2025, 12, 1, 13, 4, 5, 123456789, time.UTC)
	epoch := time.Unix(0, 0)
	rows := []scalars{
		{At: at},
		{
			true, math.MaxInt8, math.MaxInt16, math.MaxInt32, math.MaxInt64, math.MaxInt64, math.MaxUint8, math.MaxUint16, math.MaxUint32,
			math.MaxUint64, math.MaxUint64, math.MaxFloat32, math.MaxFloat64, "a\x00b\n\"日本\" \U0001F600", "n",
			[]byte{0, 0xff},
			[3]byte{1, 0, 0xff},
			at.Add(1), math.MaxInt64, "left", "hidden",
			embedded{"e"},
		},
		{
			false, math.MinInt8, math.MinInt16, math.MinInt32, math.MinInt64, math.MinInt64, 0, 0, 0, 0, 0, math.SmallestNonzeroFloat32,
			math.SmallestNonzeroFloat64, "", "",
			[]byte{},
			[3]byte{},
			time.Date(1900, 1, 1, 0, 0, 0, 0, time.UTC), math.MinInt64, "", "",
			embedded{},
		},
		{F32: float32(math.NaN()), F64: math.NaN(), Text: strings.Repeat("long ", 100_000), At: epoch},
		{F32: float32(math.Inf(1)), F64: math.Inf(-1), At: epoch},
		{F32: float32(math.Copysign(0, -1)), F64: math.Copysign(0, -1), Text: "\x00", At: epoch},
	}
	f := roundTrip(t, rows)
	if want := []int{2, 2, 2}; !slices.Equal(f.Groups, want) {
		t.Errorf("row groups %v, want %v", f.Groups, want)
	}
	if want := []string{"ZSTD"}; !slices.Equal(f.Codecs, want) {
		t.Errorf("compressed by %v, want %v", f.Codecs, want)
	}
	for column, want := range map[string]string{
		"bool": "bool", "I8": "int8", "I16": "int16", "I32": "int32", "I": "int64", "U8": "uint8", "U16": "uint16", "U32": "uint32",
		"U64": "uint64", "F32": "float", "F64": "double", "Named": "string", "Bytes": "binary", "Fixed": "fixed_size_binary[3]",
		"At": "timestamp[ns, tz=UTC]", "Took": "int64",
	} {
		if got := f.Types[column]; got != want {
			t.Errorf("column %s is a %s, want %s", column, got, want)
		}
	}
}

func TestPointers(t *testing.T) {
	type row struct {
		Bool  *bool
		I8    *int8
		I64   *int64 `parquet:",optional"`
		U64   *uint64
		F64   *float64
		Text  *string
		Fixed *[2]byte
		At    *time.Time
		Took  *time.Duration
		In    *struct{ A *string }
		Bytes []byte `parquet:",optional"` // nil is null
	}
	roundTrip(t, []row{
		{},
		{
			ptr(false), ptr[int8](0), ptr[int64](0), ptr[uint64](0), ptr(0.0), ptr(""), ptr([2]byte{}), ptr(time.Unix(0, 0)),
			ptr(time.Duration(0)), &struct{ A *string }{},
			[]byte{},
		},
		{
			ptr(true), ptr[int8](-1), ptr[int64](-1), ptr[uint64](1), ptr(-1.5), ptr("text"), ptr([2]byte{1, 2}), ptr(time.Unix(1, 1)),
			ptr(time.Duration(-1)), &struct{ A *string }{ptr("")},
			[]byte{0},
		},
	})
}

func TestOptions(t *testing.T) {
	type row struct {
		Dict   string    `parquet:",dict"`
		Delta  int64     `parquet:",delta"`
		DeltaT time.Time `parquet:",delta"`
		DeltaS string    `parquet:",delta"`
		Split  float64   `parquet:",split"`
		Plain  uint32    `parquet:",plain,uncompressed"`
		Snappy string    `parquet:",snappy"`
		Gzip   []string  `parquet:",optional,list,gzip"`
		Brotli string    `parquet:",brotli"`
		LZ4    string    `parquet:",lz4"`
		ID     string    `parquet:"with_id,id(7)"`
		JSON   string    `parquet:",json"`
		JSONb  []byte    `parquet:",json"`
		Text   []byte    `parquet:",string"`
		TextO  []byte    `parquet:",string,optional"`
		Any    string    `parquet:",bytes"`
		Day    int32     `parquet:",date"`
		Dash   string    `parquet:"-,"`
	}
	r := func(s string, n int64, text []byte) row {
		return row{
			s, n, time.Unix(0, n), s, float64(n), uint32(n), s, []string{s, s}, s, s, s, `{"a":1}`, []byte(`[null]`), []byte(s), text, s + "\xff", int32(n), s,
		}
	}
	f := roundTrip(t, []row{r("a", 1, nil), r("", -1, []byte{}), r("a", 1<<40, []byte("x")), r("b", -1<<60, nil)})
	if want := []string{"BROTLI", "GZIP", "LZ4", "SNAPPY", "UNCOMPRESSED", "ZSTD"}; !slices.Equal(f.Codecs, want) {
		t.Errorf("compressed by %v, want %v", f.Codecs, want)
	}
}

func TestUUIDAndEnum(t *testing.T) {
	type row struct {
		ID   [16]byte `parquet:",uuid"`
		Enum string   `parquet:",enum"`
	}
	f := readers(t, publish(t, Config{}, []row{{ID: [16]byte{0xfe, 15: 1}, Enum: "RED"}}))
	if got := f.PyArrow[0]; got["ID"] != "b:fe000000000000000000000000000001" || got["Enum"] != "b:524544" {
		t.Errorf("pyarrow: %v", got)
	}
	if got := f.DuckDBTypes["ID"]; got != "UUID" {
		t.Errorf("DuckDB: a %s", got)
	}
}

func TestMaps(t *testing.T) {
	type row struct {
		M   map[string]int64
		Opt map[string]string `parquet:",optional"`
		Ptr map[string]*int64
		In  map[string]struct {
			L  []string `parquet:",optional,list"`
			At time.Time
		}
		Lists map[string][]string
		ByInt map[int32]string
	}
	roundTrip(t, []row{
		{},
		{M: map[string]int64{}, Opt: map[string]string{}},
		{
			M: map[string]int64{"a": 1, "": 2}, Opt: map[string]string{"k": ""}, Ptr: map[string]*int64{"nil": nil, "one": ptr[int64](1)},
			In: map[string]struct {
				L  []string `parquet:",optional,list"`
				At time.Time
			}{"x": {nil, time.Unix(1, 1)}, "y": {[]string{}, time.Unix(0, 0)}},
			Lists: map[string][]string{"a": {"b"}, "c": {}}, ByInt: map[int32]string{-1: "minus"},
		},
	})
}

// TestAnyValues draws rows and compares every value.
func TestAnyValues(t *testing.T) {
	type inner struct {
		Text *string
		L    []float64 `parquet:",optional,list"`
	}
	type row struct {
		Text  string
		Bytes []byte `parquet:",optional"`
		I     int64
		U     uint64
		F     float64
		At    time.Time
		List  []*string `parquet:",optional,list"`
		In    *inner
		Ins   []inner `parquet:",optional,list"`
		M     map[string]int32
	}
	text := rapid.OneOf(rapid.String(), rapid.SampledFrom([]string{"", "\x00", "a\x00"}))
	in := rapid.Custom(func(t *rapid.T) inner {
		return inner{rapid.Ptr(text, true).Draw(t, "text"), slice(rapid.Float64()).Draw(t, "floats")}
	})
	one := rapid.Custom(func(t *rapid.T) row {
		return row{
			Text: text.Draw(t, "text"), Bytes: slice(rapid.Byte()).Draw(t, "bytes"), I: rapid.Int64().Draw(t, "i"), U: rapid.Uint64().Draw(t, "u"),
			F: rapid.Float64().Draw(t, "f"), At: time.Unix(0, rapid.Int64Range(math.MinInt64+1e10, math.MaxInt64-1e10).Draw(t, "at")),
			List: slice(rapid.Ptr(text, true)).Draw(t, "list"), In: rapid.Ptr(in, true).Draw(t, "in"), Ins: slice(in).Draw(t, "ins"),
			M: rapid.MapOfN(text, rapid.Int32(), 0, 3).Draw(t, "map"),
		}
	})
	var rows []row // one file: the readers take a second to start
	for seed := range 400 {
		rows = append(rows, one.Example(seed))
	}
	f := readers(t, publish(t, Config{RowGroup: 150}, rows))
	compare(t, "pyarrow", f.PyArrow, rows)
	compare(t, "DuckDB", f.DuckDB, rows)
}

// slice draws nil too.
func slice[T any](of *rapid.Generator[T]) *rapid.Generator[[]T] {
	return rapid.OneOf(rapid.Just([]T(nil)), rapid.SliceOfN(of, 0, 4))
}
