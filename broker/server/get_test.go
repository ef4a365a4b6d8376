package server_test

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/metaq-go/metaq/broker/server"
	"github.com/metaq-go/metaq/protocol"
)

// TestGetTable goes through protocol.md 4.2.1 and 4.3. Partition t-1 has records of 21 bytes at 0, 21 and 42, t-3 is closed,
// all others were never written.
func TestGetTable(t *testing.T) {
	const (
		missing0 = "The topic `t` in partition `0` is not exists"
		value    = "value"
	)
	tests := []struct {
		request string // up to its opaque
		code    int
		text    string // of a value: its length
		lenient int    // code with updateConsumerOffsets off, if it differs
	}{
		{"get t g 3 0 100", 403, "Partition[9-3] has been closed", 0},
		{"get t g 3 0 0", 403, "Partition[9-3] has been closed", 0},
		{"get t g 0 0 100", 404, missing0, 0},
		{"get t g 0 0 0", 404, missing0, 0},
		{"get t g 0 9223372036854775807 100", 404, missing0, 0},
		{"get t g 4 0 100", 404, "The topic `t` in partition `4` is not exists", 0},
		{"get t g -1 0 100", 404, "The topic `t` in partition `-1` is not exists", 0},
		{"get no g 0 0 100", 404, "The topic `no` in partition `0` is not exists", 0},
		{"get t g 1 0 0", 400, "Bad request,invalid max size:0", 0},
		{"get t g 1 -5 -1", 400, "Bad request,invalid max size:-1", 0},
		{"get t g 1 999 -2147483648", 400, "Bad request,invalid max size:-2147483648", 0},
		{"get t g 1 -1 100", 301, "0", 0},
		{"get t g 1 -9223372036854775808 100", 301, "0", 0},
		{"get t g 1 63 100", 404, "Could not find message at position 63", 0},
		{"get t g 1 64 100", 301, "63", 404},
		{"get t g 1 9223372036854775806 100", 301, "63", 404},
		{"get t g 1 9223372036854775807 100", 301, "63", 0},
		{"get t g 1 0 100", 200, "63", 0},
		{"get t g 1 0 63", 200, "63", 0},
		{"get t g 1 0 62", 200, "62", 0},
		{"get t g 1 0 1", 200, "1", 0},
		{"get t g 1 62 2147483647", 200, "1", 0},
		{"get t g 1 5 21", 200, "21", 0},
		{"get t g 1 21 21", 200, "21", 0},
		{"offset t g 0 0", 404, missing0, 0},
		{"offset t g -1 0", 404, "The topic `t` in partition `-1` is not exists", 0},
		{"offset no g 0 0", 404, "The topic `no` in partition `0` is not exists", 0},
		{"offset t g 1 -1", 200, "0", 0},
		{"offset t g 1 0", 200, "0", 0},
		{"offset t g 1 62", 200, "0", 0},
		{"offset t g 1 63", 200, "63", 0},
		{"offset t g 1 9223372036854775807", 200, "63", 0},
	}
	for _, update := range []bool{true, false} {
		t.Run(fmt.Sprintf("update offsets %v", update), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := start(t, func(c *server.Config) { c.BrokerID, c.UpdateOffsets = 9, update })
				p := r.connect()
				p.Ask(put("t", 1, 1, "a") + put("t", 1, 2, "b") + put("t", 1, 3, "c"))
				whole := bytes.Clone(answers(t, p.Ask("get t g 1 0 100 4\r\n"))[0].Body)
				r.topics.close("t-3")
				for _, tt := range tests {
					if !update && tt.lenient != 0 {
						tt.code = tt.lenient
						tt.text = "Could not find message at position " + strings.Fields(tt.request)[4]
					}
					list := answers(t, p.Ask(tt.request+" -7\r\n"))
					if len(list) != 1 || list[0].Opaque != -7 {
						t.Fatalf("%s: got %+v, want one answer with opaque -7", tt.request, list)
					}
					a := list[0]
					got := string(a.Body)
					if isGet := tt.code == 200 && strings.HasPrefix(tt.request, "get"); isGet != (a.Verb == protocol.VerbValue) {
						t.Errorf("%s: got a %v", tt.request, a.Verb)
					} else if isGet {
						var offset int
						fmt.Sscanf(tt.request, "get t g 1 %d", &offset)
						if offset+len(got) > len(whole) || got != string(whole[offset:offset+len(got)]) {
							t.Errorf("%s: got other bytes than there are: %q", tt.request, got)
						}
						got = fmt.Sprint(len(got))
					}
					if int(a.Code) != tt.code || got != tt.text {
						t.Errorf("%s: got %d %q, want %d %q", tt.request, a.Code, got, tt.code, tt.text)
					}
				}
			})
		})
	}
}

