package server_test

import (
	"fmt"
	"hash/crc32"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/metaq-go/metaq/broker/server"
	"github.com/metaq-go/metaq/protocol"
)

const badSum = "Checksum failure,message may be corrupted when transfering on networking." //nolint:misspell // as MetaQ spells it

// TestPutRefused goes through the rows of protocol.md 4.1.2, and the order of them.
func TestPutRefused(t *testing.T) {
	tooLong := strings.Repeat("x", 101)
	long := strings.Repeat("n", 600)
	tests := []struct {
		name, request, want string
	}{
		{"closed", put("t", 3, 1, "x"), result(403, 1, failed("t-3", "partition[9-3] has been closed"))},
		{"closed before checksum", "put t 3 1 0 5 1\r\nx", result(403, 1, failed("t-3", "partition[9-3] has been closed"))},
		{"unknown topic", put("no", 0, 1, "x"), result(500, 1, failed("no-0", "The server do not accept topic no"))},
		{"unknown topic, any partition", put("no", -1, 1, "x"), result(500, 1, failed("no--1", "The server do not accept topic no"))},
		{"topic before partition", put("no", 77, 1, "x"), result(500, 1, failed("no-77", "The server do not accept topic no"))},
		{"partition too high", put("t", 4, 1, "x"), result(500, 1, failed("t-4", "wrong partition 4"))},
		{"partition too low", put("t", -2, 1, "x"), result(500, 1, failed("t--2", "wrong partition -2"))},
		{"smallest partition", put("t", -1<<31, 1, "x"), result(500, 1, failed("t--2147483648", "wrong partition -2147483648"))},
		{"partition before checksum", "put t 4 1 0 5 1\r\nx", result(500, 1, failed("t-4", "wrong partition 4"))},
		{"partition before length", put("t", 4, 1, tooLong), result(500, 1, failed("t-4", "wrong partition 4"))},
		{"checksum", "put t 0 1 0 5 1\r\nx", result(500, 1, failed("t-0", badSum))},
		{"checksum with its top bit", "put t 0 1 0 -400665 1\r\nx", result(500, 1, failed("t-0", badSum))},
		{"too long", put("t", 0, 1, tooLong), result(500, 1, failed("t-0", "put of 101 bytes is too long, the limit is 100"))},
		{
			"attribute does not fit", "put t 0 4 1 1\r\n\x00\x00\x00\x01",
			result(500, 1, failed("t-0", "malformed record: attribute of 1 bytes in a body of 4")),
		},
		{
			"no room for an attribute's length", "put t 0 3 1 1\r\nabc",
			result(500, 1, failed("t-0", "malformed record: flag announces an attribute, body has 3 bytes")),
		},
		{"local transaction", "put t 0 1 0 -1 TX:s:1 1\r\nx", result(500, 1, "Local transaction 'TX:s:1' has not been started.")},
		{"XA transaction", "put t 3 1 0 XID:1:0a:0b:q 1\r\nx", result(500, 1, "XA transaction 'XID:1:0a:0b:q' has not been started.")},
		{
			"no UTF-8", put("\xff\xfeé", 0, 1, "x"),
			result(500, 1, failed("\ufffdé-0", "The server do not accept topic \ufffdé")),
		},
		{
			"a name longer than any topic's", put(long, 0, 1, "x"),
			result(500, 1, failed(long[:512]+"…-0", "The server do not accept topic "+long[:512]+"…")),
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := start(t, func(c *server.Config) { c.BrokerID, c.Limits.Body = 9, 100 })
				r.topics.close("t-3")
				p := r.connect()
				if got := p.Ask(tt.request); got != tt.want {
					t.Errorf("got  %q\nwant %q", got, tt.want)
				}
				if len(r.store.Logs()) != 0 {
					t.Errorf("a message that was refused made partition %s-%d", r.store.Logs()[0].Topic(), r.store.Logs()[0].Partition())
				}
				if list := stored(t, p.Ask(put("t", 0, 2, "good"))); len(list) != 1 || list[0].offset != 0 {
					t.Errorf("the next put: got %+v, want one at offset 0", list)
				}
			})
		})
	}
}

