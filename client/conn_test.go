package client

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/metaq-go/metaq/protocol"
)

// ask makes n requests for stats at the same time and returns what each of them gets, in the order of the requests.
func ask(ctx context.Context, c *Client, n int) []chan string {
	chans := make([]chan string, n)
	for i := range n {
		ch := make(chan string, 2)
		chans[i] = ch
		go func() {
			text, err := c.Stats(ctx, fmt.Sprintf("item%d", i))
			if err != nil {
				text = "error: " + err.Error()
			}
			ch <- text
		}()
		synctest.Wait()
	}
	return chans
}

func wantText(t *testing.T, ch chan string, want string) {
	t.Helper()
	synctest.Wait()
	select {
	case got := <-ch:
		if got != want && (want == "" || !strings.HasPrefix(want, "error") || !strings.Contains(got, strings.TrimPrefix(want, "error: "))) {
			t.Errorf("got %q, want %q", got, want)
		}
	default:
		t.Errorf("no answer, want %q", want)
	}
}

func wantNothing(t *testing.T, ch chan string) {
	t.Helper()
	synctest.Wait()
	select {
	case got := <-ch:
		t.Errorf("got %q, want no answer yet", got)
	default:
	}
}

// start lets a client connect.
func start(t *testing.T, w *world, c *Client, text string) *far {
	t.Helper()
	up := make(chan error, 1)
	go func() {
		_, err := c.connection(context.Background())
		up <- err
	}()
	f := w.connected(text)
	if err := <-up; err != nil {
		t.Fatal(err)
	}
	return f
}

// TestAnswersOutOfOrder: an answer belongs to the request with its opaque, whenever it comes.
func TestAnswersOutOfOrder(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		c := w.client(nil)
		f := start(t, w, c, metaqText)
		got := ask(t.Context(), c, 3)
		var opaques []int32
		for i := range 3 {
			q := f.expect(protocol.VerbStats)
			if string(q.Item) != fmt.Sprintf("item%d", i) {
				t.Errorf("request %d asks for %s", i, q.Item)
			}
			opaques = append(opaques, q.Opaque)
		}
		f.result(opaques[2], 200, "c")
		wantText(t, got[2], "c")
		wantNothing(t, got[0])
		f.result(opaques[0], 200, "a")
		f.result(opaques[1], 500, "no")
		wantText(t, got[0], "a")
		wantText(t, got[1], "error: no")
	})
}

// TestStrayAnswers: a second answer to a request, an answer to none, and values nobody waits for are passed over.
func TestStrayAnswers(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		c := w.client(nil)
		f := start(t, w, c, metaqText)
		got := ask(t.Context(), c, 2)
		first, second := f.expect(protocol.VerbStats).Opaque, f.expect(protocol.VerbStats).Opaque
		f.result(first, 200, "a")
		f.result(first, 200, "again")
		f.result(12345, 200, "to nobody")
		f.say("value 5 777\r\nhello")
		f.result(first, 500, "and again")
		f.result(second, 200, "b")
		wantText(t, got[0], "a")
		wantText(t, got[1], "b")
		wantNothing(t, got[0])
	})
}

// TestLostOnce: every call that waits when the connection ends is told once, and the next one connects again.
func TestLostOnce(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		c := w.client(nil)
		f := start(t, w, c, metaqText)
		got := ask(t.Context(), c, 5)
		for range 5 {
			f.expect(protocol.VerbStats)
		}
		f.conn.Close()
		for _, ch := range got {
			wantText(t, ch, "error: connection to far:1")
			wantNothing(t, ch)
		}
		again := ask(t.Context(), c, 1)
		f = w.connected(metaqText)
		f.result(f.expect(protocol.VerbStats).Opaque, 200, "back")
		wantText(t, again[0], "back")
	})
}

// TestGarbage: what is no answer ends the connection, and nothing else.
func TestGarbage(t *testing.T) {
	for _, s := range []string{
		"hello\r\n", "result\r\n", "result 200 x 1\r\n", "result 200 -1 1\r\n", "result 200 99999999999 1\r\n",
		"value -5 0\r\n", "value 2147483647 0\r\n", "get t g 0 0 100 8\r\n", "\r\n",
		strings.Repeat("x", 100_000), "\x00\xff\xfe\r\n",
	} {
		t.Run(fmt.Sprintf("%.20q", s), func(t *testing.T) {
			bubble(t, func(t *testing.T, w *world) {
				c := w.client(func(c *Config) { c.MaxMessage = 1 << 20 })
				f := start(t, w, c, metaqText)
				got := ask(t.Context(), c, 1)
				f.expect(protocol.VerbStats)
				_, _ = f.conn.Write([]byte(s)) // the client may not take all of it
				wantText(t, got[0], "error: connection to far:1")
				f.ended()
			})
		})
	}
}

// TestSilentBroker: a broker that owes an answer for RequestTimeout and sends nothing else is given up.
func TestSilentBroker(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		c := w.client(func(c *Config) { c.RequestTimeout = 4 * time.Second })
		f := start(t, w, c, metaqText)
		time.Sleep(3 * time.Second) // an idle connection owes nothing
		got := ask(t.Context(), c, 1)
		f.expect(protocol.VerbStats)
		time.Sleep(3900 * time.Millisecond)
		wantNothing(t, got[0])
		time.Sleep(1200 * time.Millisecond)
		wantText(t, got[0], "error: "+errSilent.Error())
		f.ended()
	})
}

