package sqldb

import (
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/metaq-go/metaq/pipeline"
	"github.com/metaq-go/metaq/pipeline/pipelinetest"
)

type hit struct {
	ID    int64 `db:"id,key"`
	Host  string
	Bytes uint32
}

func hitOf(i int) hit { return hit{int64(i), "host " + strconv.Itoa(i), uint32(i * 1000)} }

func isPermanent(err error) bool {
	var p interface{ Permanent() bool }
	return errors.As(err, &p) && p.Permanent()
}

func must(tb testing.TB, err error) {
	tb.Helper()
	if err != nil {
		tb.Fatal(err)
	}
}

// hits reads the table with the sqlite3 shell.
func (d *database) hits() (all []hit, err error) {
	for _, row := range d.shell("SELECT CAST(id AS TEXT) id, host, CAST(bytes AS TEXT) bytes FROM hits ORDER BY rowid") {
		id, idErr := strconv.ParseInt(row["id"].(string), 10, 64)
		n, nErr := strconv.ParseUint(row["bytes"].(string), 10, 32)
		err = errors.Join(err, idErr, nErr)
		all = append(all, hit{id, row["host"].(string), uint32(n)})
	}
	return all, err
}

const (
	keyedHits = "CREATE TABLE hits (id INTEGER NOT NULL UNIQUE, host TEXT NOT NULL, bytes INTEGER NOT NULL) STRICT"
	plainHits = "CREATE TABLE hits (id INTEGER NOT NULL, host TEXT NOT NULL, bytes INTEGER NOT NULL) STRICT"
)

// plainHit is a hit without a key.
type plainHit struct {
	ID    int64
	Host  string
	Bytes uint32
}

func TestSuite(t *testing.T) {
	same := func(h hit) hit { return h }
	t.Run("insert by key", func(t *testing.T) {
		suite(t, keyedHits, true, same, func(db *sql.DB) pipeline.Sink[hit] { return Insert[hit](db, "hits") })
	})
	t.Run("upsert", func(t *testing.T) {
		suite(t, keyedHits, true, same, func(db *sql.DB) pipeline.Sink[hit] { return Upsert[hit](db, "hits") })
	})
	t.Run("table created", func(t *testing.T) {
		suite(t, "", true, same, func(db *sql.DB) pipeline.Sink[hit] { return Insert[hit](db, "hits", CreateTable()) })
	})
	t.Run("insert without key", func(t *testing.T) {
		plain := func(h hit) plainHit { return plainHit(h) }
		suite(t, plainHits, false, plain, func(db *sql.DB) pipeline.Sink[plainHit] { return Insert[plainHit](db, "main.hits") })
	})
}

func suite[T any](t *testing.T, create string, exact bool, to func(hit) T, open func(*sql.DB) pipeline.Sink[T]) {
	pipelinetest.SinkSuite(t, pipelinetest.SinkCase[T]{
		New: func(t *testing.T) pipelinetest.SinkPlace[T] {
			db := newDatabase(t)
			if create == "" { // for the test that reads an empty place
				must(t, Insert[hit](db.DB, "hits", CreateTable()).Prepare(t.Context()))
			} else {
				db.exec(create)
			}
			return pipelinetest.SinkPlace[T]{
				Open: func() (pipeline.Sink[T], error) { return open(db.DB), nil },
				Read: func() (all []T, err error) {
					hits, err := db.hits()
					for _, h := range hits {
						all = append(all, to(h))
					}
					return all, err
				},
				Break: func() func() { // somebody else writes
					tx, err := db.Begin()
					must(t, err)
					return func() { must(t, tx.Rollback()) }
				},
			}
		},
		Value: func(i int) T { return to(hitOf(i)) },
		Bad:   func() T { return to(hit{1 << 40, "not \xff UTF-8", 1}) },
		Exact: exact,
	})
}