// TestPutForms stores what every form of put sends.
func TestPutForms(t *testing.T) {
	sum := int32(crc32.ChecksumIEEE([]byte("x")) & 0x7fffffff)
	attr := "\x00\x00\x00\x02atpayload"
	tests := []struct {
		name, request string
		flag          int32
		body          string
	}{
		{"without checksum", "put t 0 1 0 1\r\nx", 0, "x"},
		{"with checksum", fmt.Sprintf("put t 0 1 0 %d 1\r\nx", sum), 0, "x"},
		{"unchecked", "put t 0 1 0 -1 1\r\nx", 0, "x"},
		{"null transaction", "put t 0 1 0 -1 null 1\r\nx", 0, "x"},
		{"attribute", fmt.Sprintf("put t 0 %d 1 1\r\n%s", len(attr), attr), 1, attr},
		{"empty", "put t 0 0 0 1\r\n", 0, ""},
		{"all bits of the flag but the first", "put t 0 1 -2 1\r\nx", -2, "x"},
		{"CRLF in the body", "put t 0 8 0 1\r\nquit\r\n\r\n", 0, "quit\r\n\r\n"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := start(t, nil)
				list := stored(t, r.connect().Ask(tt.request))
				records := r.content("t", 0)
				if len(list) != 1 || len(records) != 1 {
					t.Fatalf("got %d answers and %d records, want 1 and 1", len(list), len(records))
				}
				rec := records[0]
				if list[0].opaque != 1 || list[0].partition != 0 || list[0].offset != 0 || list[0].id != rec.ID {
					t.Errorf("answer: got %+v, want opaque 1, partition 0, offset 0, id %d", list[0], rec.ID)
				}
				if rec.Flag != tt.flag || string(rec.Body) != tt.body || rec.Checksum != protocol.Checksum([]byte(tt.body)) {
					t.Errorf("record: got flag %d, body %q, checksum %d", rec.Flag, rec.Body, rec.Checksum)
				}
			})
		})
	}
}

// pipelined sends puts in one go and checks every answer against the log. A put to partition p is answered from there.
func pipelined(t *testing.T, r *rig, partitions []int, bodies []string) {
	t.Helper()
	var b strings.Builder
	for i, body := range bodies {
		b.WriteString(put("t", partitions[i], i, body))
	}
	list := stored(t, r.connect().Ask(b.String()))
	if len(list) != len(bodies) {
		t.Fatalf("%d puts, %d answers", len(bodies), len(list))
	}
	type place struct {
		partition int32
		offset    int64
	}
	at := make(map[place]protocol.Record)
	for p := range 4 {
		offset := int64(0)
		for _, rec := range r.content("t", p) {
			at[place{int32(p), offset}] = rec
			offset += int64(rec.Size())
		}
	}
	last := make(map[int32]int64)
	for i, s := range list {
		rec, ok := at[place{s.partition, s.offset}]
		if int(s.opaque) != i || !ok || rec.ID != s.id || string(rec.Body) != bodies[i] {
			t.Fatalf("put %d: got opaque %d, partition %d, offset %d, id %d; there is a record of %d bytes with id %d: %v",
				i, s.opaque, s.partition, s.offset, s.id, len(rec.Body), rec.ID, ok)
		}
		if want := partitions[i]; want >= 0 && int(s.partition) != want {
			t.Errorf("put %d went to partition %d, want %d", i, s.partition, want)
		}
		if before, ok := last[s.partition]; ok && s.offset <= before {
			t.Errorf("put %d lies at %d, before the one sent before it at %d", i, s.offset, before)
		}
		last[s.partition] = s.offset
		delete(at, place{s.partition, s.offset})
	}
	if len(at) != 0 {
		t.Errorf("%d records in the log that no answer names", len(at))
	}
}

