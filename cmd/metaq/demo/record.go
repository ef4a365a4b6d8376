package demo

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/metaq-go/metaq/client"
	"github.com/metaq-go/metaq/pipeline"
	"github.com/metaq-go/metaq/protocol"
	"github.com/metaq-go/metaq/tail4go"
)

// record is one line of the log as it ends in Parquet and SQLite: where it is in the topic, where it was in its file,
// the line itself byte for byte, and, for lines of the demo's own application, what they say.
type record struct {
	Partition string    `db:"partition,key" parquet:"partition,dict"`
	Offset    int64     `db:"offset,key"    parquet:"offset"`
	File      string    `db:"file"          parquet:"file,dict"`
	Pos       int64     `db:"pos"           parquet:"pos"`
	Line      []byte    `db:"line"          parquet:"line"`
	Seq       int64     `db:"seq"           parquet:"seq"` // number of the line, from 1; 0 in foreign logs
	Time      time.Time `db:"time"          parquet:"time,timestamp(nanosecond)"`
	Method    string    `db:"method"        parquet:"method,dict"`
	Route     string    `db:"route"         parquet:"route,dict"`
	Status    int64     `db:"status"        parquet:"status"`
	Bytes     int64     `db:"bytes"         parquet:"bytes"`
	TookUS    int64     `db:"took_us"       parquet:"took_us"`
}

// identity is what tells a line from all others: its number, or in a foreign log its place in the file.
func (r *record) identity() int64 {
	if r.Seq > 0 {
		return r.Seq
	}
	return r.Pos
}

// accessLine is a line of the application's log.
type accessLine struct {
	Time   time.Time `json:"time"`
	N      int64     `json:"n"`
	Method string    `json:"method"`
	Route  string    `json:"route"`
	Status int64     `json:"status"`
	Bytes  int64     `json:"bytes"`
	TookUS int64     `json:"took_us"`
}

// raw decodes a message of a foreign log: any bytes are a line.
func raw(m client.Message) (record, error) {
	attr, err := tail4go.ParseAttr(m.Attr)
	if err != nil {
		return record{}, pipeline.Permanent(fmt.Errorf("attribute %.100q: %w", m.Attr, err))
	}
	return record{
		Partition: m.Partition.String(), Offset: m.Offset, File: attr.Path, Pos: attr.Pos, Line: m.Payload,
		Time: protocol.IDTime(m.ID).UTC(),
	}, nil
}

// parse decodes a message of the application's log.
func parse(m client.Message) (record, error) {
	r, err := raw(m)
	if err != nil {
		return record{}, err
	}
	var l accessLine
	if err := json.Unmarshal(m.Payload, &l); err != nil {
		return record{}, pipeline.Permanent(fmt.Errorf("line %.100q: %w", m.Payload, err))
	}
	if l.N < 1 {
		return record{}, pipeline.Permanent(fmt.Errorf("line %.100q has no number", m.Payload))
	}
	r.Seq, r.Time, r.Method, r.Route = l.N, l.Time.UTC(), l.Method, l.Route
	r.Status, r.Bytes, r.TookUS = l.Status, l.Bytes, l.TookUS
	return r, nil
}

// count is how many answers of a status a route gave in a second: a row of the table counts.
type count struct {
	Second time.Time `db:"second,key"`
	Route  string    `db:"route,key"`
	Status int64     `db:"status,key"`
	N      int64     `db:"n"`
}

// counter is the bolt that counts. Each of its tasks sees the routes that are its own, so its state needs no lock; each
// tuple makes one new version of the row it counts in.
type counter struct{ counts map[count]int64 }

func newCounter(pipeline.Task) pipeline.Bolter[record, count] {
	return &counter{counts: make(map[count]int64)}
}

// Process implements pipeline.Bolter.
func (c *counter) Process(_ context.Context, r record, emit func(count)) error {
	key := count{Second: r.Time.Truncate(time.Second), Route: r.Route, Status: r.Status}
	n := c.counts[key] + 1
	row := key
	row.N = n
	emit(row)
	c.counts[key] = n
	return nil
}
