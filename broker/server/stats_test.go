package server_test

import (
	"errors"
	"fmt"
	"hash/crc32"
	"os"
	"regexp"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/metaq-go/metaq/broker/server"
)

const realtimeNull = "_put null\r\n%[1]s_get null\r\n%[1]s_offset null\r\n%[1]s_get_miss null\r\n%[1]s_put_failed null\r\n%[1]s_message_size null\r\n"

// TestStats compares what stats says, item for item, with protocol.md 5.4.
func TestStats(t *testing.T) {
	realtime := func(prefix string) string { return prefix + fmt.Sprintf(realtimeNull, prefix) }
	tests := []struct{ request, want string }{
		{"stats topics 1\r\n", "t partitions 2 message_count 3 message_bytes 69 accept_publish true accept_subscribe true\r\nu *Empty*\r\n"},
		{"stats offsets 1\r\n", "t part 0 min_offset 0 max_offset 46\r\nt part 2 min_offset 0 max_offset 23\r\n"},
		{"stats realtime 1\r\n", realtime("realtime")},
		{"stats reset 1\r\n", "reset ok\r\n"},
		{
			"stats help 1\r\n", "*EMPTY* Returns broker info.\r\nhelp Returns help menu.\r\n" +
				"topics Returns topics statistics detail info.\r\noffsets Returns partitions detail info.\r\n" +
				"realtime Returns realtime statistics detail info.\r\nconfig Returns broker's config file content.\r\n",
		},
		{"stats t 1\r\n", "t\r\nresultCode 0\r\npartitions 2\r\nmessage_count 3\r\nbytes 69\r\n" + realtime("topic_realtime")},
		{"stats u 1\r\n", "u\r\nresultCode 2\r\npartitions 0\r\nmessage_count 0\r\nbytes 0\r\n" + realtime("topic_realtime")},
		{"stats no 1\r\n", "no\r\nresultCode 1\r\npartitions 0\r\nmessage_count 0\r\nbytes 0\r\n" + realtime("topic_realtime")},
		{"stats Topics 1\r\n", "Topics\r\nresultCode 1\r\npartitions 0\r\nmessage_count 0\r\nbytes 0\r\n" + realtime("topic_realtime")},
		{"stats 5 1\r\n", "5\r\nresultCode 1\r\npartitions 0\r\nmessage_count 0\r\nbytes 0\r\n" + realtime("topic_realtime")},
	}
	synctest.Test(t, func(t *testing.T) {
		p := start(t, nil).connect()
		p.Ask(put("t", 0, 1, "aaa") + batch("t", 0, 2, "bbb") + put("t", 2, 3, "ccc"))
		for _, tt := range tests {
			if got, want := p.Ask(tt.request), result(200, 1, "STATS\r\n"+tt.want+"END\r\n"); got != want {
				t.Errorf("%q\ngot  %q\nwant %q", tt.request, got, want)
			}
		}
		if got := p.Ask("stats help 1\r\n"); !strings.HasPrefix(got, "result 200 252 1\r\n") {
			t.Errorf("help: got %.30q, want 252 bytes", got)
		}
	})
}

// TestStatsOfBroker asks without an item, in every form there is.
func TestStatsOfBroker(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		config := []byte("[system]\nbrokerId=9\n")
		r := start(t, func(c *server.Config) {
			c.BrokerID = 9
			c.ConfigText = func() ([]byte, error) { return config, nil }
		})
		p := r.connect()
		r.connect()
		r.topics.close("t-3")
		p.Ask(put("t", 0, 1, "a") + batch("t", 1, 2, "b", "c") + put("t", 3, 3, "closed") + put("t", 9, 4, "wrong") +
			"put t 0 1 0 -1 TX:s:1 4\r\nx" +
			"get t g 0 0 100 5\r\nget t g 0 999 100 6\r\nget t g 2 0 100 7\r\noffset t g 0 0 8\r\n")
		time.Sleep(90 * time.Second)
		want := regexp.MustCompile(`^STATS\r\n` + fmt.Sprintf(`pid %d\r\n`, os.Getpid()) + `broker_id 9\r\nport 8123\r\nuptime 90\r\n` +
			`version 1\.4\.6\.2 metaq/0 id=9 ext=append,poll,topics\r\nslave false\r\ncurr_connections 2\r\nthreads [1-9][0-9]*\r\n` +
			`cmd_put 5\r\ncmd_get 3\r\ncmd_offset 2\r\ntx_begin 0\r\ntx_xa_begin 0\r\ntx_commit 0\r\ntx_rollback 0\r\n` +
			`get_miss 2\r\nput_failed 1\r\ntotal_messages 3\r\ntopics 2\r\n` +
			fmt.Sprintf(`config_checksum %d\r\n`, crc32.ChecksumIEEE(config)) + `END\r\n$`)
		for request, opaque := range map[string]int32{
			"stats\r\n": 1<<31 - 1, "stats  5\r\n": 5, "stats  -5 6 7\r\n": -5, "stats \t 5\r\n": 5, "stats   \r\n": 1<<31 - 1,
		} {
			list := answers(t, p.Ask(request))
			if len(list) != 1 || list[0].Opaque != opaque || list[0].Code != 200 || !want.Match(list[0].Body) {
				t.Errorf("%q\ngot  %+v\n%s\nwant %s", request, list, list[0].Body, want)
			}
		}
	})
}

func TestStatsConfig(t *testing.T) {
	for name, tt := range map[string]struct {
		text func() ([]byte, error)
		want string
	}{
		"none":    {nil, result(200, 1, "")},
		"a file":  {func() ([]byte, error) { return []byte("\xb2\xe2=1\r\nEND\n"), nil }, result(200, 1, "\xb2\xe2=1\r\nEND\n")},
		"no file": {func() ([]byte, error) { return nil, errors.New("gone") }, result(500, 1, "Read config file error:gone")},
	} {
		synctest.Test(t, func(t *testing.T) {
			p := start(t, func(c *server.Config) { c.ConfigText = tt.text }).connect()
			if got := p.Ask("stats config 1\r\n"); got != tt.want {
				t.Errorf("%s: got %q, want %q", name, got, tt.want)
			}
		})
	}
}

// TestStatsBehindPuts: stats counts what was sent before it on the same connection.
func TestStatsBehindPuts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := start(t, nil).connect()
		got := answers(t, p.Ask(put("t", 0, 1, "a")+put("t", 0, 2, "b")+"stats t 3\r\nstats 4\r\nstats  5\r\n"))
		if len(got) != 5 || !strings.Contains(string(got[2].Body), "message_count 2\r\nbytes 42\r\n") {
			t.Errorf("stats of a topic behind two puts: got %+v", got)
		}
		if !strings.Contains(string(got[4].Body), "\r\ncmd_put 2\r\n") || !strings.Contains(string(got[4].Body), "\r\ntotal_messages 2\r\n") {
			t.Errorf("stats behind two puts: got %s", got[4].Body)
		}
	})
}
