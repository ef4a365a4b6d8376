package demo

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/parquet-go/parquet-go"

	"github.com/metaq-go/metaq/client"
)

// Ledger is what every station of the way says at the end, read back from where the records are.
type Ledger struct {
	Source    string   `json:"source"` // what the lines came from
	Lines     int64    `json:"lines_written"`
	Bytes     int64    `json:"bytes_written"`
	Rotations int      `json:"rotations"`
	Topic     tally    `json:"topic"`
	SQLite    tally    `json:"sqlite"`
	Parquet   tally    `json:"parquet"`
	Members   []tally  `json:"broadcast"`
	Counted   int64    `json:"counted"` // sum of the table counts; -1 if there is none
	Alerts    int64    `json:"alerts"`
	Missing   int64    `json:"missing"` // over all stations
	Doubled   int64    `json:"doubled"`
	Differs   int64    `json:"differs"`
	Seconds   float64  `json:"seconds"`
	Rate      float64  `json:"lines_per_second"`
	P50       float64  `json:"latency_p50_ms"` // from the line's time to its row
	P99       float64  `json:"latency_p99_ms"`
	Requests  []int    `json:"requests_per_second,omitempty"`
	Problems  []string `json:"problems"` // why it does not add up
	Dir       string   `json:"dir"`
}

// OK reports whether the ledger adds up.
func (l *Ledger) OK() bool { return len(l.Problems) == 0 }

// ledger reads everything back.
func (f *flow) ledger() (l Ledger, err error) {
	l = Ledger{Source: "demo application", Problems: []string{}, Counted: -1, Alerts: f.alerts.count(), Seconds: f.took.Seconds(), Dir: f.dir}
	names, identify := []string{f.cfg.Log}, func(_ []byte, pos int64) (int64, error) { return pos, nil }
	if f.app != nil {
		_, l.Bytes, l.Rotations = f.app.log.written()
		l.Requests = f.app.log.perSecond()
		if names, err = filepath.Glob(filepath.Join(f.dir, "logs", "access.log*")); err != nil {
			return l, err
		}
		identify = lineNumber
	} else {
		l.Source = f.cfg.Log
		info, err := os.Stat(f.cfg.Log)
		if err != nil {
			return l, err
		}
		l.Bytes = info.Size()
	}
	t, err := readTruth(names, identify)
	if err != nil {
		return l, err
	}
	l.Lines = int64(len(t.lines))
	if l.Topic, err = f.readTopic(t); err != nil {
		return l, err
	}
	if l.SQLite, err = f.readSQLite(t); err != nil {
		return l, err
	}
	if l.Parquet, err = f.readParquet(t); err != nil {
		return l, err
	}
	for i := range f.seen {
		l.Members = append(l.Members, f.seen[i].testify(t))
	}
	if f.app != nil {
		if err := f.db.QueryRow(`SELECT coalesce(sum(n), 0) FROM counts`).Scan(&l.Counted); err != nil {
			return l, fmt.Errorf("read counts: %w", err)
		}
	}
	l.Rate = float64(l.Lines) / max(l.Seconds, 1e-9)
	l.P50, l.P99 = millis(f.latency.quantile(50)), millis(f.latency.quantile(99))
	l.judge()
	return l, nil
}

func millis(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }

// lineNumber finds the number of a line of the application's log.
func lineNumber(line []byte, pos int64) (int64, error) {
	var l accessLine
	if err := json.Unmarshal(line, &l); err != nil || l.N < 1 {
		return 0, fmt.Errorf("line at %d is none of ours: %.100q", pos, line)
	}
	return l.N, nil
}

// readTopic reads every partition of the topic from its start to its end. The broker has been stopped by now: it is
// opened once more, which also shows that it can be.
func (f *flow) readTopic(t *truth) (tally, error) {
	decode := parse
	if f.app == nil {
		decode = raw
	}
	s := newStation(t)
	err := f.withBroker(func(ctx context.Context, c *client.Client) error {
		parts, err := c.Partitions(ctx, topic)
		if err != nil {
			return err
		}
		for _, p := range parts {
			start, end, err := c.Offsets(ctx, topic, p)
			if err != nil {
				return err
			}
			for r := c.Reader(topic, p, start); r.Offset() < end; {
				b, err := r.Next(ctx)
				if err != nil {
					return err
				}
				for m := range b.Messages() {
					rec, err := decode(m)
					if err != nil {
						return err
					}
					s.add(rec.identity(), m.Payload)
				}
			}
		}
		return nil
	})
	return s.tally(), err
}

