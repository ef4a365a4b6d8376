package sqldb

import (
	"context"
	"database/sql/driver"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/metaq-go/metaq/pipeline"
	"github.com/metaq-go/metaq/pipeline/pipelinetest"
)

// strange is the connector of a driver nobody knows.
type strange struct{}

func (strange) Connect(context.Context) (driver.Conn, error) { return nil, errors.New("no connection") }
func (strange) Driver() driver.Driver                        { return strange{} }
func (strange) Open(string) (driver.Conn, error)             { return nil, errors.New("no connection") }

// TestC36 stores zero bytes in texts as they are: SQLite takes them. Its shell stops at one when it prints, hex shows that all is there.
func TestC36(t *testing.T) {
	db := newDatabase(t)
	rows := make([]hit, 10_000)
	for i := range rows {
		rows[i] = hitOf(i)
	}
	rows[4711].Host = "before\x00after"
	must(t, Insert[hit](db.DB, "hits", CreateTable()).Write(t.Context(), rows))
	got := db.look("hits", "id", "id", "host")
	if len(got) != len(rows) {
		t.Fatalf("stored %d rows, want %d", len(got), len(rows))
	}
	for i, g := range got {
		if g[0] != storedInt(rows[i].ID) || g[1] != storedText(rows[i].Host) {
			t.Fatalf("row %d is %v, want %v", i, g, rows[i])
		}
	}
	var host string
	must(t, db.QueryRow("SELECT host FROM hits WHERE id = 4711").Scan(&host))
	if host != rows[4711].Host {
		t.Errorf("the driver reads %q", host)
	}
}

// TestC38 has 1 % bad rows of five kinds among 10 000: the good ones are stored once, each bad one is in the dead letters with its
// reason and its place in the source.
func TestC38(t *testing.T) {
	type row struct {
		ID    int64 `db:"id,key"`
		Name  string
		N     uint64
		Share *float64
	}
	makeBad := []struct {
		reason string
		spoil  func(r *row)
	}{
		{"UTF-8", func(r *row) { r.Name = "\xff\xfe" }},
		{"INTEGER", func(r *row) { r.N = math.MaxUint64 }},
		{"NaN", func(r *row) { r.Share = ptrTo(math.NaN()) }},
		{"NOT NULL", func(r *row) { r.Share = nil }},
		{"CHECK", func(r *row) { r.Share = ptrTo(1.5) }},
	}
	rows := make([]row, 10_000)
	reasons := make(map[int64]string)
	for i := range rows {
		rows[i] = row{ID: int64(i), Name: "name " + strconv.Itoa(i), N: uint64(i), Share: ptrTo(0.5)}
		if i%100 == 57 {
			bad := makeBad[i/100%len(makeBad)]
			bad.spoil(&rows[i])
			reasons[int64(i)] = bad.reason
		}
	}
	db := newDatabase(t, "synchronous(off)")
	db.exec("CREATE TABLE r (id INTEGER PRIMARY KEY, name TEXT, n INTEGER, share REAL NOT NULL CHECK (share <= 1)) STRICT")
	src := pipelinetest.NewSource("rows", rows)
	src.Finish()
	var letters pipelinetest.Sink[pipeline.DeadLetter]
	top := pipeline.New("c38", pipeline.Config{Mode: pipeline.Ordered, DeadLetters: &letters})
	pipeline.From(top, src, pipelinetest.Same[row]).To(Insert[row](db.DB, "r"), pipeline.Batch(1000, time.Second))
	must(t, top.Run(t.Context()))
	src.Check(t)

	for _, l := range letters.Values() {
		reason := reasons[l.Origin.Offset]
		if reason == "" || !strings.Contains(l.Cause, reason) {
			t.Errorf("%v is a dead letter because of %q, want %q", l.Origin, l.Cause, reason)
		}
		delete(reasons, l.Origin.Offset)
	}
	if len(reasons) > 0 {
		t.Errorf("not among the dead letters: %v", reasons)
	}
	got := db.look("r", "id", "id", "name")
	if len(got) != 9900 {
		t.Errorf("stored %d rows, want 9900", len(got))
	}
	for _, g := range got {
		id, _ := strconv.Atoi(strings.TrimPrefix(string(g[0]), "integer "))
		if id%100 == 57 || g[1] != storedText("name "+strconv.Itoa(id)) {
			t.Fatalf("stored is %v", g)
		}
	}
}

