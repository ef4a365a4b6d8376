package server_test

import (
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"runtime"
	"strings"
	"sync"
	"testing"

	"github.com/metaq-go/metaq/broker/server"
	"github.com/metaq-go/metaq/protocol"
)

// loopback starts a rig on a port of the loopback interface: half-closed connections and buffers of the system are not
// to be had with pipes.
func loopback(t testing.TB) *rig {
	t.Helper()
	return start(t, func(c *server.Config) { c.Listener, c.Addr = nil, "127.0.0.1:0" })
}

func (r *rig) dial(t testing.TB) *net.TCPConn {
	t.Helper()
	conn, err := net.Dial("tcp", r.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	return conn.(*net.TCPConn)
}

// TestHalfClose: a client that says all it has to say and closes its half, as nc does, gets every answer.
func TestHalfClose(t *testing.T) {
	r := loopback(t)
	for name, end := range map[string]func(*net.TCPConn) error{
		"half-close": (*net.TCPConn).CloseWrite,
		"quit":       func(c *net.TCPConn) error { _, err := io.WriteString(c, "quit\r\n"); return err },
		"garbage": func(c *net.TCPConn) error {
			_, err := io.WriteString(c, "garbage\r\n"+strings.Repeat("more of it\r\n", 50000))
			return err
		},
		"half a request": func(c *net.TCPConn) error {
			_, err := io.WriteString(c, "put t 0 50 0 1\r\nhello")
			return firstError(err, c.CloseWrite())
		},
	} {
		t.Run(name, func(t *testing.T) {
			for range 20 {
				conn := r.dial(t)
				var b strings.Builder
				for i := range 50 {
					b.WriteString(put("t", i%4, 3*i, "x") + fmt.Sprintf("version %d\r\noffset t g %d 0 %d\r\n", 3*i+1, i%4, 3*i+2))
				}
				if _, err := io.WriteString(conn, b.String()); err != nil {
					t.Fatal(err)
				}
				if err := end(conn); err != nil {
					t.Fatal(err)
				}
				got, err := io.ReadAll(conn)
				if err != nil {
					t.Errorf("the end of the answers: %v", err)
				}
				if n := len(answers(t, string(got))); n != 150 {
					t.Fatalf("got %d answers, want 150", n)
				}
			}
		})
	}
}

func firstError(errs ...error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

// TestReset: a client that is killed while its answers are on their way leaves nothing behind.
func TestReset(t *testing.T) {
	r := loopback(t)
	r.topics.n["big"] = 1
	conn := r.dial(t)
	if _, err := io.WriteString(conn, put("big", 0, 1, strings.Repeat("x", 1<<20))); err != nil {
		t.Fatal(err)
	}
	if _, err := conn.Read(make([]byte, 1)); err != nil {
		t.Fatal(err)
	}
	for range 20 {
		c := r.dial(t)
		if _, err := io.WriteString(c, strings.Repeat("get big g 0 0 1048576 1\r\n", 1000)); err != nil {
			t.Fatal(err)
		}
		if _, err := c.Read(make([]byte, 1)); err != nil {
			t.Fatal(err)
		}
		if err := c.SetLinger(0); err != nil {
			t.Fatal(err)
		}
		c.Close()
	}
	r.stop() // waits for all of them
	if n := r.Stats().Connections; n != 0 {
		t.Errorf("connections: got %d, want 0", n)
	}
}

// TestIdleConnectionsAreSmall: a connection that was given a big answer does not keep the memory of it.
func TestIdleConnectionsAreSmall(t *testing.T) {
	r := loopback(t)
	first := r.dial(t)
	read := func(conn net.Conn, n int64) {
		t.Helper()
		if _, err := io.CopyN(io.Discard, conn, n); err != nil {
			t.Fatal(err)
		}
	}
	const size = 1 << 20
	if _, err := io.WriteString(first, put("u", 0, 1, strings.Repeat("x", size-protocol.HeaderSize))); err != nil {
		t.Fatal(err)
	}
	read(first, int64(len("result 200 24 1\r\n")))
	heap := func() int64 {
		var m runtime.MemStats
		runtime.GC()
		runtime.GC() // pools forget after the second
		runtime.ReadMemStats(&m)
		return int64(m.HeapAlloc)
	}
	before := heap()
	const n = 100
	for range n {
		conn := r.dial(t)
		if _, err := io.WriteString(conn, "get u g 0 0 1048576 1\r\n"); err != nil {
			t.Fatal(err)
		}
		read(conn, int64(len("value 1048576 1\r\n"))+size)
	}
	if each := (heap() - before) / n; each > 100<<10 {
		t.Errorf("an idle connection holds %d KiB", each>>10)
	} else {
		t.Logf("an idle connection holds %d KiB", each>>10)
	}
}

// TestManyAtOnce lets clients do everything at once for real. What was acknowledged is in the log, at its offset, with its
// id, and nothing else is.
func TestManyAtOnce(t *testing.T) {
	r := loopback(t)
	type at struct {
		partition int32
		offset    int64
	}
	type message struct {
		id   int64
		body string
	}
	var mu sync.Mutex
	acked := make(map[at]message)
	var clients sync.WaitGroup
	for i := range 20 {
		conn := r.dial(t)
		clients.Go(func() {
			rng := rand.New(rand.NewPCG(uint64(i), 0))
			rd := protocol.NewReader(conn, protocol.Limits{})
			for k := range 60 {
				var b strings.Builder
				sent := make(map[int32][]string)
				for j := range int32(rng.IntN(30) + 1) {
					body := func(x int) string { return fmt.Sprintf("%d/%d/%d/%d", i, k, j, x) }
					partition := rng.IntN(5) - 1
					switch rng.IntN(6) {
					case 0, 1, 2:
						sent[j] = []string{body(0)}
						b.WriteString(put("t", partition, int(j), body(0)))
					case 3:
						sent[j] = []string{body(0), body(1), body(2)}
						b.WriteString(batch("t", partition, int(j), sent[j]...))
					case 4:
						fmt.Fprintf(&b, "get t g %d %d 5000 %d\r\n", max(partition, 0), rng.IntN(3000), j)
						sent[j] = nil
					case 5:
						fmt.Fprintf(&b, "poll t g %d 9223372036854775806 5000 50 %d\r\n", max(partition, 0), j)
						sent[j] = nil
					}
				}
				if _, err := io.WriteString(conn, b.String()); err != nil {
					t.Error(err)
					return
				}
				for range len(sent) {
					var a protocol.Response
					if err := rd.Response(&a); err != nil {
						t.Error(err)
						return
					}
					bodies, ok := sent[a.Opaque]
					if !ok {
						t.Errorf("answer to nothing: %+v", a)
						return
					}
					if bodies == nil {
						continue
					}
					id, partition, offset, ok := protocol.ParseStored(a.Body)
					if !ok || a.Code != protocol.OK {
						t.Errorf("put: got %d %q", a.Code, a.Body)
						return
					}
					mu.Lock()
					for x, body := range bodies {
						acked[at{partition, offset}] = message{protocol.IDAfter(id, x), body}
						offset += int64(protocol.HeaderSize + len(body))
					}
					mu.Unlock()
				}
			}
		})
	}
	clients.Wait()
	for partition := range int32(4) {
		offset := int64(0)
		for _, rec := range r.content("t", int(partition)) {
			want := acked[at{partition, offset}]
			if want.id != rec.ID || want.body != string(rec.Body) {
				t.Fatalf("partition %d, offset %d: got id %d %q, acknowledged was %+v", partition, offset, rec.ID, rec.Body, want)
			}
			delete(acked, at{partition, offset})
			offset += int64(rec.Size())
		}
	}
	if len(acked) > 0 {
		t.Errorf("%d messages were acknowledged and are not in the log", len(acked))
	}
}
