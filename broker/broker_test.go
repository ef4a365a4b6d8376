package broker_test

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"

	"github.com/metaq-go/metaq/broker"
	"github.com/metaq-go/metaq/broker/brokertest"
	"github.com/metaq-go/metaq/internal/vfs"
)

func TestOpenRefuses(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	dir := t.TempDir()
	topic := func(name string, n int) broker.Config {
		return broker.Config{Dir: dir, Addr: "127.0.0.1:0", Topics: map[string]int{name: n}}
	}
	tests := []struct {
		name string
		cfg  broker.Config
		want string
	}{
		{"no folder", broker.Config{Addr: "127.0.0.1:0"}, "no data folder"},
		{"a file as folder", broker.Config{Dir: file, Addr: "127.0.0.1:0"}, file},
		{"address taken", broker.Config{Dir: dir, Addr: taken.Addr().String()}, "listen for clients"},
		{"address of HTTP taken", broker.Config{Dir: dir, Addr: "127.0.0.1:0", HTTP: taken.Addr().String()}, "listen for HTTP"},
		{"no address", broker.Config{Dir: dir, Addr: "nonsense"}, "listen for clients"},
		{"broker id", broker.Config{Dir: dir, Addr: "127.0.0.1:0", BrokerID: 1024}, "1024"},
		{"topic without partitions", topic("t", 0), "topic t: 0 partitions"},
		{"topic with too many", topic("t", 1<<20+1), "topic t: 1048577 partitions"},
		{"topic without name", topic("", 1), "topic name of 0 bytes"},
		{"topic with a space", topic("a b", 1), `"a b"`},
		{"topic of no UTF-8", topic("a\xff", 1), "must be UTF-8"},
		{"partitions of new topics", broker.Config{Dir: dir, Addr: "127.0.0.1:0", Partitions: -1}, "-1 partitions"},
		{"messages of no size", broker.Config{Dir: dir, Addr: "127.0.0.1:0", MaxMessage: -1}, "-1 bytes"},
		{"messages of any size", broker.Config{Dir: dir, Addr: "127.0.0.1:0", MaxMessage: 1<<31 - 20}, "2147483628 bytes"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			b, err := broker.Open(tt.cfg)
			if err == nil {
				b.Close()
				t.Fatal("opened")
			}
			if !strings.Contains(err.Error(), tt.want) {
				t.Errorf("got %q, want %q in it", err, tt.want)
			}
		})
	}
	b, err := broker.Open(broker.Config{Dir: dir, Addr: "127.0.0.1:0"})
	if err != nil {
		t.Fatalf("after all these the folder can't be opened: %v", err)
	}
	if _, err := broker.Open(broker.Config{Dir: dir, Addr: "127.0.0.1:0"}); !errors.Is(err, vfs.ErrLocked) {
		t.Errorf("second broker on the folder: got %v, want ErrLocked", err)
	}
	if b.HTTPAddr() != nil {
		t.Errorf("address of HTTP: got %v, want none", b.HTTPAddr())
	}
	if err := errors.Join(b.Close(), b.Close()); err != nil {
		t.Errorf("close without Run, twice: %v", err)
	}
}

// TestRunEnded: a context that has ended already ends Run at once.
func TestRunEnded(t *testing.T) {
	b, err := broker.Open(broker.Config{Dir: t.TempDir(), Addr: "127.0.0.1:0", HTTP: "127.0.0.1:0"})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := b.Run(ctx); err != nil {
		t.Errorf("run: %v", err)
	}
	if err := b.Ready(); err == nil {
		t.Error("ready after Run")
	}
	if err := b.Close(); err != nil {
		t.Errorf("close: %v", err)
	}
}

// TestListenerLost: Run ends when its listener does, and says so.
func TestListenerLost(t *testing.T) {
	l := brokertest.NewListener()
	b, err := broker.Open(broker.Config{Dir: t.TempDir(), Listener: l, HTTP: "127.0.0.1:0"})
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	l.Close()
	if err := b.Run(t.Context()); !errors.Is(err, net.ErrClosed) {
		t.Errorf("run: got %v, want ErrClosed", err)
	}
	if b.Ready() == nil {
		t.Error("ready after Run")
	}
}