// everything has a field of each kind.
type everything struct {
	ID       int `db:"id,key"`
	Bool     bool
	Int8     int8
	Int64    int64
	Uint64   uint64
	Float    float64
	Float32  float32
	Text     string
	Named    named
	Bytes    []byte
	At       time.Time
	Took     time.Duration
	TextPtr  *string
	TimePtr  *time.Time
	NullInt  sql.NullInt64
	NullText sql.Null[named]
	Money    money `db:"money,type=TEXT"`
	embedded
	left   int
	Absent string `db:"-"`
}

type named string

type embedded struct{ Order string } // a reserved word

// money is a driver.Valuer.
type money int

func (m money) Value() (driver.Value, error) { return fmt.Sprintf("%d.%02d", m/100, m%100), nil }

var everyColumn = []string{
	"id", "bool", "int8", "int64", "uint64", "float", "float32", "text", "named", "bytes", "at", "took",
	"text_ptr", "time_ptr", "null_int", "null_text", "money", `"order"`,
}

func (e *everything) check(tb rapid.TB, got []stored) {
	tb.Helper()
	ptr := func(s *string) stored {
		if s == nil {
			return storedNull
		}
		return storedText(*s)
	}
	at := func(t time.Time) stored { return storedText(t.UTC().Format("2006-01-02T15:04:05.000000000Z")) }
	want := []stored{
		storedInt(int64(e.ID)), storedInt(int64(map[bool]int{true: 1}[e.Bool])), storedInt(int64(e.Int8)), storedInt(e.Int64),
		storedInt(int64(e.Uint64)), "", "", storedText(e.Text), storedText(string(e.Named)), storedNull, at(e.At),
		storedInt(int64(e.Took)), ptr(e.TextPtr), storedNull, storedNull, storedNull,
		storedText(fmt.Sprintf("%d.%02d", e.Money/100, e.Money%100)), storedText(e.Order),
	}
	if e.Bytes != nil {
		want[9] = storedBlob(e.Bytes)
	}
	if e.TimePtr != nil {
		want[13] = at(*e.TimePtr)
	}
	if e.NullInt.Valid {
		want[14] = storedInt(e.NullInt.Int64)
	}
	if e.NullText.Valid {
		want[15] = storedText(string(e.NullText.V))
	}
	for i, w := range want {
		switch everyColumn[i] {
		case "float":
			sameFloat(tb, got[i], e.Float)
		case "float32":
			sameFloat(tb, got[i], float64(e.Float32))
		default:
			if got[i] != w {
				tb.Errorf("row %d, column %s: sqlite3 reads %s, want %s", e.ID, everyColumn[i], got[i], w)
			}
		}
	}
}

func sameFloat(tb rapid.TB, got stored, want float64) {
	tb.Helper()
	if f, err := got.float(); err != nil || f != want { // 0 == -0: see the package comment
		tb.Errorf("sqlite3 reads %s (%v), want %v", got, err, want)
	}
}

func TestEveryKind(t *testing.T) {
	text, at := "a", time.Date(2025, 12, 1, 13, 4, 5, 7, time.UTC)
	empty := ""
	rows := []everything{
		{ID: 1, At: at},
		{
			ID: 2, Bool: true, Int8: math.MinInt8, Int64: math.MinInt64, Uint64: math.MaxInt64, Float: math.MaxFloat64,
			Float32: math.SmallestNonzeroFloat32, Text: "zero \x00 byte, 日本 \U0001F600 'quoted'", Named: "n", Bytes: []byte{0, 0xff, '\''},
			At: time.Date(9999, 12, 31, 23, 59, 59, 999999999, time.UTC), Took: -1, TextPtr: &text, TimePtr: &at,
			NullInt: sql.NullInt64{Int64: 3, Valid: true}, NullText: sql.Null[named]{V: "x", Valid: true}, Money: 1299,
			embedded: embedded{"first"}, left: 1, Absent: "absent",
		},
		{ID: 3, Int64: math.MaxInt64, Float: math.Inf(1), Bytes: []byte{}, TextPtr: &empty, Float32: float32(math.Inf(-1))},
		{ID: 4, Float: math.Copysign(0, -1), Float32: 0.1, Text: "007", At: time.Date(0, 1, 1, 0, 0, 0, 0, time.UTC)},
		{ID: 5, Float: 5e-324, At: at.In(time.FixedZone("west", -12*3600-30*60))},
	}
	db := newDatabase(t)
	must(t, Upsert[everything](db.DB, "everything", CreateTable()).Write(t.Context(), rows))
	got := db.look("everything", "id", everyColumn...)
	if len(got) != len(rows) {
		t.Fatalf("sqlite3 reads %d rows, want %d", len(got), len(rows))
	}
	for i := range rows {
		rows[i].check(t, got[i])
	}
}

