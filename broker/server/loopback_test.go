package server_test

import (
	"fmt"
	"io"
	"net"
	"strings"
	"testing"

	"github.com/metaq-go/metaq/broker/server"
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
