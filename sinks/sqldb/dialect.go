package sqldb

import (
	"context"
	"database/sql"
	"fmt"
	"strings"
	"time"
)

// dialect is what databases do differently. An implementation holds no state.
type dialect interface {
	// insert returns the statement that stores so many rows of t.
	insert(t *table, rows int) string
	// create returns the statement that makes the table if it isn't there.
	create(t *table) string
	// check compares the table in the database with t.
	check(ctx context.Context, db *sql.DB, t *table) error
	// time returns what an instant is stored as.
	time(t time.Time) (any, error)
	// integer returns what an unsigned number is stored as.
	unsigned(n uint64) (any, error)
	// float returns what a number is stored as.
	float(f float64) (any, error)
	// permanent tells that an error will come again with the same rows.
	permanent(err error) bool
	// parameters is how many a statement should have at most.
	parameters() int
}

func (d Dialect) of(db *sql.DB) dialect {
	if d == Recognise {
		switch driver := fmt.Sprintf("%T", db.Driver()); driver {
		case "*sqlite.Driver", "*sqlite3.SQLiteDriver":
			d = SQLite
		default:
			panic(fmt.Sprintf("sqldb: no dialect is known for the driver %s; name it with ForDialect", driver))
		}
	}
	if d != SQLite {
		panic(fmt.Sprintf("sqldb: there is no dialect %d", d))
	}
	return sqlite{}
}

// table is where rows go, and how.
type table struct {
	schema, name string // schema may be empty
	columns      []column
	keys         []string
	update       bool // a row with the same key is replaced; otherwise it is kept
}

func newTable(name string, columns []column, keys []string, update bool) (*table, error) {
	t := &table{name: name, columns: columns, update: update}
	if schema, rest, found := strings.Cut(name, "."); found {
		t.schema, t.name = schema, rest
	}
	if t.name == "" {
		return nil, fmt.Errorf("%q is no name of a table", name)
	}
	for _, k := range keys {
		i := t.find(k)
		if i < 0 {
			return nil, fmt.Errorf("key column %q is not among the columns %s", k, strings.Join(t.names(), ", "))
		}
		columns[i].key = true
	}
	for _, c := range columns {
		if c.key {
			t.keys = append(t.keys, c.name)
		}
	}
	if update && len(t.keys) == 0 {
		return nil, fmt.Errorf("an upsert needs a key: option Key, or %q in a tag", "key")
	}
	return t, nil
}

func (t *table) find(name string) int {
	for i := range t.columns {
		if t.columns[i].name == name {
			return i
		}
	}
	return -1
}

func (t *table) names() []string {
	names := make([]string, len(t.columns))
	for i := range t.columns {
		names[i] = t.columns[i].name
	}
	return names
}
