package sqldb

import (
	"database/sql"
	"fmt"
	"strings"
	"testing"
	"time"
)

// TestTableDoesNotFit has Prepare and Write refuse a table in which values would be changed or rows could never be stored.
func TestTableDoesNotFit(t *testing.T) {
	type row struct {
		ID   int64 `db:"id"`
		Text string
		Real float64
		At   time.Time
		Flag bool
	}
	tests := []struct {
		name, table string
		want        string // in the error; "" if it fits
	}{
		{"all right", "id INTEGER PRIMARY KEY, text TEXT, real REAL, at TEXT, flag INTEGER", ""},
		{"other names of types", "id BIGINT, text VARCHAR(9), real DOUBLE PRECISION, at DATETIME, flag BOOLEAN", ""},
		{"no types", "id, text, real, at, flag", ""},
		{"names in another case", "ID, TEXT, REAL, AT, FLAG", ""},
		{"columns left out that fill themselves", "n INTEGER PRIMARY KEY, id, text, real, at, flag, a, b NOT NULL DEFAULT 1, c AS (id + 1)", ""},
		{"C47 column missing", "id INTEGER, text TEXT, real REAL, at TEXT", `no column "flag"`},
		{"C47 column that can't be left out", "id, text, real, at, flag, extra INTEGER NOT NULL", `"extra"`},
		{"generated column", "id, text, real, at, flag AS (id)", `"flag" of table "r" is generated`},
		{"number in a text column", "id TEXT, text, real, at, flag", `column "id"`},
		{"large number in a real column", "id REAL, text, real, at, flag", `column "id"`},
		{"text in a number column", "id, text INTEGER, real, at, flag", `column "text"`},
		{"text in a numeric column", "id, text DECIMAL, real, at, flag", `column "text"`},
		{"real in a text column", "id, text, real TEXT, at, flag", `column "real"`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			db := newDatabase(t)
			db.exec("CREATE TABLE r (" + tt.table + ")")
			sink := Insert[row](db.DB, "r", CreateTable())
			rows := []row{{ID: 1<<53 + 1, Text: "007", Real: 0.5, Flag: true}}
			for what, err := range map[string]error{"Prepare": sink.Prepare(t.Context()), "Write": sink.Write(t.Context(), rows)} {
				switch {
				case tt.want == "" && err != nil:
					t.Fatalf("%s: %v", what, err)
				case tt.want != "" && (err == nil || !strings.Contains(err.Error(), tt.want)):
					t.Errorf("%s: %v, want an error about %s", what, err, tt.want)
				case isPermanent(err):
					t.Errorf("%s: %v is Permanent; the table may be mended", what, err)
				}
			}
			if tt.want != "" {
				return
			}
			got := fmt.Sprint(db.look("r", "id", "id", "text", "real", "at", "flag"))
			at := storedText("0001-01-01T00:00:00.000000000Z")
			if want := fmt.Sprint([][]stored{{storedInt(1<<53 + 1), storedText("007"), "real 0.5", at, storedInt(1)}}); got != want {
				t.Errorf("stored %s, want %s", got, want)
			}
		})
	}
}

func TestStrictAny(t *testing.T) {
	type row struct{ Text string }
	db := newDatabase(t)
	db.exec("CREATE TABLE strict (text ANY) STRICT")
	db.exec("CREATE TABLE loose (text ANY)")
	if err := Insert[row](db.DB, "strict").Prepare(t.Context()); err != nil {
		t.Errorf("ANY keeps everything in a STRICT table: %v", err)
	}
	if err := Insert[row](db.DB, "loose").Prepare(t.Context()); err == nil {
		t.Error("ANY makes numbers of texts in a table that is not STRICT, no error")
	}
}

func TestTableMissing(t *testing.T) {
	db := newDatabase(t)
	sink := Insert[hit](db.DB, "hits")
	if err := sink.Write(t.Context(), []hit{hitOf(1)}); err == nil || isPermanent(err) || !strings.Contains(err.Error(), "CreateTable") {
		t.Errorf("no table: %v, want an error that can be waited out and says what to do", err)
	}
	db.exec(plainHits) // without the index the key needs
	if err := sink.Write(t.Context(), []hit{hitOf(1)}); err == nil || isPermanent(err) {
		t.Errorf("no index: %v, want an error that can be waited out", err)
	}
	db.exec("CREATE UNIQUE INDEX key ON hits (id)")
	must(t, sink.Write(t.Context(), []hit{hitOf(1)}))
}

// TestAnotherSchema writes to a table of an attached database whose name is in use in the main one too.
func TestAnotherSchema(t *testing.T) {
	db := newDatabase(t)
	db.SetMaxOpenConns(1) // ATTACH is for one connection
	other := newDatabase(t)
	db.exec("CREATE TABLE hits (other)")
	db.exec("ATTACH '" + other.file + "' AS \"the other\"")
	sink := Insert[hit](db.DB, "the other.hits", CreateTable())
	must(t, sink.Write(t.Context(), []hit{hitOf(1)}))
	if hits, err := other.hits(); err != nil || len(hits) != 1 {
		t.Errorf("stored %v, %v", hits, err)
	}
}

func TestPanics(t *testing.T) {
	db := newDatabase(t)
	type deep struct{ A **int }
	type pointerEmbedded struct{ *embedded }
	type twice struct {
		A int
		B int `db:"a"`
	}
	type hidden struct {
		a int `db:"a"`
	}
	_ = hidden{}.a
	type option struct {
		A int `db:"a,keys"`
	}
	tests := map[string]struct {
		want string
		open func()
	}{
		"no struct":         {"int is not a struct", func() { Insert[int](db.DB, "t") }},
		"a time":            {"time.Time is not a struct", func() { Insert[time.Time](db.DB, "t") }},
		"no fields":         {"no exported field", func() { Insert[struct{}](db.DB, "t") }},
		"a map":             {"field M: a map[string]int", func() { Insert[struct{ M map[string]int }](db.DB, "t") }},
		"two pointers":      {"field A", func() { Insert[deep](db.DB, "t") }},
		"pointer embedded":  {"no exported field", func() { Insert[pointerEmbedded](db.DB, "t") }},
		"column twice":      {`two fields are column "a"`, func() { Insert[twice](db.DB, "t") }},
		"unexported":        {"field a has a db tag", func() { Insert[hidden](db.DB, "t") }},
		"option":            {`no option "keys"`, func() { Insert[option](db.DB, "t") }},
		"upsert sans key":   {"an upsert needs a key", func() { Upsert[plainHit](db.DB, "t") }},
		"key not a column":  {`key column "nope"`, func() { Insert[plainHit](db.DB, "t", Key("nope")) }},
		"no table":          {"no name of a table", func() { Insert[plainHit](db.DB, "") }},
		"no database":       {"without a database", func() { Insert[plainHit](nil, "t") }},
		"unheard-of driver": {"ForDialect", func() { Insert[plainHit](sql.OpenDB(strange{}), "t") }},
		"no such dialect":   {"no dialect 99", func() { Insert[plainHit](db.DB, "t", ForDialect(99)) }},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			defer func() {
				if got := fmt.Sprint(recover()); !strings.Contains(got, tt.want) {
					t.Errorf("panic %q, want one about %q", got, tt.want)
				}
			}()
			tt.open()
		})
	}
	Insert[plainHit](sql.OpenDB(strange{}), "t", ForDialect(SQLite)) // doesn't
}
