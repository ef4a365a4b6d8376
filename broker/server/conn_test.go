package server_test

import (
	"errors"
	"fmt"
	"io"
	"net"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/metaq-go/metaq/broker/brokertest"
	"github.com/metaq-go/metaq/broker/server"
	"github.com/metaq-go/metaq/protocol"
)

// TestGarbage closes the connection without an answer, after answering what came before, and counts it. The broker lives
// on.
func TestGarbage(t *testing.T) {
	tests := []struct{ name, garbage string }{
		{"empty line", "\r\n"},
		{"spaces", "   \r\n"},
		{"unknown verb", "help\r\n"},
		{"wrong case", "GET t g 0 0 100 1\r\n"},
		{"HTTP", "GET / HTTP/1.1\r\nHost: x\r\n\r\n"},
		{"TLS", "\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n"},
		{"zeros", strings.Repeat("\x00", 1000) + "\r\n"},
		{"put with a negative length", "put t 0 -1 0 1\r\n"},
		{"put with a huge length", "put t 0 2147483647 0 1\r\n"},
		{"put with a length out of range", "put t 0 2147483648 0 1\r\n"},
		{"put with an endless length", "put t 0 99999999999999999999999999 0 1\r\n"},
		{"put with a hexadecimal length", "put t 0 0x5 0 1\r\nhello"},
		{"put without a length", "put t 0\r\n"},
		{"put with a bad partition", "put t zero 1 0 1\r\nx"},
		{"put with a bad flag", "put t 0 1 2147483648 1\r\nx"},
		{"put with a bad opaque", "put t 0 1 0 -1 2147483648\r\nx"},
		{"put with a bad key", "put t 0 1 0 -1 TX:a 1\r\nx"},
		{"get with a bad offset", "get t g 0 9223372036854775808 100 1\r\n"},
		{"get without an opaque", "get t g 0 0 100\r\n"},
		{"offset without an opaque", "offset t g 0 0\r\n"},
		{"poll without a wait", "poll t g 0 0 100 1\r\n"},
		{"two spaces", "get t  g 0 0 100 1\r\n"},
		{"a result without a length", "result 200\r\n"},
		{"a value of negative length", "value -5 1\r\n"},
		{"a line without end", strings.Repeat("version 1 ", 1<<17)},
		{"a CR without LF", "version 1\rversion 2\r\r\n"},
		{"sync", "sync t 0 5 0 999 -1 1\r\nhello"},
		{"transaction", "transaction TX:s1:1 s1 BEGIN 1\r\n"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := start(t, nil)
				p := r.connect()
				p.Send(put("t", 0, 1, "a") + "version 2\r\n" + tt.garbage + "version 3\r\n" + put("t", 0, 4, "b"))
				got, closed := p.Received()
				if order := opaques(t, got); order != "1 2" || !closed {
					t.Errorf("got answers to %s, closed %v; want 1 2, true", order, closed)
				}
				if s := r.bodies("t", 0); s != "a;" {
					t.Errorf("log: got %q, want a;", s)
				}
				if n := r.Stats().Malformed; n != 1 {
					t.Errorf("malformed: got %d, want 1", n)
				}
				if order := opaques(t, r.connect().Ask("version 5\r\n")); order != "5" {
					t.Errorf("another connection: got %q, want 5", order)
				}
			})
		})
	}
}

// TestUnfinished ends the stream inside a message: nothing of it is stored or answered.
func TestUnfinished(t *testing.T) {
	whole := put("t", 0, 1, "hello")
	for cut := range len(whole) {
		synctest.Test(t, func(t *testing.T) {
			r := start(t, nil)
			p := r.connect()
			p.Send(whole[:cut])
			if got, closed := p.Received(); got != "" || closed {
				t.Errorf("%q: got %q, closed %v", whole[:cut], got, closed)
			}
			p.Close()
			synctest.Wait()
			if len(r.store.Logs()) != 0 {
				t.Errorf("%q was stored", whole[:cut])
			}
			if n, want := r.Stats().Malformed, int64(min(cut, 1)); n != want {
				t.Errorf("%q: malformed: got %d, want %d", whole[:cut], n, want)
			}
		})
	}
}

// TestFirstHalfIsStored: a client that vanishes inside a message has sent others before it.
func TestFirstHalfIsStored(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := start(t, nil)
		p := r.connect()
		p.Send(put("t", 0, 1, "a") + put("t", 0, 2, "b") + put("t", 0, 3, "hello")[:15])
		p.Close()
		synctest.Wait()
		if s := r.bodies("t", 0); s != "a;b;" {
			t.Errorf("log: got %q, want a;b;", s)
		}
	})
}

func TestLineLimit(t *testing.T) {
	pad := func(line string, n int) string { return line + strings.Repeat("x", n-len(line)) + "\r\n" }
	for n, want := range map[int]string{64 << 10: "1 2", 64<<10 + 1: "", 200 << 10: ""} {
		synctest.Test(t, func(t *testing.T) {
			p := start(t, nil).connect()
			p.Send(pad("version 1 ", n) + "version 2\r\n")
			got, closed := p.Received()
			if order := opaques(t, got); order != want || closed != (want == "") {
				t.Errorf("line of %d bytes: got answers to %q, closed %v; want %q", n, order, closed, want)
			}
		})
	}
}