func TestAnyValues(t *testing.T) {
	one := rapid.Custom(func(t *rapid.T) everything {
		at := time.Unix(rapid.Int64Range(-62e9, 253e9).Draw(t, "second"), rapid.Int64Range(0, 999999999).Draw(t, "nanosecond"))
		return everything{
			Bool: rapid.Bool().Draw(t, "bool"), Int8: rapid.Int8().Draw(t, "int8"), Int64: rapid.Int64().Draw(t, "int64"),
			Uint64: rapid.Uint64Max(math.MaxInt64).Draw(t, "uint64"), Float: rapid.Float64().Draw(t, "float"),
			Float32: rapid.Float32().Draw(t, "float32"), Text: rapid.String().Draw(t, "text"),
			Bytes: rapid.SliceOf(rapid.Byte()).Draw(t, "bytes"), At: at, Took: time.Duration(rapid.Int64().Draw(t, "took")),
			TextPtr: rapid.Ptr(rapid.String(), true).Draw(t, "pointer"),
		}
	})
	rapid.Check(t, func(rt *rapid.T) {
		rows := rapid.SliceOfN(one, 1, 40).Draw(rt, "rows")
		for i := range rows {
			rows[i].ID = i
		}
		db := newDatabase(t, "synchronous(off)")
		must(t, Insert[everything](db.DB, "everything", CreateTable()).Write(t.Context(), rows))
		for i, got := range db.look("everything", "id", everyColumn...) {
			rows[i].check(rt, got)
		}
		db.Close()
	})
}

func TestBadValues(t *testing.T) {
	year := time.Date(10000, 1, 1, 0, 0, 0, 0, time.UTC)
	tests := []struct {
		name, column string
		row          everything
	}{
		{"C37 invalid UTF-8", "text", everything{Text: "\xff\xfe"}},
		{"invalid UTF-8 behind a pointer", "text_ptr", everything{TextPtr: ptrTo("a\xc0")}},
		{"invalid UTF-8 from a Valuer", "null_text", everything{NullText: sql.Null[named]{V: "\xff", Valid: true}}},
		{"number too large", "uint64", everything{Uint64: math.MaxInt64 + 1}},
		{"not a number", "float", everything{Float: math.NaN()}},
		{"not a small number", "float32", everything{Float32: float32(math.NaN())}},
		{"year 10000", "at", everything{At: year}},
		{"year -1", "time_ptr", everything{TimePtr: ptrTo(time.Date(-1, 1, 1, 0, 0, 0, 0, time.UTC))}},
	}
	db := newDatabase(t)
	sink := Insert[everything](db.DB, "everything", CreateTable())
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			err := sink.Write(t.Context(), []everything{{ID: 1}, tt.row, {ID: 2}})
			if !isPermanent(err) || !strings.Contains(err.Error(), strconv.Quote(tt.column)) {
				t.Errorf("got %v, want a Permanent error that names column %q", err, tt.column)
			}
		})
	}
	if got := db.look("everything", "id", "id"); len(got) > 0 {
		t.Errorf("of batches with a bad row %v was stored", got)
	}
}

func ptrTo[T any](v T) *T { return &v }