// TestBusyBroker: as long as answers come, one may take longer, up to three times; a broker that has dropped it is given up
// then.
func TestBusyBroker(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		c := w.client(func(c *Config) { c.RequestTimeout = 4 * time.Second })
		f := start(t, w, c, metaqText)
		late := ask(t.Context(), c, 1)
		f.expect(protocol.VerbStats)
		for range 11 {
			time.Sleep(time.Second)
			got := ask(t.Context(), c, 1)
			f.result(f.expect(protocol.VerbStats).Opaque, 200, "x")
			wantText(t, got[0], "x")
		}
		wantNothing(t, late[0])
		time.Sleep(2 * time.Second)
		wantText(t, late[0], "error: "+errSilent.Error())
	})
}

// TestHeartbeat: an idle connection is asked for a sign of life; if there is none it ends before anybody needs it.
func TestHeartbeat(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		c := w.client(nil)
		f := start(t, w, c, metaqText)
		for range 3 {
			begun := time.Now()
			f.result(f.expect(protocol.VerbVersion).Opaque, 200, metaqText)
			if d := time.Since(begun); d < heartbeat || d > heartbeat+2*keepEvery {
				t.Errorf("heartbeat after %v, want %v", d, heartbeat)
			}
		}
		f.expect(protocol.VerbVersion)
		f.none(9 * time.Second) // one at a time
		time.Sleep(3 * time.Second)
		f.ended()
		if c.conn.alive() {
			t.Error("connection to a dead broker is alive")
		}
	})
}

// TestBrokerTakesNothing: a broker that reads nothing for RequestTimeout is given up.
func TestBrokerTakesNothing(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		c := w.client(func(c *Config) { c.RequestTimeout = 4 * time.Second })
		start(t, w, c, metaqText)
		got := ask(t.Context(), c, 3)
		time.Sleep(3900 * time.Millisecond)
		wantNothing(t, got[0])
		time.Sleep(1200 * time.Millisecond)
		for _, ch := range got {
			wantText(t, ch, "error: "+errSilent.Error())
		}
	})
}

// TestCallerGivesUp: a caller whose context ends leaves; the answer that comes later belongs to nobody else.
func TestCallerGivesUp(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		c := w.client(nil)
		f := start(t, w, c, metaqText)
		ctx, cancel := context.WithCancelCause(t.Context())
		got := ask(ctx, c, 1)
		opaque := f.expect(protocol.VerbStats).Opaque
		cancel(errors.New("enough"))
		wantText(t, got[0], "error: enough")
		next := ask(t.Context(), c, 1)
		q := f.expect(protocol.VerbStats).Opaque
		f.result(opaque, 200, "late")
		f.result(q, 200, "right")
		wantText(t, next[0], "right")
	})
}

// TestOpaquesWrap: opaques start over before the number that stands for none, and a batch of requests has consecutive ones.
func TestOpaquesWrap(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		c := w.client(nil)
		f := start(t, w, c, metaqText)
		c.conn.mu.Lock()
		c.conn.opaque = maxOpaque - 2
		c.conn.mu.Unlock()
		got := ask(t.Context(), c, 3)
		for i, want := range []int32{maxOpaque - 2, maxOpaque - 1, minOpaque} {
			q := f.expect(protocol.VerbStats)
			if q.Opaque != want {
				t.Errorf("opaque %d: got %d, want %d", i, q.Opaque, want)
			}
			f.result(q.Opaque, 200, "x")
			wantText(t, got[i], "x")
		}
	})
}

// TestBigAnswer: a body that is longer than MaxMessage ends the connection, one that is not comes whole.
func TestBigAnswer(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		c := w.client(func(c *Config) { c.MaxMessage = 100_000 })
		f := start(t, w, c, metaqText)
		got := ask(t.Context(), c, 2)
		first, second := f.expect(protocol.VerbStats).Opaque, f.expect(protocol.VerbStats).Opaque
		big := strings.Repeat("y", 100_000)
		f.result(first, 200, big)
		wantText(t, got[0], big)
		f.say(fmt.Sprintf("result 200 100001 %d\r\n", second))
		wantText(t, got[1], "error: too long")
	})
}

// TestCloseEndsCalls: Close fails what waits with ErrClosed, also a dial, and leaves no goroutine (see TestMain).
func TestCloseEndsCalls(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		c := w.client(nil)
		f := start(t, w, c, metaqText)
		got := ask(t.Context(), c, 2)
		f.expect(protocol.VerbStats)
		if err := errors.Join(c.Close(), c.Close()); err != nil {
			t.Error(err)
		}
		for _, ch := range got {
			wantText(t, ch, "error: "+ErrClosed.Error())
		}
		if _, err := c.Version(t.Context()); !errors.Is(err, ErrClosed) {
			t.Errorf("after Close: got %v, want ErrClosed", err)
		}
	})
	bubble(t, func(t *testing.T, w *world) {
		c := w.client(nil)
		got := ask(t.Context(), c, 2)
		w.accept().expect(protocol.VerbVersion) // and no answer: the greeting waits
		if err := c.Close(); err != nil {
			t.Error(err)
		}
		wantText(t, got[0], "error: "+ErrClosed.Error())
		wantText(t, got[1], "error: "+ErrClosed.Error())
	})
}
