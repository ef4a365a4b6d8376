package parquet

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"testing"
	"time"

	pq "github.com/parquet-go/parquet-go"
	"github.com/parquet-go/parquet-go/compress/zstd"
)

type logRow struct {
	ID      int64     `parquet:"id"`
	Time    time.Time `parquet:"time"`
	Host    string    `parquet:"host,dict"`
	Route   string    `parquet:"route,dict"`
	Status  int32     `parquet:"status"`
	Latency float64   `parquet:"latency"`
	Message string    `parquet:"message"`
}

func logRows(n int) []logRow {
	rows := make([]logRow, n)
	at := time.Date(2025, 12, 1, 13, 4, 5, 7, time.UTC)
	for i := range rows {
		rows[i] = logRow{
			int64(i), at.Add(time.Duration(i) * time.Millisecond), "host-1.example", fmt.Sprintf("/api/v1/orders/%d", i%50), 200, 1.25 * float64(i),
			fmt.Sprintf("a message of some length, as in a log, number %d", i*7919%n),
		}
	}
	return rows
}

// BenchmarkWrite writes the rows of a log in batches; bare is parquet-go alone, with a sync of the file.
func BenchmarkWrite(b *testing.B) {
	for _, size := range []int{1000, 10_000, 100_000} {
		rows := logRows(size)
		b.Run(fmt.Sprintf("batch=%d/sink", size), func(b *testing.B) {
			s, err := Open[logRow](Config{Dir: b.TempDir()})
			must(b, err)
			defer s.Close(b.Context())
			measure(b, size, func() error { return s.Write(b.Context(), rows) })
		})
		b.Run(fmt.Sprintf("batch=%d/bare", size), func(b *testing.B) {
			dir, n := b.TempDir(), 0
			w := pq.NewGenericWriter[logRow](io.Discard, pq.Compression(&zstd.Codec{Level: zstd.SpeedDefault}))
			measure(b, size, func() error {
				n++
				return bare(w, filepath.Join(dir, fmt.Sprint(n)), rows)
			})
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

func bare(w *pq.GenericWriter[logRow], name string, rows []logRow) error {
	f, err := os.Create(name)
	if err != nil {
		return err
	}
	defer f.Close()
	w.Reset(f)
	if _, err := w.Write(rows); err != nil {
		return err
	}
	if err := w.Close(); err != nil {
		return err
	}
	return f.Sync()
}
