package sqldb

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math"
	"reflect"
	"strings"
	"time"
)

// sqlite is the dialect of SQLite.
type sqlite struct{}

func (sqlite) quote(name string) string { return `"` + strings.ReplaceAll(name, `"`, `""`) + `"` }

func (d sqlite) quoteAll(names []string) string {
	quoted := make([]string, len(names))
	for i, n := range names {
		quoted[i] = d.quote(n)
	}
	return strings.Join(quoted, ", ")
}

func (d sqlite) table(t *table) string {
	if t.schema == "" {
		return d.quote(t.name)
	}
	return d.quote(t.schema) + "." + d.quote(t.name)
}

func (d sqlite) insert(t *table, rows int) string {
	var b strings.Builder
	fmt.Fprintf(&b, "INSERT INTO %s (%s) VALUES ", d.table(t), d.quoteAll(t.names()))
	row := "(?" + strings.Repeat(", ?", len(t.columns)-1) + ")"
	b.WriteString(row)
	b.WriteString(strings.Repeat(", "+row, rows-1))
	if len(t.keys) == 0 {
		return b.String()
	}
	fmt.Fprintf(&b, " ON CONFLICT (%s) DO ", d.quoteAll(t.keys))
	var set []string
	for _, c := range t.columns {
		if t.update && !c.key {
			set = append(set, fmt.Sprintf("%s = excluded.%[1]s", d.quote(c.name)))
		}
	}
	if len(set) == 0 {
		b.WriteString("NOTHING")
	} else {
		b.WriteString("UPDATE SET " + strings.Join(set, ", "))
	}
	return b.String()
}

// create makes a STRICT table: SQLite then refuses what other writers would put in with another type.
func (d sqlite) create(t *table) string {
	var b strings.Builder
	fmt.Fprintf(&b, "CREATE TABLE IF NOT EXISTS %s (", d.table(t))
	for i, c := range t.columns {
		if i > 0 {
			b.WriteString(", ")
		}
		fmt.Fprintf(&b, "%s %s", d.quote(c.name), d.columnType(c))
		if !c.null || c.key {
			b.WriteString(" NOT NULL")
		}
	}
	if len(t.keys) > 0 {
		fmt.Fprintf(&b, ", PRIMARY KEY (%s)", d.quoteAll(t.keys))
	}
	b.WriteString(") STRICT")
	return b.String()
}

func (sqlite) columnType(c column) string {
	if c.typ != "" {
		return c.typ
	}
	switch c.holds {
	case kindBool, kindInt, kindUint:
		return "INTEGER"
	case kindFloat:
		return "REAL"
	case kindText, kindTime:
		return "TEXT"
	case kindBytes:
		return "BLOB"
	default:
		return "ANY"
	}
}

const timeLayout = "2006-01-02T15:04:05.000000000Z"

func (sqlite) time(t time.Time) (any, error) {
	t = t.UTC()
	if y := t.Year(); y < 0 || y > 9999 {
		return nil, fmt.Errorf("the year %d has not four digits", y)
	}
	return t.Format(timeLayout), nil
}

func (sqlite) unsigned(n uint64) (any, error) {
	if n > math.MaxInt64 {
		return nil, fmt.Errorf("%d is more than an INTEGER can hold", n)
	}
	return int64(n), nil
}

func (sqlite) float(f float64) (any, error) {
	if math.IsNaN(f) {
		return nil, errors.New("NaN would be stored as NULL")
	}
	return f, nil
}

// parameters: statements grow slower with more, and no row of a batch is on its way for long.
func (sqlite) parameters() int { return 300 }

// The result codes that say something about a row; see sqlite.org/rescode.html.
const (
	sqliteTooBig     = 18
	sqliteConstraint = 19
	sqliteMismatch   = 20
)

func (sqlite) permanent(err error) bool {
	switch sqliteCode(err) & 0xff { // the rest of an extended code is detail
	case sqliteTooBig, sqliteConstraint, sqliteMismatch:
		return true
	}
	return false
}

// sqliteCode finds the result code in the errors of both drivers without importing them; 0 if there is none.
func sqliteCode(err error) int {
	var coded interface{ Code() int } // modernc.org/sqlite
	if errors.As(err, &coded) {
		return coded.Code()
	}
	for ; err != nil; err = errors.Unwrap(err) { // github.com/mattn/go-sqlite3: a struct with a field Code
		if v := reflect.ValueOf(err); v.Kind() == reflect.Struct && v.Type().Name() == "Error" {
			if code := v.FieldByName("Code"); code.IsValid() && code.CanInt() {
				return int(code.Int())
			}
		}
	}
	return 0
}

