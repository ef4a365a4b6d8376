package server_test

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/metaq-go/metaq/protocol"
)

// stopping begins to stop the rig and returns a function that tells whether that has ended.
func (r *rig) stopping() (ended func() bool) {
	var done atomic.Bool
	go func() {
		r.stop()
		done.Store(true)
	}()
	return func() bool {
		synctest.Wait()
		return done.Load()
	}
}

// TestStopIdle: connections without requests are closed at once, also while their polls wait.
func TestStopIdle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := start(t, nil)
		idle, polls, half := r.connect(), r.connect(), r.connect()
		idle.Ask("version 1\r\n")
		polls.Ask("poll t g 0 0 100 600000 1\r\n")
		half.Send(put("t", 0, 1, "hello")[:18])
		began := time.Now()
		r.stop()
		if took := time.Since(began); took != 0 {
			t.Errorf("stopping took %v, want 0", took)
		}
		if got, closed := idle.Received(); got != "" || !closed {
			t.Errorf("idle connection: got %q, closed %v", got, closed)
		}
		if got, closed := polls.Received(); got != "" || !closed {
			t.Errorf("connection with a poll: got %q, closed %v", got, closed)
		}
		if got, closed := half.Received(); got != "" || !closed {
			t.Errorf("connection with half a put: got %q, closed %v", got, closed)
		}
		if _, err := r.net.Dial(t.Context(), ""); !errors.Is(err, syscall.ECONNREFUSED) {
			t.Errorf("new connection: got %v, want ECONNREFUSED", err)
		}
	})
}

// TestStopInFlight: what was read is carried out and answered before the connection is closed.
func TestStopInFlight(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := start(t, nil)
		release := r.hold()
		defer release()
		p := r.connect()
		p.Ask(put("t", 0, 1, "a") + put("t", 1, 2, "b") + batch("t", 0, 3, "c", "d") + "get t g 0 0 100 4\r\nversion 5\r\n")
		ended := r.stopping()
		if ended() {
			t.Fatal("stopped while commits are held")
		}
		if _, err := r.net.Dial(t.Context(), ""); !errors.Is(err, syscall.ECONNREFUSED) {
			t.Errorf("new connection: got %v, want ECONNREFUSED", err)
		}
		if got, closed := p.Received(); got != "" || closed {
			t.Errorf("while commits are held: got %q, closed %v", got, closed)
		}
		release()
		if !ended() {
			t.Error("not stopped although all is answered")
		}
		got, closed := p.Received()
		list := answers(t, got)
		if order := opaques(t, got); order != "1 2 3 4 5" || !closed {
			t.Fatalf("got answers to %s, closed %v; want 1 2 3 4 5, true", order, closed)
		}
		for _, a := range list {
			if a.Code != protocol.OK {
				t.Errorf("answer to %d: got %d %q", a.Opaque, a.Code, a.Body)
			}
		}
		if a := list[3]; len(a.Body) != 63 {
			t.Errorf("get behind three records: got %d bytes, want 63", len(a.Body))
		}
	})
}

// TestStopCuts: a client that does not take its answers holds the broker up for DrainTimeout, no longer.
func TestStopCuts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := start(t, nil)
		conn := deaf(t, r)
		good := r.connect()
		if _, err := io.WriteString(conn, put("t", 0, 1, "a")); err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		r.stop()
		if took := time.Since(began); took != 5*time.Second {
			t.Errorf("stopping took %v, want 5s", took)
		}
		if _, closed := good.Received(); !closed {
			t.Error("another connection is still open")
		}
		if b, err := io.ReadAll(conn); len(b) > 0 || err != nil {
			t.Errorf("the deaf client: got %q, %v", b, err)
		}
	})
}

// TestStopUnderLoad: clients put one message after the other while the broker stops. Each put is answered or its
// connection closed; what was answered is in the log, and nothing is twice.
func TestStopUnderLoad(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := start(t, nil)
		const clients = 20
		var acked [clients]atomic.Int64
		going := make(chan struct{}, clients)
		for i := range clients {
			conn := deaf(t, r)
			go func() {
				rd := protocol.NewReader(conn, protocol.Limits{})
				var a protocol.Response
				for n := 0; ; n++ {
					if _, err := io.WriteString(conn, put("t", i%4, n, fmt.Sprintf("%d/%d", i, n))); err != nil {
						return
					}
					if err := rd.Response(&a); err != nil {
						return
					}
					if a.Code != protocol.OK || int(a.Opaque) != n {
						t.Errorf("client %d, put %d: got %+v", i, n, a)
						return
					}
					if acked[i].Add(1) == 20 {
						going <- struct{}{}
					}
				}
			}()
		}
		for range clients {
			<-going
		}
		r.stop()
		s := setup{mem: r.mem}.start(t)
		seen := make(map[string]int)
		for partition := range 4 {
			for _, body := range strings.Split(s.bodies("t", partition), ";") {
				seen[body]++
			}
		}
		delete(seen, "")
		for i := range clients {
			n := int(acked[i].Load())
			for k := range n {
				if got := seen[fmt.Sprintf("%d/%d", i, k)]; got != 1 {
					t.Fatalf("client %d, put %d of %d that were answered is in the log %d times", i, k, n, got)
				}
				delete(seen, fmt.Sprintf("%d/%d", i, k))
			}
			delete(seen, fmt.Sprintf("%d/%d", i, n)) // on its way
		}
		if len(seen) > 0 {
			t.Errorf("in the log, and not sent: %v", seen)
		}
	})
}