// TestTopicsConfigured: what is not configured is not taken, and what is on disk can be read all the same.
func TestTopicsConfigured(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := brokertest.Start(t, brokertest.InMemory(), brokertest.Topic("gone", 1))
		brokertest.Connect(t, b.Dial).Ask("put gone 0 5 0 1\r\nhello")
		b.Restart(brokertest.Configure(func(c *broker.Config) { c.Topics = map[string]int{"a": 2} }))
		p := brokertest.Connect(t, b.Dial)
		for request, want := range map[string]string{
			"put a 1 1 0 1\r\nx":       "result 200",
			"put a 2 1 0 1\r\nx":       "result 500",
			"put b 0 1 0 1\r\nx":       "result 500",
			"put gone 0 1 0 1\r\nx":    "result 500",
			"get gone g 0 0 100 1\r\n": "value 25",
			"topics gone\r\n":          "result 200 8 2147483647\r\ngone 1\r\n",
			"topics\r\n":               "result 200 13 2147483647\r\na 2\r\ngone 1\r\n",
		} {
			if got := p.Ask(request); !strings.HasPrefix(got, want) {
				t.Errorf("%q: got %q, want %q", request, got, want)
			}
		}
	})
}

// TestTopicsMade: without any configured a topic is made at its first put, if it can be the name of one.
func TestTopicsMade(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		partitions := func(n int) brokertest.Option {
			return brokertest.Configure(func(c *broker.Config) { c.Partitions = n })
		}
		b := brokertest.Start(t, brokertest.InMemory(), partitions(3))
		p := brokertest.Connect(t, b.Dial)
		for name, want := range map[string]string{
			"a": "200", "Ünïcode": "200", "a-1": "200", "a.b_c~": "200", "%2e": "200", strings.Repeat("n", 200): "200",
			"..": "500", ".a": "500", "a/b": "500", "../a": "500", "a\\b": "500", "a*": "500", "a\tb": "500", "a\x00": "500", "a\x7f": "500",
			"a\nb": "500", "a\rb": "500", "a\xff": "500", strings.Repeat("n", 201): "500",
		} {
			if got := p.Ask("put " + name + " 2 1 0 1\r\nx"); !strings.HasPrefix(got, "result "+want) {
				t.Errorf("topic %q: got %q, want %s", name, got, want)
			}
		}
		if got := p.Ask("put a 3 1 0 1\r\nx"); !strings.HasPrefix(got, "result 500") {
			t.Errorf("put beyond the partitions of a new topic: got %q, want 500", got)
		}
		if got := p.Ask("topics new\r\n"); got != "result 200 7 2147483647\r\nnew 3\r\n" {
			t.Errorf("topics of one that would be made: got %q", got)
		}
		if got := p.Ask("topics\r\n"); strings.Contains(got, "new") {
			t.Errorf("a topic that was asked for was made: %q", got)
		}
		b.Restart(partitions(1)) // a topic keeps what it has
		p = brokertest.Connect(t, b.Dial)
		if got := p.Ask("topics a\r\n"); got != "result 200 5 2147483647\r\na 3\r\n" {
			t.Errorf("topics after a restart with fewer: got %q, want a 3", got)
		}
		if got := p.Ask("topics new\r\n"); got != "result 200 7 2147483647\r\nnew 1\r\n" {
			t.Errorf("topics of a new one: got %q, want new 1", got)
		}
	})
}