func TestBodyLimits(t *testing.T) {
	limits := func(c *server.Config) { c.Limits = protocol.Limits{Body: 1000, Skip: 5000} }
	for n, want := range map[int]string{1000: "200 200", 1001: "500 200", 5000: "500 200", 5001: "", 1<<31 - 1: ""} {
		synctest.Test(t, func(t *testing.T) {
			p := start(t, limits).connect()
			p.Send(fmt.Sprintf("put t 0 %d 0 1\r\n", n))
			if n <= 5000 {
				p.Send(strings.Repeat("x", n) + put("t", 0, 2, "y"))
			}
			s, closed := p.Received()
			var codes []string
			for _, a := range answers(t, s) {
				codes = append(codes, fmt.Sprint(int(a.Code)))
			}
			if got := strings.Join(codes, " "); got != want || closed != (want == "") {
				t.Errorf("body of %d bytes: got %q, closed %v; want %q", n, got, closed, want)
			}
		})
	}
}

// TestUnsolicitedResponse: whatever its length it is read past.
func TestUnsolicitedResponse(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := start(t, nil)
		p := r.connect()
		p.Send("value 100000000 1\r\n")
		for range 100 {
			p.Send(strings.Repeat("x", 1000000))
		}
		if got := p.Ask("version 2\r\n"); opaques(t, got) != "2" {
			t.Errorf("behind a value of 100 MB: got %q, want the answer to 2", got)
		}
	})
}

// deaf is a client that asks and does not listen.
func deaf(t *testing.T, r *rig) net.Conn {
	t.Helper()
	conn, err := r.net.Dial(t.Context(), "")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	return conn
}

// TestDeafClient: it is read on until so many requests are outstanding, does not disturb others, and is cut when it has
// taken no byte for a while.
func TestDeafClient(t *testing.T) {
	requests := map[string]func(i int) string{
		"get":                       func(i int) string { return fmt.Sprintf("get t g 0 0 1048576 %d\r\n", i) },
		"version":                   func(i int) string { return fmt.Sprintf("version %d\r\n", i) },
		"put":                       func(i int) string { return put("t", 1, i, "x") },
		"put, partitions alternate": func(i int) string { return put("t", i%3, i, "x") },
		"put, refused":              func(i int) string { return put("t", 9, i, "x") },
		"append":                    func(i int) string { return batch("t", 1, i, "x", "y") },
		"stats":                     func(i int) string { return fmt.Sprintf("stats topics %d\r\n", i) },
	}
	for name, request := range requests {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				const outstanding = 500
				r := start(t, func(c *server.Config) { c.Outstanding = outstanding })
				other := r.connect()
				other.Ask(put("t", 0, 1, strings.Repeat("x", 10000)))
				conn := deaf(t, r)
				var sent int
				done := make(chan error)
				go func() {
					for {
						if _, err := io.WriteString(conn, request(sent)); err != nil {
							done <- err
							return
						}
						sent++
					}
				}()
				began := time.Now()
				synctest.Wait() // the broker reads no more
				// What is not answered yet, a batch more, what was answered and not taken, and what is read ahead.
				if most := outstanding + 128 + (64<<10+256<<10)/10; sent > most {
					t.Errorf("the broker took %d requests, want at most %d", sent, most)
				}
				t.Logf("the broker took %d requests", sent)
				for i := range 50 {
					time.Sleep(time.Second)
					if got := stored(t, other.Ask(put("t", 2, i, "x"))); len(got) != 1 {
						t.Fatalf("another client: got %+v", got)
					}
				}
				<-done
				if took := time.Since(began); took != time.Minute {
					t.Errorf("cut after %v, want 1m", took)
				}
				synctest.Wait()
				if n := r.Stats().Connections; n != 1 {
					t.Errorf("connections: got %d, want 1", n)
				}
			})
		})
	}
}

// TestSlowClient: who takes a few bytes now and then is not cut, however long the whole takes.
func TestSlowClient(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := start(t, nil)
		p := r.connect()
		p.Ask(put("t", 0, 1, strings.Repeat("x", 100)))
		conn := deaf(t, r)
		if _, err := io.WriteString(conn, "get t g 0 0 1000 2\r\n"); err != nil {
			t.Fatal(err)
		}
		var got []byte
		for len(got) < len("value 120 2\r\n")+120 {
			time.Sleep(55 * time.Second)
			b := make([]byte, 10)
			n, err := conn.Read(b)
			if err != nil {
				t.Fatalf("after %d bytes: %v", len(got), err)
			}
			got = append(got, b[:n]...)
		}
		if list := answers(t, string(got)); len(list) != 1 || len(list[0].Body) != 120 {
			t.Errorf("got %q", got)
		}
	})
}