// TestC39 stores instants in whatever zone they are given, in a process whose zone isn't UTC, and reads them in another.
func TestC39(t *testing.T) {
	newYork, err := time.LoadLocation("America/New_York")
	must(t, err)
	local := time.Local
	time.Local = newYork
	defer func() { time.Local = local }()
	type row struct {
		ID   int `db:"id,key"`
		At   time.Time
		Date string // a day is no instant: it is kept as text
	}
	instant := time.Date(2025, 3, 9, 6, 59, 59, 999999999, time.UTC) // a second later New York puts its clocks forward
	var rows []row
	for i, at := range []time.Time{
		instant, instant.In(newYork), instant.Local(), instant.In(time.FixedZone("", 5*3600+45*60)),
		time.Date(2025, 11, 2, 1, 30, 0, 0, newYork), time.Date(2025, 11, 2, 1, 30, 0, 0, newYork).Add(time.Hour), // the hour that comes twice
		time.Date(1900, 1, 1, 0, 0, 0, 0, time.Local),
	} {
		rows = append(rows, row{i, at, "2025-03-09"})
	}
	db := newDatabase(t)
	must(t, Insert[row](db.DB, "r", CreateTable()).Write(t.Context(), rows))
	for _, tz := range []string{"UTC", "America/New_York", "Asia/Kathmandu"} {
		got := db.shell("SELECT strftime('%s', substr(at, 1, 19)) second, substr(at, 21, 9) nanosecond, date FROM r ORDER BY id", "TZ="+tz)
		for i, g := range got {
			want := map[string]any{
				"second": strconv.FormatInt(rows[i].At.Unix(), 10), "nanosecond": fmt.Sprintf("%09d", rows[i].At.Nanosecond()), "date": "2025-03-09",
			}
			if fmt.Sprint(g) != fmt.Sprint(want) {
				t.Errorf("TZ=%s: row %d reads %v, want %v", tz, i, g, want)
			}
		}
	}
	byText := db.shell("SELECT id FROM r WHERE id > 3 ORDER BY at")
	if got := fmt.Sprint(byText); got != "[map[id:6] map[id:4] map[id:5]]" {
		t.Errorf("ordered by text: %v", got)
	}
}

// TestC41 has four sinks upsert overlapping keys in random order: a writer that meets a lock waits and tries again.
func TestC41(t *testing.T) {
	type count struct {
		Key  string `db:"key,key"`
		Last int
	}
	const keys, each = 20, 500
	db := newDatabase(t, "synchronous(off)")
	must(t, Upsert[count](db.DB, "counts", CreateTable()).Prepare(t.Context()))
	rng := rand.New(rand.NewPCG(1, 2))
	var parts [][]count
	for range 4 {
		var part []count
		for i := range each {
			part = append(part, count{"key " + strconv.Itoa(rng.IntN(keys)), i})
		}
		parts = append(parts, part)
	}
	src := pipelinetest.NewSource("counts", parts...)
	src.Finish()
	top := pipeline.New("c41", pipeline.Config{Backoff: time.Millisecond, MaxBackoff: 10 * time.Millisecond})
	pipeline.From(top, src, pipelinetest.Same[count], pipeline.Parallel(4)).ToEach(func(pipeline.Task) (pipeline.Sink[count], error) {
		return Upsert[count](db.DB, "counts"), nil
	}, pipeline.Parallel(4), pipeline.Batch(50, time.Second))
	must(t, top.Run(t.Context()))
	src.Check(t)
	if got := db.look("counts", "key", "key"); len(got) != keys {
		t.Errorf("stored %d keys, want %d", len(got), keys)
	}
}

