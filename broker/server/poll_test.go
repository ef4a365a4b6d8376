package server_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/metaq-go/metaq/broker/brokertest"
	"github.com/metaq-go/metaq/broker/server"
	"github.com/metaq-go/metaq/protocol"
)

// pollCase is a poll of partition 1 of t, which has one record of 21 bytes, or of another.
type pollCase struct {
	name    string
	request string        // up to its opaque
	then    string        // what another client does three seconds later
	after   time.Duration // when the answer is there
	code    protocol.Code
	text    string // of a value: its length
}

func TestPoll(t *testing.T) {
	const (
		end     = "Could not find message at position 21"
		missing = "The topic `t` in partition `0` is not exists"
		three   = 3 * time.Second
		ten     = 10 * time.Second
	)
	tests := []pollCase{
		{"data is there", "poll t g 1 0 100 10000", "", 0, 200, "21"},
		{"data in the middle", "poll t g 1 20 100 10000", "", 0, 200, "1"},
		{"data comes", "poll t g 1 21 100 10000", put("t", 1, 1, "bb"), three, 200, "22"},
		{"more than fits comes", "poll t g 1 21 10 10000", put("t", 1, 1, "bb"), three, 200, "10"},
		{"a batch comes", "poll t g 1 21 100 10000", batch("t", 1, 1, "a", "b", "c"), three, 200, "63"},
		{"nothing comes", "poll t g 1 21 100 10000", "", ten, 404, end},
		{"data comes elsewhere", "poll t g 1 21 100 10000", put("t", 2, 1, "bb"), ten, 404, end},
		{"it does not wait", "poll t g 1 21 100 0", "", 0, 404, end},
		{"it waits less than no time", "poll t g 1 21 100 -1", "", 0, 404, end},
		{"it waits a millisecond", "poll t g 1 21 100 1", "", time.Millisecond, 404, end},
		{"beyond the end", "poll t g 1 22 100 10000", "", 0, 301, "21"},
		{"the end is asked for", "poll t g 1 9223372036854775807 100 10000", "", 0, 301, "21"},
		{"before the start", "poll t g 1 -1 100 10000", "", 0, 301, "0"},
		{"bad size", "poll t g 1 21 0 10000", "", 0, 400, "Bad request,invalid max size:0"},
		{"bad size, nothing there", "poll t g 0 0 -1 10000", "", 0, 400, "Bad request,invalid max size:-1"},
		{"closed", "poll t g 3 0 100 10000", "", 0, 403, "Partition[0-3] has been closed"},
		{"no such topic", "poll no g 0 0 100 10000", "", 0, 404, "The topic `no` in partition `0` is not exists"},
		{"no such partition", "poll t g 4 0 100 10000", "", 0, 404, "The topic `t` in partition `4` is not exists"},
		{"no partition", "poll t g -1 0 100 10000", "", 0, 404, "The topic `t` in partition `-1` is not exists"},
		{"partition comes", "poll t g 0 0 100 10000", put("t", 0, 1, "bb"), three, 200, "22"},
		{"partition comes, offset inside", "poll t g 0 20 100 10000", put("t", 0, 1, "bb"), three, 200, "2"},
		{"partition comes, offset beyond", "poll t g 0 50 100 10000", put("t", 0, 1, "bb"), three, 301, "22"},
		{"another partition comes", "poll t g 0 0 100 10000", put("t", 2, 1, "bb"), ten, 404, missing},
		{"partition does not come", "poll t g 0 0 100 10000", "", ten, 404, missing},
		{"only a refused put comes", "poll t g 0 0 100 10000", "put t 0 1 0 5 1\r\nx", ten, 404, missing},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { tt.run(t) })
		})
	}
}

func (tt *pollCase) run(t *testing.T) {
	r := start(t, nil)
	r.topics.close("t-3")
	p, other := r.connect(), r.connect()
	other.Ask(put("t", 1, 0, "a"))
	p.Send(tt.request + " 5\r\n")
	begin := time.Now()
	var got string
	for at := time.Duration(0); got == "" && at <= 20*time.Second; at += time.Second {
		if at > 0 {
			time.Sleep(time.Until(begin.Add(at - time.Nanosecond)))
			if early, _ := p.Received(); early != "" && tt.after == at {
				t.Fatalf("answered before %v: %q", tt.after, early)
			} else if early != "" {
				got = early
				break
			}
			time.Sleep(time.Nanosecond)
		}
		if at == 3*time.Second && tt.then != "" {
			other.Send(tt.then)
		}
		if got, _ = p.Received(); got != "" && at != tt.after {
			t.Errorf("answered after %v, want %v", at, tt.after)
		}
	}
	list := answers(t, got)
	if len(list) != 1 || list[0].Opaque != 5 {
		t.Fatalf("got %+v, want one answer with opaque 5", list)
	}
	text := string(list[0].Body)
	if list[0].Verb == protocol.VerbValue {
		text = fmt.Sprint(len(text))
	}
	if list[0].Code != tt.code || text != tt.text {
		t.Errorf("got %v %d %q, want %d %q", list[0].Verb, list[0].Code, text, tt.code, tt.text)
	}
	time.Sleep(time.Minute)
	if again, _ := p.Received(); again != "" {
		t.Errorf("answered twice: %q", again)
	}
}

