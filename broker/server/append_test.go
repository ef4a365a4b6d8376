package server_test

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/metaq-go/metaq/broker/server"
	"github.com/metaq-go/metaq/protocol"
)

func TestAppend(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := start(t, nil)
		p := r.connect()
		list := stored(t, p.Ask(put("t", 1, 1, "a")+batch("t", 1, 2, "bb", "", "cccc")+put("t", 1, 3, "d")))
		if len(list) != 3 {
			t.Fatalf("got %d answers, want 3", len(list))
		}
		records := r.content("t", 1)
		if s := r.bodies("t", 1); s != "a;bb;;cccc;d;" {
			t.Fatalf("log: got %s, want a;bb;;cccc;d;", s)
		}
		if list[1].offset != 21 || list[1].partition != 1 || list[1].opaque != 2 {
			t.Errorf("append: got %+v, want opaque 2, partition 1, offset 21", list[1])
		}
		for i := range 3 {
			if want := protocol.IDAfter(list[1].id, i); records[1+i].ID != want {
				t.Errorf("id of record %d: got %d, want %d", i, records[1+i].ID, want)
			}
		}
		if got := stored(t, p.Ask(batch("t", -1, 4, "x", "y"))); len(got) != 1 || r.bodies("t", int(got[0].partition)) == "" {
			t.Errorf("append to a partition of the broker's choice: got %+v", got)
		}
	})
}

func TestAppendRefused(t *testing.T) {
	one := string(protocol.AppendRecord(nil, 0, 0, []byte("hello")))
	raw := func(partition, count int, records string) string {
		return fmt.Sprintf("append t %d %d %d 1\r\n%s", partition, len(records), count, records)
	}
	flip := func(at int) string { return one[:at] + string(one[at]^1) + one[at+1:] }
	tests := []struct {
		name, request string
		code          int
		detail        string // with the partition it is about before a colon
		failed        int64
	}{
		{"no records", raw(0, 0, ""), 500, "t-0:malformed record: 0 records announced, 0 sent", 1},
		{"none announced", raw(0, 0, one), 500, "t-0:malformed record: 0 records announced, 1 sent", 1},
		{"none sent", raw(0, 3, ""), 500, "t-0:malformed record: 3 records announced, 0 sent", 1},
		{"more announced", raw(0, 3, one+one), 500, "t-0:malformed record: 3 records announced, 2 sent", 2},
		{"countless", raw(0, 1<<31-1, one), 500, "t-0:malformed record: 2147483647 records announced, 1 sent", 1},
		{"fewer announced", raw(0, 1, one+one), 500, "t-0:malformed record: 1 records announced, 2 sent", 1},
		{"checksum", raw(0, 1, flip(5)), 500, "t-0:record 0 at byte 0: record does not match its checksum", 1},
		{"checksum of the last", raw(0, 2, one+flip(5)), 500, "t-0:record 1 at byte 25: record does not match its checksum", 2},
		{"body", raw(0, 1, flip(22)), 500, "t-0:record 0 at byte 0: record does not match its checksum", 1},
		{"cut in the body", raw(0, 2, one+one[:24]), 500, "t-0:record 1 at byte 25: record is incomplete", 2},
		{"cut in the header", raw(0, 2, one+one[:19]), 500, "t-0:record 1 at byte 25: record is incomplete", 2},
		{"negative length", raw(0, 1, "\xff"+one[1:]), 500, "t-0:record 0 at byte 0: malformed record: length -16777211", 1},
		{"too long", raw(0, 5, strings.Repeat(one, 5)), 500, "t-0:append of 125 bytes is too long, the limit is 100", 5},
		{
			"attribute", raw(0, 1, string(protocol.AppendRecord(nil, 0, 1, []byte("hello")))), 500,
			"t-0:record 0 at byte 0: malformed record: attribute of 1751477356 bytes in a body of 5", 1,
		},
		{"closed", raw(3, 1, one), 403, "t-3:partition[0-3] has been closed", 0},
		{"closed before records", raw(3, 9, one), 403, "t-3:partition[0-3] has been closed", 0},
		{"partition", raw(4, 1, one), 500, "t-4:wrong partition 4", 1},
		{"partition before records", raw(-2, 1, "?"), 500, "t--2:wrong partition -2", 1},
		{"topic", strings.Replace(raw(0, 1, one), " t ", " no ", 1), 500, "no-0:The server do not accept topic no", 1},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := start(t, func(c *server.Config) { c.Limits.Body = 100 })
				r.topics.close("t-3")
				p := r.connect()
				partition, detail, _ := strings.Cut(tt.detail, ":")
				if got, want := p.Ask(tt.request), result(tt.code, 1, failed(partition, detail)); got != want {
					t.Errorf("got  %q\nwant %q", got, want)
				}
				if st := r.Stats(); st.PutFailed != tt.failed {
					t.Errorf("put_failed: got %d, want %d", st.PutFailed, tt.failed)
				}
				if len(r.store.Logs()) != 0 {
					t.Error("an append that was refused made a partition")
				}
				if got := stored(t, p.Ask(batch("t", 0, 2, "ok"))); len(got) != 1 {
					t.Errorf("the next append: got %d answers, want 1", len(got))
				}
			})
		})
	}
}

// TestAppendOfMany: what is limited is each message, not what travels together.
func TestAppendOfMany(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := start(t, func(c *server.Config) { c.MaxMessage = 10 })
		p := r.connect()
		if got := stored(t, p.Ask(batch("t", 0, 1, "0123456789", "0123456789", "", "x"))); len(got) != 1 {
			t.Errorf("messages of 10 bytes at most: got %d answers, want 1", len(got))
		}
		want := result(500, 2, failed("t-0", "message of 11 bytes is too long, the limit is 10"))
		if got := p.Ask(batch("t", 0, 2, "x", "0123456789a")); got != want {
			t.Errorf("got  %q\nwant %q", got, want)
		}
		want = result(500, 3, failed("t-0", "put of 11 bytes is too long, the limit is 10"))
		if got := p.Ask(put("t", 0, 3, "0123456789a")); got != want {
			t.Errorf("got  %q\nwant %q", got, want)
		}
	})
}

// TestAppendClosesConnection: lines that break the grammar.
func TestAppendClosesConnection(t *testing.T) {
	for _, request := range []string{
		"append t 0 0 1\r\n", "append t 0 0 -1 1\r\n", "append t 0 0 1 1 1\r\n", "append t 0 -1 1 1\r\n", "append t 0 x 1 1\r\n",
		"append  0 0 1 1\r\n", "append t 0 0 1 2147483648\r\n",
	} {
		synctest.Test(t, func(t *testing.T) {
			r := start(t, nil)
			p := r.connect()
			p.Send(request)
			if got, closed := p.Received(); got != "" || !closed {
				t.Errorf("%q: got %q, closed %v; want nothing, true", request, got, closed)
			}
			if st := r.Stats(); st.Malformed != 1 || st.Put != 0 {
				t.Errorf("%q: malformed %d, put %d; want 1, 0", request, st.Malformed, st.Put)
			}
		})
	}
}