// TestIdle: a connection without a byte from the client is closed after five minutes, one that says something is not.
func TestIdle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := start(t, nil)
		silent, talks, slow := r.connect(), r.connect(), r.connect()
		for range 10 {
			time.Sleep(time.Minute)
			talks.Ask("version 1\r\n")
			slow.Send("v")
		}
		for name, want := range map[*brokertest.Peer]bool{silent: true, talks: false, slow: false} {
			if _, closed := name.Received(); closed != want {
				t.Errorf("after ten minutes: closed %v, want %v", closed, want)
			}
		}
		if n := r.Stats().Malformed; n != 0 {
			t.Errorf("malformed: got %d, want 0", n)
		}
	})
}

// flaky is a listener that sometimes can't accept.
type flaky struct {
	net.Listener
	errs []error
}

func (l *flaky) Accept() (net.Conn, error) {
	if len(l.errs) > 0 {
		err := l.errs[0]
		l.errs = l.errs[1:]
		if err != nil {
			return nil, &net.OpError{Op: "accept", Err: err}
		}
	}
	return l.Listener.Accept()
}

// TestAcceptFails: the broker tries again when it is out of file descriptors or a client gave up early.
func TestAcceptFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := start(t, func(c *server.Config) {
			c.Listener = &flaky{c.Listener, []error{syscall.ECONNABORTED, nil, syscall.EMFILE, syscall.EMFILE, syscall.ENFILE}}
		})
		for i := range 3 {
			p := r.connect()
			p.Send(fmt.Sprintf("version %d\r\n", i))
			time.Sleep(time.Second)
			if got, _ := p.Received(); opaques(t, got) != fmt.Sprint(i) {
				t.Errorf("connection %d: got %q", i, got)
			}
		}
	})
}

// TestListenerEnds: a listener that somebody closed ends Run with an error, after the connections.
func TestListenerEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := start(t, nil)
		served := make(chan error, 1)
		second, err := server.Open(server.Config{Listener: brokertest.NewListener(), Store: r.store, Topics: r.topics})
		if err != nil {
			t.Fatal(err)
		}
		go func() { served <- second.Run(t.Context()) }()
		synctest.Wait()
		if err := second.Close(); err != nil {
			t.Error(err)
		}
		if err := second.Close(); err != nil {
			t.Errorf("second close: %v", err)
		}
		if err := <-served; !errors.Is(err, net.ErrClosed) {
			t.Errorf("got %v, want ErrClosed", err)
		}
	})
}

// TestThousandConnections: all are served, and gone when they are gone.
func TestThousandConnections(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := start(t, nil)
		peers := make([]*brokertest.Peer, 1000)
		for i := range peers {
			peers[i] = r.connect()
			peers[i].Send(put("t", i%4, i, fmt.Sprint(i)) + fmt.Sprintf("poll t g %d 9223372036854775807 100 1000 %d\r\n", i%4, -i))
		}
		for i, p := range peers {
			got, _ := p.Received()
			if list := answers(t, got); len(list) != 2 || int(list[0].Opaque) != i || list[0].Code != protocol.OK {
				t.Fatalf("connection %d: got %+v", i, list)
			}
		}
		if n := r.Stats().Connections; n != 1000 {
			t.Errorf("connections: got %d, want 1000", n)
		}
		n := 0
		for partition := range 4 {
			n += len(r.content("t", partition))
		}
		if n != 1000 {
			t.Errorf("records: got %d, want 1000", n)
		}
		for _, p := range peers {
			p.Close()
		}
		synctest.Wait()
		if n := r.Stats().Connections; n != 0 {
			t.Errorf("connections afterwards: got %d, want 0", n)
		}
	})
}

// TestDeafClientMemory: what waits for a client that does not listen is counted in requests, so none of them may hold much.
func TestDeafClientMemory(t *testing.T) {
	long := strings.Repeat("n", 4000)
	for name, request := range map[string]func(i int) string{
		"partitions alternate": func(i int) string { return put("t", i%3, i, "x") },
		"long names": func(i int) string {
			return put(long, 0, i, "x") + "get " + long + " g 0 0 1 1\r\noffset " + long + " g 0 0 1\r\nstats " + long + " 1\r\ntopics " + long + " 1\r\n"
		},
		"polls": func(i int) string { return fmt.Sprintf("poll t g 0 0 100 2000000000 %d\r\n", i) },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := start(t, nil)
				conn := deaf(t, r)
				heap := func() int64 {
					var m runtime.MemStats
					runtime.GC()
					runtime.ReadMemStats(&m)
					return int64(m.HeapAlloc)
				}
				before := heap()
				done := make(chan int)
				go func() {
					sent := 0
					for ; sent < 40000; sent++ {
						if _, err := io.WriteString(conn, request(sent)); err != nil {
							break
						}
					}
					done <- sent
				}()
				synctest.Wait()
				held := heap() - before
				conn.Close()
				if sent := <-done; held > 30<<20 {
					t.Errorf("%d requests hold %d MiB", sent, held>>20)
				} else {
					t.Logf("%d requests hold %d MiB", sent, held>>20)
				}
			})
		})
	}
}