// TestPollStepsAside: what is sent behind a poll that waits is answered, also what it waits for.
func TestPollStepsAside(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := start(t, nil)
		p := r.connect()
		if got := opaques(t, p.Ask("poll t g 0 0 100 60000 1\r\nversion 2\r\nget t g 0 0 100 3\r\npoll t g 1 0 100 60000 4\r\n")); got != "2 3" {
			t.Errorf("behind a poll: got %s, want 2 3", got)
		}
		// The poll is answered when the writer looks at it again.
		if got := opaques(t, p.Ask(put("t", 0, 5, "a")+"version 6\r\n")); got != "5 6 1" && got != "5 1 6" && got != "1 5 6" {
			t.Errorf("order of answers: got %s, want 5 before 6, and 1", got)
		}
		if got := opaques(t, p.Ask(put("t", 1, 7, "b"))); got != "7 4" && got != "4 7" {
			t.Errorf("answers: got %s, want 4 and 7", got)
		}
	})
}

// TestManyPolls lets thousands of polls wait, on many connections, for partitions that are there and that are not.
func TestManyPolls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := start(t, nil)
		producer := r.connect()
		producer.Ask(put("t", 0, 1, "a"))
		const conns, each = 20, 200
		var list []*brokertest.Peer
		for range conns {
			p := r.connect()
			list = append(list, p)
			var b strings.Builder
			for i := range each {
				offset := map[bool]int{true: 21, false: 0}[i%4 == 0]
				fmt.Fprintf(&b, "poll t g %d %d 100 %d %d\r\n", i%4, offset, 60000+i, i)
			}
			if got := p.Ask(b.String()); got != "" {
				t.Fatalf("answered at once: %q", got)
			}
		}
		want := each / 4
		for partition := range 4 {
			producer.Ask(put("t", partition, 1, "x"))
			for i, p := range list {
				s, _ := p.Received()
				got := answers(t, s)
				for _, a := range got {
					if a.Verb != protocol.VerbValue || len(a.Body) != 21 || int(a.Opaque)%4 != partition {
						t.Fatalf("connection %d, put to partition %d: got answer %+v", i, partition, a)
					}
				}
				if len(got) != want {
					t.Fatalf("connection %d, put to partition %d: got %d answers, want %d", i, partition, len(got), want)
				}
			}
		}
	})
}

// TestPollsTimeOutOneByOne: every poll has its own time.
func TestPollsTimeOutOneByOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := start(t, nil)
		p := r.connect()
		p.Ask(put("t", 1, 0, "a"))
		p.Send("poll t g 1 21 9 5000 5\r\npoll t g 1 21 9 1000 1\r\npoll t g 0 0 9 3000 3\r\npoll t g 1 21 9 4000 4\r\npoll t g 2 0 9 2000 2\r\n")
		for i := 1; i <= 5; i++ {
			time.Sleep(time.Second)
			got, _ := p.Received()
			if list := answers(t, got); len(list) != 1 || int(list[0].Opaque) != i || list[0].Code != protocol.NotFound {
				t.Errorf("after %d s: got %+v, want poll %d answered with 404", i, list, i)
			}
		}
	})
}

// TestPollTooMany: as many polls wait as requests may be outstanding; more are answered as a get is.
func TestPollTooMany(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := start(t, func(c *server.Config) { c.Outstanding = 10 })
		p := r.connect()
		p.Ask(put("t", 1, 100, "a"))
		var b strings.Builder
		for i := range 25 {
			fmt.Fprintf(&b, "poll t g 1 21 100 60000 %d\r\n", i)
		}
		got := answers(t, p.Ask(b.String()))
		if len(got) != 15 || got[0].Opaque != 10 || got[0].Code != protocol.NotFound {
			t.Fatalf("got %d answers, want 15 of 404 from poll 10 on: %+v", len(got), got)
		}
		if order := opaques(t, p.Ask("version 50\r\n")); order != "50" {
			t.Errorf("behind the polls: got %s, want 50", order)
		}
		woken := strings.Fields(opaques(t, p.Ask(put("t", 1, 60, "b"))))
		slices.Sort(woken)
		if got := strings.Join(woken, " "); got != "0 1 2 3 4 5 6 60 7 8 9" {
			t.Errorf("when data came: got %s, want 60 and the ten that waited", got)
		}
	})
}

// TestPollerLeaves: a client that goes away while its polls wait leaves nothing behind, and one that only stops sending gets no
// answer to them.
func TestPollerLeaves(t *testing.T) {
	for name, leave := range map[string]func(p *brokertest.Peer){
		"closes":   func(p *brokertest.Peer) { p.Close() },
		"quits":    func(p *brokertest.Peer) { p.Send("quit\r\n") },
		"garbage":  func(p *brokertest.Peer) { p.Send("garbage\r\n") },
		"is idle":  func(*brokertest.Peer) { time.Sleep(5 * time.Minute) },
		"is quiet": func(p *brokertest.Peer) { time.Sleep(2 * time.Minute); p.Close() },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := start(t, nil)
				p := r.connect()
				p.Ask(put("t", 1, 0, "a"))
				if got := p.Ask("poll t g 1 21 100 600000 1\r\npoll t g 0 0 100 600000 2\r\npoll t g 1 21 100 60000 3\r\n"); got != "" {
					t.Fatalf("answered at once: %q", got)
				}
				leave(p)
				got, closed := p.Received()
				if wantThird := name == "is idle" || name == "is quiet"; !closed || strings.Contains(got, " 3\r\n") != wantThird {
					t.Errorf("got %q, closed %v", got, closed)
				}
				if n := r.Stats().Connections; n != 0 {
					t.Errorf("connections: got %d, want 0", n)
				}
				if got := stored(t, r.connect().Ask(put("t", 1, 9, "b")+put("t", 0, 10, "c"))); len(got) != 2 {
					t.Errorf("puts to where it polled: got %+v", got)
				}
			})
		})
	}
}