func TestClosePartitions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := brokertest.Start(t, brokertest.InMemory(), brokertest.Topic("t", 4), brokertest.Topic("u", 1))
		p := brokertest.Connect(t, b.Dial)
		codes := func(request string) (codes string) {
			for partition := range 4 {
				answer := p.Ask(strings.Replace(request, "#", string(rune('0'+partition)), 1))
				code := regexp.MustCompile(`^result (\d+)|^value`).FindString(answer)
				codes += strings.TrimPrefix(code, "result ") + " "
			}
			return strings.TrimSpace(codes)
		}
		const put, get, offset = "put t # 1 0 1\r\nx", "get t g # 0 100 1\r\n", "offset t g # 0 1\r\n"
		check := func(when, puts, gets string) {
			t.Helper()
			if got := codes(put); got != puts {
				t.Errorf("%s: puts: got %s, want %s", when, got, puts)
			}
			if got := codes(get); got != gets {
				t.Errorf("%s: gets: got %s, want %s", when, got, gets)
			}
		}
		check("before", "200 200 200 200", "value value value value")
		closes := func(from, to int) {
			t.Helper()
			if err := b.Broker().ClosePartitions("t", from, to); err != nil {
				t.Error(err)
			}
		}
		closes(1, 2)
		check("1 and 2 closed", "200 403 403 200", "value 403 403 value")
		closes(2, 3)
		check("3 too", "200 403 403 403", "value 403 403 403")
		if got := codes(offset); got != "200 200 200 200" {
			t.Errorf("offsets of closed partitions: got %s, want 200", got)
		}
		if got := p.Ask("put u 0 1 0 1\r\nx"); !strings.HasPrefix(got, "result 200") {
			t.Errorf("another topic: got %q", got)
		}
		b.Broker().OpenPartitions("u")
		check("another topic opened", "200 403 403 403", "value 403 403 403")
		b.Broker().OpenPartitions("t")
		check("opened", "200 200 200 200", "value value value value")
		for _, bad := range [][2]int{{-1, 0}, {2, 1}, {0, 4}, {4, 4}} {
			if err := b.Broker().ClosePartitions("t", bad[0], bad[1]); err == nil {
				t.Errorf("close %d to %d: want an error", bad[0], bad[1])
			}
		}
		if err := b.Broker().ClosePartitions("no", 0, 0); err == nil {
			t.Error("close of an unknown topic: want an error")
		}
		closes(0, 3)
		b.Restart()
		p = brokertest.Connect(t, b.Dial)
		check("restarted", "200 200 200 200", "value value value value")
	})
}

// TestReady: a broker serves from Run on, until it is told to stop or a partition takes no messages.
func TestReady(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := brokertest.Start(t, brokertest.InMemory())
		synctest.Wait()
		if err := b.Broker().Ready(); err != nil {
			t.Errorf("ready: got %v, want nil", err)
		}
		p := brokertest.Connect(t, b.Dial)
		p.Ask("put t 0 1 0 1\r\nx")
		heal := b.FailSyncs(syscall.EIO)
		p.Ask("put t 0 1 0 1\r\nx")
		heal()
		if err := b.Broker().Ready(); !errors.Is(err, syscall.EIO) || !strings.Contains(err.Error(), "t-0") {
			t.Errorf("after a failed sync: got %v, want EIO of t-0", err)
		}
		b.Restart()
		synctest.Wait()
		if err := b.Broker().Ready(); err != nil {
			t.Errorf("after a restart: got %v, want nil", err)
		}
		release := b.HoldCommits()
		p = brokertest.Connect(t, b.Dial)
		p.Ask("put t 0 1 0 1\r\nx")
		old := b.Broker()
		stopped := make(chan struct{})
		go func() { b.Stop(); close(stopped) }()
		<-stopped
		release()
		if old.Ready() == nil {
			t.Error("ready after it was stopped")
		}
	})
}

