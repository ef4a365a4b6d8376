// Package sqldb is a sink for tables: the rows of a batch are inserted or upserted in one transaction through database/sql.
//
// Package pipeline feeds it, and it feeds a database whose driver the program imports. SQLite is spoken
// (modernc.org/sqlite, github.com/mattn/go-sqlite3).
//
//	type Count struct {
//		Route  string    `db:"route,key"`
//		Minute time.Time `db:"minute,key"`
//		Hits   int64     `db:"hits"`
//		Worst  *float64  `db:"worst"` // NULL if nil
//	}
//
//	counts.To(sqldb.Upsert[Count](db, "errors_per_route", sqldb.CreateTable()), pipeline.Batch(1000, time.Second))
//
// # Columns
//
// Each exported field is a column; the tag db:"name" names it, db:"-" leaves it out, and without a tag RouteKey is
// route_key. Fields of embedded structs are columns too. After the name a tag may have "key", as option Key, and "type=…", the column's type for
// CreateTable. A pointer or sql.Null is a column that may be NULL; so is []byte, which is NULL if nil.
//
//	Go                      stored in SQLite as
//	bool                    INTEGER 0, 1
//	int…, uint…             INTEGER; a uint64 over 1<<63-1 is refused
//	float32, float64        REAL; NaN is refused (SQLite would store NULL), -0 comes back as 0
//	string                  TEXT; invalid UTF-8 is refused, zero bytes are kept, see below
//	[]byte                  BLOB
//	time.Time               TEXT, UTC with nine decimals: 2025-12-01T13:04:05.000000007Z, which sorts by time and doesn't
//	                        depend on anybody's time zone; years 0 to 9999
//	time.Duration           INTEGER, nanoseconds
//	driver.Valuer           what it returns, by the rules above; CreateTable makes the column ANY unless type=… says more
//
// A value is never changed to make it fit. One that does not fit makes Write return an error that is pipeline.Permanent, so
// that the topology finds the tuple and sends it to the dead letters with the reason; so does a row that a constraint
// refuses. Everything else (database locked, disk full, table missing) is waited out. Before the first row the table is
// compared with the struct, and a column whose type would change what it is given is refused: SQLite makes the text "007" a
// number in a column of type INTEGER.
//
// A text with a zero byte is stored whole in SQLite, and drivers return it whole, but SQL functions such as length, and the sqlite3
// shell, stop at the zero byte; hex(x) shows all of it. In PostgreSQL such a text can't be stored.
package sqldb
