package store_test

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io"
	"math"
	"os"
	"testing"

	"github.com/metaq-go/metaq/broker/store"
	"github.com/metaq-go/metaq/internal/vfs"
	"github.com/metaq-go/metaq/protocol"
)

// javaRecord is a line of a list in testdata/java; see the README there.
type javaRecord struct {
	Topic     string  `json:"t"`
	Partition int     `json:"p"`
	Offset    int64   `json:"o"`
	ID        int64   `json:"id"`
	Flag      *int32  `json:"f"`
	Attr      *string `json:"a"`
	Length    *int    `json:"n"`
	Sum       string  `json:"s"`
}

func gunzip(t *testing.T, name string) io.Reader {
	t.Helper()
	data, err := os.ReadFile("testdata/java/" + name)
	check(t, err)
	r, err := gzip.NewReader(bytes.NewReader(data))
	check(t, err)
	return r
}

// javaFolder unpacks a folder that a Java broker wrote.
func javaFolder(t *testing.T, name string) *vfs.Mem {
	t.Helper()
	mem := vfs.NewMem()
	r := tar.NewReader(gunzip(t, name+".tar.gz"))
	for {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			return mem
		}
		check(t, err)
		if h.Typeflag == tar.TypeReg {
			data, err := io.ReadAll(r)
			check(t, err)
			write(t, mem, "/"+h.Name, data)
		}
	}
}

func javaRecords(t *testing.T, name string) []javaRecord {
	t.Helper()
	var all []javaRecord
	for d := json.NewDecoder(gunzip(t, name+".jsonl.gz")); ; {
		var r javaRecord
		err := d.Decode(&r)
		if errors.Is(err, io.EOF) {
			return all
		}
		check(t, err)
		all = append(all, r)
	}
}

// wantRecord checks that data begins with the record.
func (want *javaRecord) check(t *testing.T, data []byte) {
	t.Helper()
	r, err := protocol.DecodeRecord(data)
	if err == nil {
		err = r.Verify()
	}
	if err != nil {
		t.Errorf("%s-%d at %d: %v", want.Topic, want.Partition, want.Offset, err)
		return
	}
	attr, payload, err := r.Content()
	sum := sha256.Sum256(payload)
	if err != nil || r.ID != want.ID || hex.EncodeToString(sum[:4]) != want.Sum {
		t.Errorf("%s-%d at %d: got id %d, sum %x, %v, want %d, %s", want.Topic, want.Partition, want.Offset, r.ID, sum[:4], err, want.ID, want.Sum)
	}
	if want.Flag == nil { // of what was acknowledged only that much is known
		return
	}
	same := (attr == nil) == (want.Attr == nil) && (want.Attr == nil || string(attr) == *want.Attr)
	if r.Flag != *want.Flag || len(payload) != *want.Length || !same {
		t.Errorf("%s-%d at %d: got flag %d, attribute %q, %d bytes", want.Topic, want.Partition, want.Offset, r.Flag, attr, len(payload))
	}
}

// TestJavaFolders opens what Java brokers wrote, reads it back, goes on behind it, and opens it again.
func TestJavaFolders(t *testing.T) {
	tests := []struct {
		name     string
		broker   int
		records  int
		complete bool // the list holds every record
	}{
		{"clean", 0, 1541, true},
		{"transactions", 1, 14, true},
		{"killed", 3, 13233, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			mem, list := javaFolder(t, tt.name), javaRecords(t, tt.name)
			if len(list) != tt.records {
				t.Fatalf("%d records in the list, want %d", len(list), tt.records)
			}
			log, logged := newLog(t)
			cfg := store.Config{FS: mem, Dir: "/data", BrokerID: tt.broker, SegmentSize: 64 << 10, Log: log}
			r := open(t, cfg)
			content := make(map[*store.Log][]byte)
			found, above := 0, int64(math.MinInt64)
			for _, l := range r.Logs() {
				data, err := readAll(l, 0, 5000)
				check(t, err)
				content[l] = data
				for _, rec := range protocol.Records(data) {
					found++
					above = max(above, rec.ID)
				}
			}
			for _, want := range list {
				l := r.Log([]byte(want.Topic), want.Partition)
				if l == nil || want.Offset >= l.End() {
					t.Fatalf("%s-%d at %d is missing", want.Topic, want.Partition, want.Offset)
				}
				want.check(t, content[l][want.Offset:])
			}
			if found < len(list) || tt.complete && found != len(list) {
				t.Errorf("%d records, the list has %d", found, len(list))
			}
			if above > 0 {
				t.Errorf("largest id is %d; that of a Java broker is negative", above)
			}
			logged.empty()

			for l, data := range content {
				a := r.put(l, "from Go", "", "and more")
				if a.Offset != int64(len(data)) || a.ID <= above {
					t.Errorf("%s-%d: new messages at %d with id %d, want %d and above %d", l.Topic(), l.Partition(), a.Offset, a.ID, len(data), above)
				}
				above = protocol.IDAfter(a.ID, 2)
				content[l] = append(data, a.data...)
			}
			check(t, r.Close())
			again := open(t, cfg)
			for l, want := range content {
				got, err := readAll(again.Log([]byte(l.Topic()), l.Partition()), 0, math.MaxInt)
				if err != nil || !bytes.Equal(got, want) {
					t.Errorf("%s-%d: %d bytes after opening again, %v, want %d", l.Topic(), l.Partition(), len(got), err, len(want))
				}
			}
			logged.empty()
		})
	}
}