// TestHTTP asks what operators and their machines ask.
func TestHTTP(t *testing.T) {
	b := brokertest.Start(t, brokertest.Topic("t", 2), brokertest.Configure(func(c *broker.Config) { c.HTTP = "127.0.0.1:0" }))
	conn, err := b.Dial(t.Context(), "")
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	say := func(request, end string) {
		t.Helper()
		if _, err := io.WriteString(conn, request); err != nil {
			t.Fatal(err)
		}
		for got := ""; !strings.HasSuffix(got, end); {
			b := make([]byte, 100)
			n, err := conn.Read(b)
			if err != nil {
				t.Fatal(err)
			}
			got += string(b[:n])
		}
	}
	say("put t 1 5 0 1\r\nhello", " 1 0")
	say("put t 7 5 0 1\r\nhello", "wrong partition 7")
	say("get t g 1 0 100 1\r\nget t g 1 99 100 1\r\n", "\r\n25")

	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	get := func(path string) (int, string) {
		t.Helper()
		resp, err := client.Get("http://" + b.Broker().HTTPAddr().String() + path)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		body, err := io.ReadAll(resp.Body)
		if err != nil {
			t.Fatal(err)
		}
		return resp.StatusCode, string(body)
	}
	if code, body := get("/healthz"); code != 200 || body != "ok\n" {
		t.Errorf("/healthz: got %d %q", code, body)
	}
	if code, body := get("/readyz"); code != 200 || body != "ready\n" {
		t.Errorf("/readyz: got %d %q", code, body)
	}
	if code, _ := get("/"); code != 404 {
		t.Errorf("/: got %d, want 404", code)
	}
	code, body := get("/metrics")
	if code != 200 {
		t.Fatalf("/metrics: got %d %s", code, body)
	}
	for _, want := range []string{
		"metaq_broker_connections 1", "metaq_broker_put_messages_total 2", "metaq_broker_put_failed_messages_total 1",
		"metaq_broker_get_requests_total 2", "metaq_broker_get_misses_total 1", "metaq_broker_offset_requests_total 1",
		"metaq_broker_sent_bytes_total 25", "metaq_broker_malformed_connections_total 0",
		`metaq_broker_partition_start_offset{partition="1",topic="t"} 0`, `metaq_broker_partition_end_offset{partition="1",topic="t"} 25`,
		`metaq_broker_partition_writable{partition="1",topic="t"} 1`, "go_goroutines ", "process_open_fds ",
	} {
		if !strings.Contains(body, "\n"+want) {
			t.Errorf("/metrics lacks %q", want)
		}
	}
	heal := b.FailSyncs(syscall.EIO)
	say("put t 1 5 0 1\r\nhello", "input/output error")
	heal()
	if code, body := get("/readyz"); code != 503 || !strings.Contains(body, "t-1") {
		t.Errorf("/readyz after a failed sync: got %d %q, want 503 with the partition", code, body)
	}
	if code, body := get("/metrics"); code != 200 || !strings.Contains(body, `metaq_broker_partition_writable{partition="1",topic="t"} 0`) {
		t.Errorf("/metrics after a failed sync: got %d, want writable 0", code)
	}
	if code, _ := get("/healthz"); code != 200 {
		t.Errorf("/healthz after a failed sync: got %d, want 200", code)
	}
}

// TestMetricsOfAnyFolder: a folder that another broker made may have a name that is no UTF-8.
func TestMetricsOfAnyFolder(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"\xb2\xe2-0", "\xb2\xe3-0", "ok-0"} {
		if err := os.Mkdir(filepath.Join(dir, name), 0o755); err != nil {
			t.Skipf("the file system takes no such name: %v", err)
		}
	}
	b := brokertest.Start(t, brokertest.Configure(func(c *broker.Config) { c.Dir, c.HTTP = dir, "127.0.0.1:0" }))
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	resp, err := client.Get("http://" + b.Broker().HTTPAddr().String() + "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode != http.StatusOK {
		t.Fatalf("got %d, %v: %s", resp.StatusCode, err, body)
	}
	for _, topic := range []string{`topic="\"\\xb2\\xe2\""`, `topic="\"\\xb2\\xe3\""`, `topic="ok"`} {
		if !strings.Contains(string(body), topic) {
			t.Errorf("/metrics lacks %s", topic)
		}
	}
}
