package file

import (
	"fmt"
	"strconv"
	"testing"
	"time"
)

// benchmarkRow is a row of a log; appendRow encodes it without reflection.
type benchmarkRow struct {
	ID      int64     `json:"id"`
	Time    time.Time `json:"time"`
	Host    string    `json:"host"`
	Route   string    `json:"route"`
	Status  int       `json:"status"`
	Latency float64   `json:"latency"`
	Message string    `json:"message"`
}

func appendRow(dst []byte, r benchmarkRow) ([]byte, error) {
	dst = append(dst, `{"id":`...)
	dst = strconv.AppendInt(dst, r.ID, 10)
	dst = append(dst, `,"time":"`...)
	dst = r.Time.AppendFormat(dst, time.RFC3339Nano)
	dst = append(dst, `","host":`...)
	dst = strconv.AppendQuote(dst, r.Host)
	dst = append(dst, `,"route":`...)
	dst = strconv.AppendQuote(dst, r.Route)
	dst = append(dst, `,"status":`...)
	dst = strconv.AppendInt(dst, int64(r.Status), 10)
	dst = append(dst, `,"latency":`...)
	dst = strconv.AppendFloat(dst, r.Latency, 'g', -1, 64)
	dst = append(dst, `,"message":`...)
	dst = strconv.AppendQuote(dst, r.Message)
	return append(dst, '}'), nil
}

func BenchmarkWrite(b *testing.B) {
	rows := make([]benchmarkRow, 10_000)
	at := time.Date(2025, 12, 1, 13, 4, 5, 7, time.UTC)
	for i := range rows {
		rows[i] = benchmarkRow{int64(i), at, "host-1.example", "/api/v1/orders", 200, 1.25 * float64(i), "a message of some length, as in a log"}
	}
	for _, bench := range []struct {
		name   string
		encode func([]byte, benchmarkRow) ([]byte, error)
	}{{"json", nil}, {"own", appendRow}} {
		for _, size := range []int{1, 100, 1000, 10_000} {
			b.Run(fmt.Sprintf("%s/batch=%d", bench.name, size), func(b *testing.B) {
				s, err := Open(Config[benchmarkRow]{Dir: b.TempDir(), Encode: bench.encode, MaxBytes: 64 << 20})
				must(b, err)
				defer s.Close(b.Context())
				must(b, s.Write(b.Context(), rows[:size]))
				b.SetBytes(s.Stats().Bytes)
				b.ReportAllocs()
				for b.Loop() {
					must(b, s.Write(b.Context(), rows[:size]))
				}
				b.ReportMetric(float64(b.N*size)/b.Elapsed().Seconds(), "rows/s")
			})
		}
	}
}

// BenchmarkEncode is the part of a Write that needs the processor.
func BenchmarkEncode(b *testing.B) {
	r := benchmarkRow{
		4711, time.Date(2025, 12, 1, 13, 4, 5, 7, time.UTC), "host-1.example", "/api/v1/orders", 200, 1.25, "a message of some length, as in a log",
	}
	for name, encode := range map[string]func([]byte, benchmarkRow) ([]byte, error){"json": nil, "own": appendRow} {
		b.Run(name, func(b *testing.B) {
			e := encoderOf(encode)
			line, err := e.line(nil, &r)
			must(b, err)
			b.SetBytes(int64(len(line)))
			b.ReportAllocs()
			for b.Loop() {
				line, _ = e.line(line[:0], &r)
			}
		})
	}
}