// TestGetCounts counts as MetaQ's stats do.
func TestGetCounts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := start(t, nil)
		r.topics.close("t-3")
		p := r.connect()
		p.Ask(put("t", 1, 1, "a"))
		steps := []struct {
			request           string
			get, miss, offset int64
		}{
			{"get t g 1 0 100 1\r\n", 1, 0, 0},
			{"get t g 1 21 100 1\r\n", 1, 1, 0},
			{"get t g 0 0 100 1\r\n", 1, 1, 0},
			{"get t g 3 0 100 1\r\n", 1, 0, 0},
			{"get t g 1 99 100 1\r\n", 1, 1, 1},
			{"get t g 1 -1 100 1\r\n", 1, 1, 1},
			{"get t g 1 0 0 1\r\n", 1, 0, 0},
			{"offset t g 1 0 1\r\n", 0, 0, 1},
			{"offset t g 0 0 1\r\n", 0, 0, 1},
			{"poll t g 1 0 100 0 1\r\n", 1, 0, 0},
			{"poll t g 1 21 100 0 1\r\n", 1, 1, 0},
		}
		for _, s := range steps {
			before := r.Stats()
			p.Ask(s.request)
			after := r.Stats()
			if g, m, o := after.Get-before.Get, after.GetMiss-before.GetMiss, after.Offset-before.Offset; g != s.get || m != s.miss || o != s.offset {
				t.Errorf("%q: counted get %d, miss %d, offset %d; want %d, %d, %d", s.request, g, m, o, s.get, s.miss, s.offset)
			}
		}
		if got := r.Stats().BytesOut; got != 42 {
			t.Errorf("bytes sent to consumers: got %d, want 42", got)
		}
	})
}

// TestMaxTransfer: an answer is cut at MaxTransfer, but a single record that is bigger comes whole to whom asks for it.
func TestMaxTransfer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := start(t, func(c *server.Config) { c.MaxTransfer, c.Limits.Body = 1000, 5000 })
		p := r.connect()
		p.Ask(put("t", 0, 1, "a") + put("t", 0, 2, strings.Repeat("b", 4000)) + put("t", 0, 3, strings.Repeat("c", 500)) + put("t", 0, 4, "d"))
		const b, c, end = 21, 21 + 4020, 21 + 4020 + 520 + 21
		tests := []struct {
			offset, ask, want int
			why               string
		}{
			{0, 100, 100, "less than MaxTransfer is asked for"},
			{0, 1 << 30, 1000, "the first record is small"},
			{b, 1000, 1000, "no more is asked for"},
			{b, 1001, 1001, "more is asked for, not all"},
			{b, 4020, 4020, "all of it is asked for"},
			{b, 1<<31 - 1, 4020, "a big record comes without the next"},
			{c, 1 << 30, end - c, "the rest is small"},
			{end - 2, 1 << 30, 2, "less than a header is left"},
		}
		for _, tt := range tests {
			list := answers(t, p.Ask(fmt.Sprintf("get t g 0 %d %d 9\r\n", tt.offset, tt.ask)))
			if len(list) != 1 || len(list[0].Body) != tt.want {
				t.Errorf("%d bytes at %d (%s): got %d bytes, want %d", tt.ask, tt.offset, tt.why, len(list[0].Body), tt.want)
			}
		}
		// An offset in the middle of a record shows any bytes as a length. Whatever they say, an answer has a limit.
		if n := len(answers(t, p.Ask(fmt.Sprintf("get t g 0 %d 2147483647 9\r\n", b+30)))[0].Body); n > 5020 {
			t.Errorf("get inside a record: got %d bytes, want at most 5020", n)
		}
	})
}

func TestTopics(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := start(t, nil)
		if _, err := r.store.Create("old", 2); err != nil {
			t.Fatal(err)
		}
		p := r.connect()
		for request, want := range map[string]string{
			"topics\r\n":       result(200, 1<<31-1, "t 4\r\nu 1\r\n"),
			"topics  5\r\n":    result(200, 5, "t 4\r\nu 1\r\n"),
			"topics t\r\n":     result(200, 1<<31-1, "t 4\r\n"),
			"topics t 5 6\r\n": result(200, 5, "t 4\r\n"),
			"topics old 5\r\n": result(200, 5, "old 3\r\n"), // takes no messages, and can be read
			"topics no 5\r\n":  result(404, 5, "The server do not accept topic no"),
		} {
			if got := p.Ask(request); got != want {
				t.Errorf("%q: got %q, want %q", request, got, want)
			}
		}
	})
}