// TestRuns sends puts that are gathered into runs, up to and across the bounds of a run: 4096 messages, 256 KiB.
func TestRuns(t *testing.T) {
	fill := func(n int, size int) []string {
		bodies := make([]string, n)
		for i := range bodies {
			bodies[i] = strings.Repeat(string(rune('a'+i%26)), size)
		}
		return bodies
	}
	same := func(partition, n int) []int {
		list := make([]int, n)
		for i := range list {
			list[i] = partition
		}
		return list
	}
	alternate := func(n int) []int {
		list := make([]int, n)
		for i := range list {
			list[i] = i * 7 % 4
		}
		return list
	}
	const most = 256<<10 - protocol.HeaderSize
	tests := []struct {
		name       string
		partitions []int
		bodies     []string
	}{
		{"one", same(1, 1), fill(1, 1)},
		{"as many as a run takes", same(1, 4096), fill(4096, 1)},
		{"one more", same(1, 4097), fill(4097, 0)},
		{"several runs", same(2, 3*4096+17), fill(3*4096+17, 2)},
		{"as big as a run", same(0, 2), fill(2, most)},
		{"bigger than a run", same(0, 3), fill(3, most+1)},
		{"big after small", same(0, 3), []string{"a", strings.Repeat("b", most), "c"}},
		{"partitions alternate", alternate(5000), fill(5000, 3)},
		{"the broker chooses", same(-1, 5000), fill(5000, 3)},
		{"chosen and given", []int{-1, 0, -1, 0, 1, -1, -1, 1}, fill(8, 3)},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { pipelined(t, start(t, nil), tt.partitions, tt.bodies) })
		})
	}
}

// TestBadPutInARun answers in order and stores what is good.
func TestBadPutInARun(t *testing.T) {
	bads := []struct{ name, request, want string }{
		{"checksum", "put t 0 1 0 5 7\r\nx", result(500, 7, failed("t-0", badSum))},
		{"too long", put("t", 0, 7, strings.Repeat("x", 2000)), result(500, 7, failed("t-0", "put of 2000 bytes is too long, the limit is 1000"))},
		{"no topic", put("no", 0, 7, "x"), result(500, 7, failed("no-0", "The server do not accept topic no"))},
		{"partition", put("t", 9, 7, "x"), result(500, 7, failed("t-9", "wrong partition 9"))},
		{"transaction", "put t 0 1 0 -1 TX:s:1 7\r\nx", result(500, 7, "Local transaction 'TX:s:1' has not been started.")},
		{"append", batch("t", 0, 7), result(500, 7, failed("t-0", "malformed record: 0 records announced, 0 sent"))},
	}
	for _, bad := range bads {
		t.Run(bad.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := start(t, func(c *server.Config) { c.Limits.Body = 1000 })
				got := answers(t, r.connect().Ask(put("t", 0, 1, "a")+put("t", 0, 2, "b")+bad.request+put("t", 0, 3, "c")))
				var order []int32
				for _, a := range got {
					order = append(order, a.Opaque)
				}
				if fmt.Sprint(order) != "[1 2 7 3]" {
					t.Fatalf("order of answers: got %v, want [1 2 7 3]", order)
				}
				if s := string(got[2].AppendTo(nil)); s != bad.want {
					t.Errorf("got  %q\nwant %q", s, bad.want)
				}
				if s := r.bodies("t", 0); s != "a;b;c;" {
					t.Errorf("log: got %s, want a;b;c;", s)
				}
				if st := r.Stats(); st.PutFailed != map[bool]int64{true: 0, false: 1}[bad.name == "transaction"] {
					t.Errorf("put_failed: got %d", st.PutFailed)
				}
			})
		})
	}
}

// TestChosenPartitions spreads over all partitions, bursts by bursts, but not to those that are closed.
func TestChosenPartitions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := start(t, nil)
		r.topics.close("t-2")
		p := r.connect()
		seen := make(map[int32]int)
		for i := range 200 {
			list := stored(t, p.Ask(put("t", -1, 2*i, "a")+put("t", -1, 2*i+1, "b")))
			if len(list) != 2 || list[0].partition != list[1].partition {
				t.Fatalf("a burst was split: got %+v", list)
			}
			seen[list[0].partition]++
		}
		if seen[2] > 0 || seen[0] == 0 || seen[1] == 0 || seen[3] == 0 {
			t.Errorf("bursts by partition: got %v, want some in 0, 1 and 3, none in 2", seen)
		}
		for _, closed := range []string{"t-0", "t-1", "t-3"} {
			r.topics.close(closed)
		}
		if got := answers(t, p.Ask(put("t", -1, 1, "x"))); len(got) != 1 || got[0].Code != protocol.Forbidden {
			t.Errorf("put where all is closed: got %+v, want 403", got)
		}
	})
}
