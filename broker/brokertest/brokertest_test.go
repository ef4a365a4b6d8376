package brokertest_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"

	"go.uber.org/goleak"

	"github.com/metaq-go/metaq/broker"
	"github.com/metaq-go/metaq/broker/brokertest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// talker is a client that says one thing at a time.
type talker struct {
	t    *testing.T
	conn net.Conn
	r    *bufio.Reader
}

func dial(t *testing.T, b *brokertest.Broker) *talker {
	t.Helper()
	conn, err := b.Dial(t.Context(), b.Addr())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	return &talker{t: t, conn: conn, r: bufio.NewReader(conn)}
}

// try sends a request and returns the answer: code and body of a result, 0 and body of a value.
func (c *talker) try(request string) (code int, body string, err error) {
	if _, err := io.WriteString(c.conn, request); err != nil {
		return 0, "", err
	}
	line, err := c.r.ReadString('\n')
	if err != nil {
		return 0, "", err
	}
	var n, opaque int
	if _, err = fmt.Sscanf(line, "value %d %d", &n, &opaque); err != nil {
		_, err = fmt.Sscanf(line, "result %d %d %d", &code, &n, &opaque)
	}
	if err != nil {
		return 0, "", fmt.Errorf("answer %q: %w", line, err)
	}
	buf := make([]byte, n)
	_, err = io.ReadFull(c.r, buf)
	return code, string(buf), err
}

func (c *talker) say(request string) (code int, body string) {
	c.t.Helper()
	code, body, err := c.try(request)
	if err != nil {
		c.t.Fatalf("%q: %v", request, err)
	}
	return code, body
}

// end returns the end of partition 0 of topic t.
func (c *talker) end() string {
	c.t.Helper()
	_, body := c.say("get t g 0 9223372036854775807 1 1\r\n")
	return body
}

// each runs a test with both kinds of broker, the one in memory in a bubble.
func each(t *testing.T, f func(t *testing.T, opts ...brokertest.Option)) {
	t.Run("loopback", func(t *testing.T) { f(t) })
	t.Run("memory", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) { f(t, brokertest.InMemory()) })
	})
}

func TestStart(t *testing.T) {
	each(t, func(t *testing.T, opts ...brokertest.Option) {
		b := brokertest.Start(t, append(opts, brokertest.Topic("t", 1), brokertest.Topic("u", 3))...)
		c := dial(t, b)
		if code, body := c.say("topics\r\n"); code != 200 || body != "t 1\r\nu 3\r\n" {
			t.Errorf("topics: got %d %q", code, body)
		}
		if code, _ := c.say("put t 0 5 0 1\r\nhello"); code != 200 {
			t.Errorf("put: got %d, want 200", code)
		}
		if code, body := c.say("put v 0 5 0 1\r\nhello"); code != 500 {
			t.Errorf("put to a topic that is not there: got %d %q, want 500", code, body)
		}
	})
}

func TestConfigure(t *testing.T) {
	b := brokertest.Start(t, brokertest.InMemory(), brokertest.Configure(func(c *broker.Config) { c.BrokerID = 7 }))
	if _, body := dial(t, b).say("version\r\n"); !strings.Contains(body, " id=7 ") {
		t.Errorf("version: got %q, want id=7 in it", body)
	}
	if got := b.Broker().Addr().String(); got != b.Addr() {
		t.Errorf("broker says its address is %s, want %s", got, b.Addr())
	}
}

func TestRestart(t *testing.T) {
	each(t, func(t *testing.T, opts ...brokertest.Option) {
		b := brokertest.Start(t, opts...)
		addr := b.Addr()
		c := dial(t, b)
		c.say("put t 0 5 0 1\r\nhello")
		b.Restart()
		if b.Addr() != addr {
			t.Errorf("address after a restart: got %s, want %s", b.Addr(), addr)
		}
		if _, _, err := c.try("version\r\n"); err == nil {
			t.Error("the old connection still answers")
		}
		if got := dial(t, b).end(); got != "25" {
			t.Errorf("end after a restart: got %s, want 25", got)
		}
	})
}