func (f *flow) readSQLite(t *truth) (tally, error) {
	s := newStation(t)
	rows, err := f.db.Query(`SELECT seq, pos, line FROM records`)
	if err != nil {
		return tally{}, fmt.Errorf("read SQLite: %w", err)
	}
	defer rows.Close()
	for rows.Next() {
		var r record
		if err := rows.Scan(&r.Seq, &r.Pos, &r.Line); err != nil {
			return tally{}, fmt.Errorf("read SQLite: %w", err)
		}
		s.add(r.identity(), nonNil(r.Line))
	}
	return s.tally(), rows.Err()
}

func (f *flow) readParquet(t *truth) (tally, error) {
	s := newStation(t)
	names, err := filepath.Glob(filepath.Join(f.dir, "parquet", "*.parquet"))
	if err != nil {
		return tally{}, err
	}
	slices.Sort(names)
	for _, name := range names {
		rows, err := parquet.ReadFile[record](name)
		if err != nil {
			return tally{}, fmt.Errorf("read %s: %w", name, err)
		}
		for i := range rows {
			s.add(rows[i].identity(), nonNil(rows[i].Line))
		}
	}
	return s.tally(), nil
}

// nonNil makes an empty line one that is compared.
func nonNil(b []byte) []byte {
	if b == nil {
		return []byte{}
	}
	return b
}

// judge compares the stations.
func (l *Ledger) judge() {
	check := func(name string, t tally) {
		l.Missing += t.Missing
		l.Doubled += t.Doubled
		l.Differs += t.Differs
		if !t.ok() {
			l.Problems = append(l.Problems, fmt.Sprintf("%s: %d missing, %d doubled, %d differ", name, t.Missing, t.Doubled, t.Differs))
		}
	}
	check("topic", l.Topic)
	check("SQLite", l.SQLite)
	check("Parquet", l.Parquet)
	for i, m := range l.Members {
		check(fmt.Sprintf("broadcast member %d", i+1), m)
	}
	if l.Counted >= 0 && l.Counted != l.Lines {
		l.Problems = append(l.Problems, fmt.Sprintf("counts: the table's sum is %d", l.Counted))
	}
	if l.Lines == 0 {
		l.Problems = append(l.Problems, "nothing was written")
	}
}

// Print writes the ledger for a person.
func (l *Ledger) Print(w io.Writer) {
	row := func(name string, n int64, note string) { fmt.Fprintf(w, "  %-28s %12d%s\n", name, n, note) }
	fmt.Fprintf(w, "ledger of %s\n", l.Source)
	note := fmt.Sprintf("   %.1f MB", float64(l.Bytes)/1e6)
	if l.Rotations > 0 {
		note += fmt.Sprintf(", rotated %d times", l.Rotations)
	}
	row("lines written", l.Lines, note)
	row("records in the topic", l.Topic.Records, "")
	row("rows in SQLite", l.SQLite.Records, "")
	row("rows in Parquet", l.Parquet.Records, "")
	for i, m := range l.Members {
		row(fmt.Sprintf("broadcast member %d", i+1), m.Records, "")
	}
	if l.Counted >= 0 {
		row("counted by second and route", l.Counted, "")
		row("alerts on 5xx", l.Alerts, fmt.Sprintf("   by %d members", len(l.Members)))
	}
	row("missing", l.Missing, "")
	row("doubled", l.Doubled, "")
	row("bytes differ", l.Differs, "")
	fmt.Fprintf(w, "  %-28s %12.0f\n", "lines a second", l.Rate)
	fmt.Fprintf(w, "  %-28s %9.1f ms p50, %.1f ms p99\n", "from write to row", l.P50, l.P99)
	if len(l.Requests) > 0 {
		fmt.Fprintln(w)
		chart(w, "requests per second", l.Requests)
	}
	fmt.Fprintln(w)
	if l.OK() {
		fmt.Fprintln(w, "the ledger agrees")
		return
	}
	fmt.Fprintf(w, "THE LEDGER DOES NOT AGREE\n  %s\n", strings.Join(l.Problems, "\n  "))
}