func TestErrorsOfTheDatabase(t *testing.T) {
	type row struct {
		ID   int `db:"id,key"`
		Name string
		N    *int
	}
	db := newDatabase(t)
	db.exec("CREATE TABLE r (id INTEGER PRIMARY KEY, name TEXT UNIQUE, n INTEGER NOT NULL CHECK (n < 10)) STRICT")
	sink := Insert[row](db.DB, "r")
	must(t, sink.Write(t.Context(), []row{{1, "a", ptrTo(1)}, {1, "same key", ptrTo(2)}}))
	for name, r := range map[string]row{
		"unique":   {2, "a", ptrTo(1)},
		"check":    {2, "b", ptrTo(10)},
		"not null": {2, "b", nil},
	} {
		if err := sink.Write(t.Context(), []row{r}); !isPermanent(err) {
			t.Errorf("%s: %v, want a Permanent error", name, err)
		}
	}
	locked, err := db.Begin()
	must(t, err)
	if err := sink.Write(t.Context(), []row{{3, "c", ptrTo(3)}}); err == nil || isPermanent(err) {
		t.Errorf("locked by another writer: %v, want an error that can be waited out", err)
	}
	must(t, locked.Rollback())
	must(t, sink.Write(t.Context(), []row{{3, "c", ptrTo(3)}}))
	db.exec("DROP TABLE r")
	if err := sink.Write(t.Context(), []row{{4, "d", ptrTo(4)}}); err == nil || isPermanent(err) {
		t.Errorf("table dropped: %v, want an error that can be waited out", err)
	}
	must(t, sink.Close(t.Context()))
	must(t, sink.Close(t.Context()))
	if err := sink.Write(t.Context(), []row{{4, "d", ptrTo(4)}}); err == nil || isPermanent(err) {
		t.Errorf("write after close: %v, want an error", err)
	}
}

// TestCommitBusy has the COMMIT fail because a reader holds the file, and the batch written again.
func TestCommitBusy(t *testing.T) {
	db := newDatabase(t, "journal_mode(delete)")
	db.exec(keyedHits)
	for i := range 3 {
		db.exec(fmt.Sprintf("INSERT INTO hits VALUES (%d, 'old', 0)", -i-1))
	}
	sink := Upsert[hit](db.DB, "hits")
	reader, err := db.Query("SELECT id FROM hits")
	must(t, err)
	reader.Next()
	if err := sink.Write(t.Context(), []hit{hitOf(1)}); err == nil || isPermanent(err) {
		t.Errorf("write while a reader holds the file: %v, want an error that can be waited out", err)
	}
	must(t, reader.Close())
	must(t, sink.Write(t.Context(), []hit{hitOf(1)}))
	if hits, err := db.hits(); err != nil || len(hits) != 4 {
		t.Errorf("stored %v, %v; want 4 rows", hits, err)
	}
}

func TestKeys(t *testing.T) {
	rows := []hit{{1, "first", 1}, {2, "b", 2}, {1, "last", 3}}
	tests := []struct {
		name string
		open func(db *sql.DB) pipeline.Sink[hit]
		want []hit
	}{
		{"insert keeps the first", func(db *sql.DB) pipeline.Sink[hit] { return Insert[hit](db, "hits") }, []hit{{1, "first", 1}, {2, "b", 2}}},
		{"upsert keeps the last", func(db *sql.DB) pipeline.Sink[hit] { return Upsert[hit](db, "hits") }, []hit{{1, "last", 3}, {2, "b", 2}}},
	}
	for _, tt := range tests {
		for _, size := range []int{1, 3} {
			t.Run(fmt.Sprintf("%s, batches of %d", tt.name, size), func(t *testing.T) {
				db := newDatabase(t)
				db.exec(keyedHits)
				sink := tt.open(db.DB)
				for batch := range slices.Chunk(rows, size) {
					must(t, sink.Write(t.Context(), batch))
				}
				if got, err := db.hits(); err != nil || !slices.Equal(got, tt.want) {
					t.Errorf("stored %v, %v; want %v", got, err, tt.want)
				}
			})
		}
	}
	t.Run("nothing but a key", func(t *testing.T) {
		db := newDatabase(t)
		type only struct {
			A string
			B int
		}
		sink := Upsert[only](db.DB, "only", Key("a", "b"), CreateTable())
		must(t, sink.Write(t.Context(), []only{{"x", 1}, {"x", 1}, {"x", 2}}))
		if got := db.look("only", "b", "a", "b"); len(got) != 2 {
			t.Errorf("stored %v, want two rows", got)
		}
	})
}