func TestStopped(t *testing.T) {
	b := brokertest.Start(t, brokertest.InMemory())
	b.Stop()
	b.Stop()
	if _, err := b.Dial(t.Context(), ""); !errors.Is(err, syscall.ECONNREFUSED) {
		t.Errorf("dial a stopped broker: got %v, want ECONNREFUSED", err)
	}
	if b.Broker() != nil {
		t.Error("a stopped broker is still given out")
	}
	b.Restart()
	dial(t, b).say("version\r\n")

	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := b.Dial(ended, ""); !errors.Is(err, context.Canceled) {
		t.Errorf("dial with an ended context: got %v, want Canceled", err)
	}
}

// TestKill and TestCrash hold the commit of a second put back: it was written and is not synced.
func TestKill(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := brokertest.Start(t, brokertest.InMemory())
		c := writeTwo(t, b)
		b.Kill()
		if _, _, err := c.try("version\r\n"); err == nil {
			t.Error("a connection outlived Kill")
		}
		if got := dial(t, b).end(); got != "50" {
			t.Errorf("end after a kill: got %s, want 50: what was written survives the process", got)
		}
	})
}

func TestCrash(t *testing.T) {
	ends := make(map[string]int)
	for seed := range uint64(40) {
		synctest.Test(t, func(t *testing.T) {
			b := brokertest.Start(t, brokertest.InMemory())
			writeTwo(t, b)
			b.Crash(seed)
			ends[dial(t, b).end()]++
		})
	}
	if ends["25"] == 0 || ends["50"] == 0 || ends["25"]+ends["50"] != 40 {
		t.Errorf("ends after power failed: got %v, want 25 (synced) and sometimes 50 (also written)", ends)
	}
}

func writeTwo(t *testing.T, b *brokertest.Broker) *talker {
	c := dial(t, b)
	if code, body := c.say("put t 0 5 0 1\r\nhello"); code != 200 {
		t.Fatalf("put: got %d %q", code, body)
	}
	b.HoldCommits()
	if _, err := io.WriteString(c.conn, "put t 0 5 0 2\r\nworld"); err != nil {
		t.Fatal(err)
	}
	synctest.Wait() // the broker has it, and is at the disk
	return c
}

func TestHoldCommits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := brokertest.Start(t, brokertest.InMemory())
		release := b.HoldCommits()
		answered := make(chan int, 1)
		c := dial(t, b)
		go func() {
			code, _, _ := c.try("put t 0 5 0 1\r\nhello")
			answered <- code
		}()
		synctest.Wait()
		select {
		case <-answered:
			t.Fatal("answered although the commit is held")
		default:
		}
		release()
		release()
		if code := <-answered; code != 200 {
			t.Errorf("put: got %d, want 200", code)
		}
	})
}

func TestFaults(t *testing.T) {
	b := brokertest.Start(t, brokertest.InMemory())
	c := dial(t, b)
	put := func(want int) {
		t.Helper()
		if code, body := c.say("put t 0 5 0 1\r\nhello"); code != want {
			t.Errorf("put: got %d %q, want %d", code, body, want)
		}
	}
	put(200)
	heal := b.FailPuts(syscall.ENOSPC)
	put(500)
	heal()
	put(200)
	heal = b.FailSyncs(syscall.EIO)
	put(500)
	heal()
	put(500) // closed for writing
	b.Restart()
	c = dial(t, b)
	put(200)
}

func TestListener(t *testing.T) {
	l := brokertest.NewListener()
	if _, err := l.Dial(t.Context(), "waits to be accepted"); err != nil {
		t.Fatal(err)
	}
	queued, err := l.Dial(t.Context(), "never accepted")
	if err != nil {
		t.Fatal(err)
	}
	conn, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if err := l.Close(); err != nil {
		t.Error(err)
	}
	if err := l.Close(); !errors.Is(err, net.ErrClosed) {
		t.Errorf("second close: got %v, want ErrClosed", err)
	}
	if _, err := l.Accept(); !errors.Is(err, net.ErrClosed) {
		t.Errorf("accept after close: got %v, want ErrClosed", err)
	}
	if _, err := l.Dial(t.Context(), ""); !errors.Is(err, syscall.ECONNREFUSED) {
		t.Errorf("dial after close: got %v, want ECONNREFUSED", err)
	}
	if _, err := queued.Read(make([]byte, 1)); !errors.Is(err, io.EOF) {
		t.Errorf("read of a connection that was not accepted: got %v, want EOF", err)
	}
}