// TestMattn recognises the errors of the other driver, which have no method for their code.
func TestMattn(t *testing.T) {
	for code, want := range map[ErrNo]bool{18: true, 19: true, 20: true, 5: false, 13: false, 1: false} {
		err := fmt.Errorf("write: %w", Error{Code: code})
		if got := (sqlite{}).permanent(err); got != want {
			t.Errorf("result code %d is permanent: %v, want %v", code, got, want)
		}
	}
	if (sqlite{}).permanent(errors.New("something else")) {
		t.Error("an unknown error is permanent")
	}
}

// Error looks like that of github.com/mattn/go-sqlite3.
type Error struct{ Code ErrNo }

type ErrNo int

func (Error) Error() string { return "constraint failed" }

func TestSnake(t *testing.T) {
	for name, want := range map[string]string{
		"ID": "id", "RouteKey": "route_key", "HTTPStatus": "http_status", "A": "a", "UserID2": "user_id2", "already_snake": "already_snake",
	} {
		if got := snake(name); got != want {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
}

// TestBatchBytes holds Size to what a row weighs.
func TestBatchBytes(t *testing.T) {
	db := newDatabase(t)
	s := Insert[everything](db.DB, "everything")
	small, large := s.Size(everything{}), s.Size(everything{Text: strings.Repeat("x", 1000), TextPtr: ptrTo("12345678")})
	if small < 50 || small > 300 || large-small < 1000 || large-small > 1010 {
		t.Errorf("sizes %d and %d", small, large)
	}
}

type logRow struct {
	ID          int64 `db:"id"`
	Host, Route string
	Status      int
	Latency     float64
	Message     string
}

func logRows(n int) []logRow {
	rows := make([]logRow, n)
	for i := range rows {
		rows[i] = logRow{int64(i), "host-1.example", "/api/v1/orders", 200, 1.25 * float64(i), "a message of some length, as in a log"}
	}
	return rows
}

// BenchmarkInsert writes the rows of a log, six columns, in batches; bare is what a program of its own would do.
func BenchmarkInsert(b *testing.B) {
	for _, size := range []int{1, 100, 1000, 10_000} {
		rows := logRows(size)
		b.Run(fmt.Sprintf("batch=%d/sink", size), func(b *testing.B) {
			sink := Insert[logRow](newDatabase(b).DB, "log", CreateTable())
			measure(b, size, func() error { return sink.Write(b.Context(), rows) })
		})
		b.Run(fmt.Sprintf("batch=%d/bare", size), func(b *testing.B) {
			db := newDatabase(b)
			must(b, Insert[logRow](db.DB, "log", CreateTable()).Prepare(b.Context()))
			measure(b, size, func() error { return bare(b.Context(), db, rows) })
		})
	}
}

func measure(b *testing.B, rows int, write func() error) {
	b.ReportAllocs()
	for b.Loop() {
		must(b, write())
	}
	b.ReportMetric(float64(b.N*rows)/b.Elapsed().Seconds(), "rows/s")
}

func bare(ctx context.Context, db *database, rows []logRow) error {
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	stmt, err := tx.PrepareContext(ctx, "INSERT INTO log (id, host, route, status, latency, message) VALUES (?, ?, ?, ?, ?, ?)")
	if err != nil {
		return errors.Join(err, tx.Rollback())
	}
	for r := range slices.Values(rows) {
		if _, err := stmt.ExecContext(ctx, r.ID, r.Host, r.Route, r.Status, r.Latency, r.Message); err != nil {
			return errors.Join(err, tx.Rollback())
		}
	}
	return errors.Join(stmt.Close(), tx.Commit())
}
