package sqldb

import (
	"bytes"
	"database/sql"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"go.uber.org/goleak"
	_ "modernc.org/sqlite" // the driver
)

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m, goleak.IgnoreTopFunction("database/sql.(*DB).connectionOpener"))
}

// database is an SQLite database in a file of its own.
type database struct {
	*sql.DB
	file string
	tb   testing.TB
}

// newDatabase opens one; pragmas such as "journal_mode(wal)" are set on each connection.
func newDatabase(tb testing.TB, pragmas ...string) *database {
	tb.Helper()
	d := &database{file: filepath.Join(tb.TempDir(), "test.db"), tb: tb}
	dsn := "file:" + d.file + "?_txlock=immediate"
	for _, p := range append([]string{"journal_mode(wal)", "busy_timeout(0)"}, pragmas...) {
		dsn += "&_pragma=" + p
	}
	db, err := sql.Open("sqlite", dsn)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { db.Close() })
	d.DB = db
	return d
}

func (d *database) exec(query string) {
	d.tb.Helper()
	if _, err := d.Exec(query); err != nil {
		d.tb.Fatalf("%s: %v", query, err)
	}
}

// shell has the sqlite3 shell, a program that shares no code with our driver, run a query in the file, under the environment given, and
// returns the rows.
func (d *database) shell(query string, env ...string) []map[string]any {
	d.tb.Helper()
	cmd := exec.Command("sqlite3", "-readonly", "-json", "-cmd", ".timeout 5000", d.file, query)
	cmd.Env = append(os.Environ(), env...)
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	if err := cmd.Run(); err != nil {
		d.tb.Fatalf("sqlite3 reads what was written (Debian: apt-get install sqlite3): %v: %s", err, errs.String())
	}
	if out.Len() == 0 {
		return nil
	}
	dec := json.NewDecoder(&out)
	dec.UseNumber()
	var rows []map[string]any
	if err := dec.Decode(&rows); err != nil {
		d.tb.Fatalf("what sqlite3 printed: %v", err)
	}
	return rows
}

// stored is a value as the sqlite3 shell sees it: its type, and its bytes or its literal.
type stored string

// look returns the values of the columns in each row, in the order given.
func (d *database) look(table, order string, columns ...string) [][]stored {
	d.tb.Helper()
	var exprs []string
	for i, c := range columns {
		exprs = append(exprs, fmt.Sprintf(
			`typeof(%[2]s) || ' ' || CASE typeof(%[2]s) WHEN 'text' THEN hex(%[2]s) WHEN 'blob' THEN hex(%[2]s) ELSE quote(%[2]s) END AS c%[1]d`, i, c))
	}
	var all [][]stored
	for _, row := range d.shell("SELECT " + strings.Join(exprs, ", ") + " FROM " + table + " ORDER BY " + order) {
		var values []stored
		for i := range columns {
			values = append(values, stored(row[fmt.Sprintf("c%d", i)].(string)))
		}
		all = append(all, values)
	}
	return all
}

func storedText(s string) stored {
	return stored("text " + strings.ToUpper(hex.EncodeToString([]byte(s))))
}
func storedBlob(b []byte) stored { return stored("blob " + strings.ToUpper(hex.EncodeToString(b))) }
func storedInt(n int64) stored   { return stored("integer " + strconv.FormatInt(n, 10)) }

const storedNull = stored("null NULL")

// float returns the number of a real value.
func (s stored) float() (float64, error) {
	text, ok := strings.CutPrefix(string(s), "real ")
	if !ok {
		return 0, fmt.Errorf("%s is not a real", s)
	}
	return strconv.ParseFloat(strings.Replace(text, "9.0e+999", "Inf", 1), 64) // how quote writes infinity
}