// existing is a column of the table as it is in the database.
type existing struct {
	name, typ string
	notNull   bool
	fallback  bool // has a default value
	key       int  // place in the primary key, from 1
	hidden    int  // 2, 3: generated
}

func (d sqlite) check(ctx context.Context, db *sql.DB, t *table) error {
	columns, strict, err := d.describe(ctx, db, t)
	if err != nil {
		return err
	}
	if len(columns) == 0 {
		return fmt.Errorf("there is no table %s; create it, or use option CreateTable", d.table(t))
	}
	var errs []error
	for _, c := range t.columns {
		e, ok := columns[strings.ToLower(c.name)]
		switch {
		case !ok:
			errs = append(errs, fmt.Errorf("table %s has no column %q", d.table(t), c.name))
		case e.hidden > 1:
			errs = append(errs, fmt.Errorf("column %q of table %s is generated and can't be written", c.name, d.table(t)))
		case !keeps(affinityOf(e.typ, strict), c.holds):
			errs = append(errs, fmt.Errorf("column %q of table %s has type %q, which may change a %v that is stored in it; give it type %s",
				c.name, d.table(t), e.typ, c.holds, d.columnType(c)))
		}
		delete(columns, strings.ToLower(c.name))
	}
	for _, e := range columns {
		rowid := e.key == 1 && strings.EqualFold(e.typ, "INTEGER") // is numbered by itself
		if e.notNull && !e.fallback && e.hidden == 0 && !rowid {
			errs = append(errs, fmt.Errorf("column %q of table %s must not be NULL, has no default and is in no field", e.name, d.table(t)))
		}
	}
	return errors.Join(errs...)
}

// describe returns the columns of the table by lower-case name, none if there is no table, and whether it is STRICT.
func (d sqlite) describe(ctx context.Context, db *sql.DB, t *table) (columns map[string]existing, strict bool, err error) {
	schema := sql.NullString{String: t.schema, Valid: t.schema != ""}
	rows, err := db.QueryContext(ctx, `SELECT c.name, c.type, c."notnull", c.dflt_value IS NOT NULL, c.pk, c.hidden, l.strict
		FROM pragma_table_list(?1) l JOIN pragma_table_xinfo(l.name, l.schema) c WHERE ?2 IS NULL OR l.schema = ?2 COLLATE NOCASE`,
		t.name, schema)
	if err != nil {
		return nil, false, fmt.Errorf("describe table %s: %w", d.table(t), err)
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	columns = make(map[string]existing)
	for rows.Next() {
		var e existing
		if err := rows.Scan(&e.name, &e.typ, &e.notNull, &e.fallback, &e.key, &e.hidden, &strict); err != nil {
			return nil, false, fmt.Errorf("describe table %s: %w", d.table(t), err)
		}
		columns[strings.ToLower(e.name)] = e
	}
	return columns, strict, rows.Err()
}

// affinity is what SQLite does to values by the type of their column; see sqlite.org/datatype3.html, 3.1.
type affinity uint8

const (
	affinityNone affinity = iota // BLOB in the document
	affinityInteger
	affinityText
	affinityReal
	affinityNumeric
)

func affinityOf(typ string, strict bool) affinity {
	typ = strings.ToUpper(typ)
	has := func(parts ...string) bool {
		for _, p := range parts {
			if strings.Contains(typ, p) {
				return true
			}
		}
		return false
	}
	switch {
	case has("INT"):
		return affinityInteger
	case has("CHAR", "CLOB", "TEXT"):
		return affinityText
	case typ == "" || has("BLOB") || strict && typ == "ANY":
		return affinityNone
	case has("REAL", "FLOA", "DOUB"): //nolint:misspell // as SQLite looks for it
		return affinityReal
	default:
		return affinityNumeric
	}
}

// keeps tells whether a value of kind k comes back as it went in. A time is text that never looks like a number.
func keeps(a affinity, k kind) bool {
	switch k {
	case kindBool, kindInt, kindUint:
		return a != affinityText && a != affinityReal
	case kindFloat:
		return a != affinityText
	case kindText:
		return a == affinityText || a == affinityNone
	default:
		return true
	}
}
