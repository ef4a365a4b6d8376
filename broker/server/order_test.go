package server_test

import (
	"bytes"
	"fmt"
	"net"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"

	"github.com/metaq-go/metaq/broker/brokertest"
	"github.com/metaq-go/metaq/broker/server"
	"github.com/metaq-go/metaq/internal/vfs"
	"github.com/metaq-go/metaq/internal/vfs/faultfs"
	"github.com/metaq-go/metaq/protocol"
)

// opaques returns the opaques of answers in the order they came.
func opaques(t *testing.T, s string) string {
	t.Helper()
	var list []int32
	for _, a := range answers(t, s) {
		list = append(list, a.Opaque)
	}
	return strings.Trim(fmt.Sprint(list), "[]")
}

// TestAnswersInOrder: while a commit takes its time nothing behind it is answered, in whatever portions it comes, and then
// everything is, in order.
func TestAnswersInOrder(t *testing.T) {
	behind := []string{
		"version 2\r\n", put("t", 1, 3, "b"), "get t g 0 0 100 4\r\n", "offset t g 0 99 5\r\n", "stats help 6\r\n",
		batch("u", 0, 7, "c", "d"), "put t 0 1 0 5 8\r\nx", "topics  9\r\n", put("t", 0, 10, "e"), "poll t g 0 0 100 5000 11\r\n",
		"get no g 0 0 100 12\r\n", "get t g 0 0 0 13\r\n", "topics t 14\r\n", "offset no g 0 0 15\r\n",
	}
	const want = "1 2 3 4 5 6 7 8 9 10 11 12 13 14 15"
	send := map[string]func(p *brokertest.Peer){
		"at once": func(p *brokertest.Peer) { p.Send(strings.Join(behind, "")) },
		"one by one": func(p *brokertest.Peer) {
			for _, b := range behind {
				p.Send(b)
				synctest.Wait() // the writer was told, and waits for the commit again
			}
		},
		"byte by byte": func(p *brokertest.Peer) {
			for _, c := range []byte(strings.Join(behind, "")) {
				p.Send(string([]byte{c}))
				synctest.Wait()
			}
		},
	}
	for name, f := range send {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := start(t, nil)
				release := r.hold()
				defer release()
				p := r.connect()
				if got := p.Ask(put("t", 0, 1, "a")); got != "" {
					t.Fatalf("answered before the commit: %q", got)
				}
				f(p)
				if got, _ := p.Received(); got != "" {
					t.Fatalf("answered before the commit: %q", got)
				}
				release()
				got, _ := p.Received()
				if order := opaques(t, got); order != want {
					t.Errorf("order of answers: got %s, want %s", order, want)
				}
			})
		})
	}
}

// TestReadYourWrites: a get sent behind a put finds it, at the offset that only the put's answer will tell.
func TestReadYourWrites(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := start(t, nil)
		p := r.connect()
		var b strings.Builder
		const n = 500
		for i := range n {
			b.WriteString(put("t", i%3, 2*i, fmt.Sprintf("%03d", i)))
			fmt.Fprintf(&b, "get t g %d %d 100 %d\r\n", i%3, i/3*23, 2*i+1)
		}
		list := answers(t, p.Ask(b.String()))
		if len(list) != 2*n {
			t.Fatalf("got %d answers, want %d", len(list), 2*n)
		}
		for i := range n {
			a := list[2*i+1]
			if int(a.Opaque) != 2*i+1 || a.Verb != protocol.VerbValue || !bytes.HasSuffix(a.Body[:23], fmt.Appendf(nil, "%03d", i)) {
				t.Fatalf("get behind put %d: got %v %d opaque %d %q", i, a.Verb, a.Code, a.Opaque, a.Body)
			}
		}
	})
}

// counting counts the writes on the connections of a listener.
type counting struct {
	net.Listener
	writes atomic.Int64
}

func (l *counting) Accept() (net.Conn, error) {
	conn, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return countingConn{conn, l}, nil
}

type countingConn struct {
	net.Conn
	l *counting
}

func (c countingConn) Write(b []byte) (int, error) {
	c.l.writes.Add(1)
	return c.Conn.Write(b)
}

// TestAnswersCoalesced: what was asked at once is answered by few writes.
func TestAnswersCoalesced(t *testing.T) {
	tests := []struct {
		name    string
		request func(i int) string
		most    int64
	}{
		{"version", func(i int) string { return fmt.Sprintf("version %d\r\n", i) }, 6},
		{"put", func(i int) string { return put("t", 0, i, "x") }, 3},
		{"get", func(i int) string { return fmt.Sprintf("get u g 0 0 100 %d\r\n", i) }, 6},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := new(counting)
				r := start(t, func(c *server.Config) { l.Listener, c.Listener = c.Listener, l })
				p := r.connect()
				p.Ask(put("u", 0, 0, "x"))
				before := l.writes.Load()
				var b strings.Builder
				for i := range 500 {
					b.WriteString(tt.request(i))
				}
				if n := len(answers(t, p.Ask(b.String()))); n != 500 {
					t.Fatalf("got %d answers, want 500", n)
				}
				if n := l.writes.Load() - before; n > tt.most {
					t.Errorf("500 answers came in %d writes, want at most %d", n, tt.most)
				}
			})
		})
	}
}

