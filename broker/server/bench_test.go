package server_test

import (
	"fmt"
	"net"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/metaq-go/metaq/broker/server"
	"github.com/metaq-go/metaq/broker/store"
	"github.com/metaq-go/metaq/internal/vfs"
	"github.com/metaq-go/metaq/protocol"
)

// wire is a client over the loopback interface that makes no garbage of its own.
type wire struct {
	t    testing.TB
	conn net.Conn
	rd   *protocol.Reader
}

// onDisk starts a rig with a real disk and a port, and a client.
func onDisk(t testing.TB, relaxed bool) *wire {
	t.Helper()
	r := setup{
		store:  store.Config{FS: vfs.OS(), Dir: filepath.Join(t.TempDir(), "data"), Relaxed: relaxed},
		server: func(c *server.Config) { c.Listener, c.Addr = nil, "127.0.0.1:0" },
	}.start(t)
	w := &wire{t: t, conn: r.dial(t)}
	w.rd = protocol.NewReader(w.conn, protocol.Limits{})
	return w
}

// exchange sends requests and reads n answers, which must all be of code 200. The sender does not wait for answers.
func (w *wire) exchange(requests []byte, times, n int) {
	done := make(chan error, 1)
	go func() {
		for range times {
			if _, err := w.conn.Write(requests); err != nil {
				done <- err
				return
			}
		}
		done <- nil
	}()
	var a protocol.Response
	for range n {
		if err := w.rd.Response(&a); err != nil || a.Code != protocol.OK {
			w.t.Fatalf("answer: got %d %q, %v", a.Code, a.Body, err)
		}
	}
	if err := <-done; err != nil {
		w.t.Fatal(err)
	}
}

// workloads are requests that are sent again and again, and how many messages and answers they stand for.
func workloads() map[string]struct {
	requests          []byte
	messages, answers int
} {
	type load = struct {
		requests          []byte
		messages, answers int
	}
	repeat := func(n int, request func(i int) string) []byte {
		var b strings.Builder
		for i := range n {
			b.WriteString(request(i))
		}
		return []byte(b.String())
	}
	body := func(n int) string { return strings.Repeat("x", n) }
	records := func(n, size int) (list []string) {
		for range n {
			list = append(list, body(size))
		}
		return list
	}
	return map[string]load{
		"put 100 B":                 {repeat(1000, func(i int) string { return put("t", 0, i, body(100)) }), 1000, 1000},
		"put 100 B, two partitions": {repeat(1000, func(i int) string { return put("t", i%2, i, body(100)) }), 1000, 1000},
		"append 500 x 100 B":        {[]byte(batch("t", 0, 1, records(500, 100)...)), 500, 1},
		"append 500 x 1 kB":         {[]byte(batch("t", 0, 1, records(500, 1000)...)), 500, 1},
		"get one record":            {repeat(1000, func(i int) string { return fmt.Sprintf("get u g 0 %d 120 1\r\n", i*120) }), 1000, 1000},
		"get 1 MiB of 100 B":        {[]byte("get u g 0 0 1048576 1\r\n"), 1 << 20 / 120, 1},
	}
}

func (w *wire) fill() {
	w.exchange([]byte(batch("u", 0, 1, strings.Split(strings.Repeat(strings.Repeat("x", 100)+" ", 9000), " ")...)), 1, 1)
}

func BenchmarkWire(b *testing.B) {
	for _, relaxed := range []bool{false, true} {
		for name, load := range workloads() {
			if relaxed {
				if strings.HasPrefix(name, "get") {
					continue
				}
				name += ", relaxed"
			}
			b.Run(name, func(b *testing.B) {
				w := onDisk(b, relaxed)
				w.fill()
				w.exchange(load.requests, 10, 10*load.answers)
				b.ReportAllocs()
				b.ResetTimer()
				rounds := (b.N + load.messages - 1) / load.messages
				w.exchange(load.requests, rounds, rounds*load.answers)
			})
		}
	}
}

// BenchmarkOnePut waits for each answer.
func BenchmarkOnePut(b *testing.B) {
	w := onDisk(b, false)
	request := []byte(put("t", 0, 1, strings.Repeat("x", 100)))
	b.ReportAllocs()
	for b.Loop() {
		w.exchange(request, 1, 1)
	}
}

// TestNoAllocations: what a message costs in memory does not depend on how many there are. What is allocated is for
// rounds of the disk and portions of the network, so a share of them is allowed.
func TestNoAllocations(t *testing.T) {
	if raceDetector {
		t.Skip("the race detector lets pools forget")
	}
	for name, load := range workloads() {
		t.Run(name, func(t *testing.T) {
			w := onDisk(t, false)
			w.fill()
			const messages = 20000
			rounds := messages / load.messages
			w.exchange(load.requests, rounds, rounds*load.answers) // buffers grow
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			w.exchange(load.requests, rounds, rounds*load.answers)
			runtime.ReadMemStats(&after)
			n := after.Mallocs - before.Mallocs
			t.Logf("%d allocations for %d messages", n, messages)
			if n > messages/20 {
				t.Errorf("%d allocations for %d messages: some are made for each", n, messages)
			}
		})
	}
}
