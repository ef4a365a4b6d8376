package server_test

import (
	"testing"
	"testing/synctest"

	"github.com/metaq-go/metaq/broker/server"
	"github.com/metaq-go/metaq/protocol"
)

// FuzzConnection sends anything in two portions. Whatever it is, what comes back are whole answers, what is stored are
// whole records, and another client is served.
func FuzzConnection(f *testing.F) {
	for _, seed := range []string{
		put("t", 0, 1, "a") + put("t", 1, 2, "b") + put("t", -1, 3, "c") + "put t 0 1 0 5 4\r\nx",
		batch("t", 0, 1, "a", "b") + "get t g 0 0 100 2\r\noffset t g 0 9 3\r\npoll t g 0 42 100 1000 4\r\n",
		"version\r\nstats\r\nstats topics 5\r\nstats  6\r\ntopics\r\nquit\r\n",
		"result 200 5 1\r\nhellovalue 3 1\r\nabcversion 7\r\n",
		"put t 0 2000 0 1\r\n", "put t 0 -1 0 1\r\n", "append t 0 0 0 1\r\n", "\r\n", "poll t g 3 0 1 2147483647 1\r\n",
		"put t 0 9 1 1\r\n\x00\x00\x00\x05hello", "put t 0 1 0 -1 TX:a:1 1\r\nxput t 0 1 0 XID:1:0a:0b:q 1\r\nx",
	} {
		f.Add([]byte(seed), len(seed)/2)
		f.Add([]byte(seed), len(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte, cut int) {
		synctest.Test(t, func(t *testing.T) {
			r := start(t, func(c *server.Config) {
				c.Limits = protocol.Limits{Line: 200, Body: 500, Skip: 1000}
				c.Outstanding = 20
			})
			p := r.connect()
			cut = max(0, min(cut, len(data)))
			got := p.Ask(string(data[:cut])) + p.Ask(string(data[cut:]))
			answers(t, got)
			p.Close()
			for partition := range 4 {
				r.content("t", partition)
			}
			if got := stored(t, r.connect().Ask(put("u", 0, 9, "x"))); len(got) != 1 {
				t.Errorf("another client: got %+v", got)
			}
			if n := r.Stats().Connections; n != 1 {
				t.Errorf("connections: got %d, want 1", n)
			}
		})
	})
}