// TestStoreFails: puts are refused with the cause while the disk is full, gets go on, and puts work again when it is not.
func TestStoreFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := start(t, nil)
		p := r.connect()
		p.Ask(put("t", 0, 1, "a"))
		full := r.disk.Add(faultfs.Rule{Op: vfs.OpWrite, Path: "*.meta", Err: syscall.ENOSPC, Partial: 7})
		list := answers(t, p.Ask(put("t", 0, 2, "b")+batch("t", 0, 3, "c", "d")+put("t", 1, 4, "e")+"get t g 0 0 100 5\r\n"))
		if len(list) != 4 {
			t.Fatalf("got %d answers, want 4", len(list))
		}
		for i, a := range list[:3] {
			if a.Code != protocol.ServerError || !bytes.Contains(a.Body, []byte("no space left on device")) ||
				!bytes.HasPrefix(a.Body, []byte(failed([]string{"t-0", "t-0", "t-1"}[i], ""))) {
				t.Errorf("answer %d on a full disk: got %d %q", i, a.Code, a.Body)
			}
		}
		if a := list[3]; a.Verb != protocol.VerbValue || len(a.Body) != 21 {
			t.Errorf("get on a full disk: got %v %d %q, want the first record", a.Verb, a.Code, a.Body)
		}
		if st := r.Stats(); st.PutFailed != 4 || st.Put != 5 {
			t.Errorf("got put %d, failed %d, want 5, 4", st.Put, st.PutFailed)
		}
		full.Remove()
		if got := stored(t, p.Ask(put("t", 0, 6, "f"))); len(got) != 1 || got[0].offset != 21 {
			t.Errorf("put after the disk is well: got %+v, want offset 21", got)
		}
		if s := r.bodies("t", 0); s != "a;f;" {
			t.Errorf("log: got %s, want a;f;", s)
		}
	})
}

// TestSyncFails: nobody knows what is on disk, so the partition takes no more; others do, and gets go on.
func TestSyncFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := start(t, nil)
		p := r.connect()
		p.Ask(put("t", 0, 1, "a") + put("t", 1, 1, "a"))
		bad := r.disk.Add(faultfs.Rule{Op: vfs.OpDatasync, Path: "*.meta", Err: syscall.EIO, Times: 1})
		for i := range 2 {
			list := answers(t, p.Ask(put("t", 0, 2, "b")))
			if len(list) != 1 || list[0].Code != protocol.ServerError || !bytes.Contains(list[0].Body, []byte("input/output error")) {
				t.Errorf("put %d: got %+v, want 500 with the cause", i, list)
			}
		}
		if bad.Acted() != 1 {
			t.Errorf("syncs that failed: got %d, want 1", bad.Acted())
		}
		if a := answers(t, p.Ask("get t g 0 0 100 3\r\n"))[0]; a.Verb != protocol.VerbValue || len(a.Body) != 21 {
			t.Errorf("get: got %v %d %q, want the first record", a.Verb, a.Code, a.Body)
		}
		if got := stored(t, p.Ask(put("t", 1, 4, "c"))); len(got) != 1 {
			t.Errorf("put to another partition: got %+v", got)
		}
	})
}

// TestCreateFails: a topic whose partition can't be made is refused, and made when it can.
func TestCreateFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := start(t, nil)
		p := r.connect()
		full := r.disk.Add(faultfs.Rule{Op: vfs.OpCreate, Path: "*.meta", Err: syscall.ENOSPC})
		list := answers(t, p.Ask(put("t", 0, 1, "a")+batch("t", 0, 2, "a")))
		if len(list) != 2 || list[0].Code != protocol.ServerError || list[1].Code != protocol.ServerError ||
			!bytes.Contains(list[0].Body, []byte("no space left on device")) {
			t.Errorf("got %+v, want two 500 with the cause", list)
		}
		full.Remove()
		if got := stored(t, p.Ask(put("t", 0, 3, "b"))); len(got) != 1 || got[0].offset != 0 {
			t.Errorf("afterwards: got %+v, want offset 0", got)
		}
	})
}

// TestReadFails: the client is told, and the stream stays whole.
func TestReadFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := start(t, nil)
		p := r.connect()
		p.Ask(put("t", 0, 1, "a"))
		bad := r.disk.Add(faultfs.Rule{Op: vfs.OpRead, Path: "*.meta", Err: syscall.EIO})
		list := answers(t, p.Ask("version 2\r\nget t g 0 0 100 3\r\nversion 4\r\n"))
		if len(list) != 3 || list[1].Opaque != 3 || list[1].Code != protocol.ServerError || !bytes.Contains(list[1].Body, []byte("input/output error")) {
			t.Errorf("got %+v, want 200, 500 with the cause, 200", list)
		}
		bad.Remove()
		if a := answers(t, p.Ask("get t g 0 0 100 5\r\n"))[0]; a.Verb != protocol.VerbValue {
			t.Errorf("afterwards: got %+v, want the record", a)
		}
	})
}
