package broker_test

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/metaq-go/metaq/broker"
	"github.com/metaq-go/metaq/broker/brokertest"
	"github.com/metaq-go/metaq/protocol"
)

// deviations are the exchanges in which metaq answers otherwise than MetaQ, as the protocol leaves it free to do.
var deviations = map[string]struct {
	answer string // in the notation of the scenario
	why    string
}{
	"S5": {"CLOSE", "words that merely begin like version are refused (14.1: may be strict)"},
	"S63": {
		`result 200 98 10\r\nSTATS\r\nmeta-test part 0 min_offset 0 max_offset 25\r\ntest part 1 min_offset 0 max_offset 139\r\nEND\r\n`,
		"topics are sorted (15.4: the order is unspecified)",
	},
	"S64": {
		`result 200 243 11\r\nSTATS\r\nmeta-test partitions 1 message_count 1 message_bytes 25 accept_publish true accept_subscribe true\r\n` +
			`test partitions 1 message_count 5 message_bytes 139 accept_publish true accept_subscribe true\r\n` +
			`badfilter *Empty*\r\nfiltered *Empty*\r\nEND\r\n`,
		"topics are sorted (15.4: the order is unspecified)",
	},
	"S67": {"CLOSE", "sync is not spoken: a master in Java that is given this broker as its slave loses the connection, which it " +
		"counts as it counts a 503 (7.2)"},
}

// exchange is one vector.
type exchange struct {
	name, request, answer string // answer in the notation of the scenario
	closes                bool
}

// TestTranscript replays MetaQ's scenario, byte for byte.
func TestTranscript(t *testing.T) {
	exchanges := scenario(t)
	if len(exchanges) < 60 {
		t.Fatalf("%d exchanges in the scenario, where are the others?", len(exchanges))
	}
	x := protocol.Extensions{Version: broker.Version, Verbs: []string{"append", "poll", "topics"}}
	synctest.Test(t, func(t *testing.T) {
		b := brokertest.Start(t, brokertest.InMemory(), brokertest.Topic("test", 4), brokertest.Topic("meta-test", 1),
			brokertest.Topic("filtered", 1), brokertest.Topic("badfilter", 1))
		ids := make(map[int64]bool) // in results so far
		for _, e := range exchanges {
			if d, ok := deviations[e.name]; ok {
				e.answer, e.closes = d.answer, d.answer == "CLOSE"
			}
			if strings.HasPrefix(e.name, "P") {
				if err := b.Broker().ClosePartitions("test", 1, 1); err != nil {
					t.Fatal(err)
				}
			}
			want := e.answer
			if want == "CLOSE" {
				want = ""
			}
			want = strings.ReplaceAll(want, "result 200 16 ", "result 200 "+strconv.Itoa(len(x.String()))+" ")
			want = strings.ReplaceAll(want, "1.4.6.3-SNAPSHOT", x.String())
			p := brokertest.Connect(t, b.Dial)
			p.Send(e.request)
			got, closed := p.Received()
			if err := match(unescape(t, want), got, ids); err != nil {
				t.Errorf("%s %q\n got %q\nwant %q\n%v", e.name, e.request, got, want, err)
			}
			if closed != e.closes {
				t.Errorf("%s %q: connection closed: got %v, want %v", e.name, e.request, closed, e.closes)
			}
		}
	})
}

// scenario reads testdata/scenario.txt.
func scenario(t *testing.T) (list []exchange) {
	t.Helper()
	file, err := os.ReadFile("testdata/scenario.txt")
	if err != nil {
		t.Fatal(err)
	}
	for s := bufio.NewScanner(bytes.NewReader(file)); s.Scan(); {
		line := s.Text()
		if request, ok := strings.CutPrefix(line, "  C "); ok {
			list[len(list)-1].request = unescape(t, request)
		} else if answer, ok := strings.CutPrefix(line, "  S "); ok {
			e := &list[len(list)-1]
			switch answer {
			case "CLOSE":
				e.closes = true
			case "NONE":
			default:
				e.answer += answer
			}
		} else if !strings.HasPrefix(line, "#") {
			list = append(list, exchange{name: line})
		}
	}
	return list
}

func unescape(t *testing.T, s string) string {
	t.Helper()
	out, err := strconv.Unquote(`"` + s + `"`)
	if err != nil {
		t.Fatalf("scenario: %q: %v", s, err)
	}
	return out
}

// match compares an answer with what it should be. Ids in results must be new and are added to ids, ids in records must
// be among them.
func match(want, got string, ids map[int64]bool) error {
	length := -1 // said by <n>
	body := 0    // where the body in got begins
	rest := got
	for want != "" {
		switch {
		case strings.HasPrefix(want, "<n>"), strings.HasPrefix(want, "<id>"):
			digits := len(rest) - len(strings.TrimLeft(rest, "-0123456789"))
			n, err := strconv.ParseInt(rest[:digits], 10, 64)
			if err != nil {
				return fmt.Errorf("no number at %q", rest)
			}
			if strings.HasPrefix(want, "<n>") {
				length = int(n)
				_, after, _ := strings.Cut(rest, "\r\n")
				body = len(got) - len(after)
			} else if ids[n] {
				return fmt.Errorf("id %d was given out before", n)
			} else {
				ids[n] = true
			}
			_, want, _ = strings.Cut(want, ">")
			rest = rest[digits:]
		case strings.HasPrefix(want, "<id8>"):
			if len(rest) < 8 || !ids[int64(binary.BigEndian.Uint64([]byte(rest)))] {
				return fmt.Errorf("id of no message at %q", rest)
			}
			want, rest = want[len("<id8>"):], rest[8:]
		case rest == "" || rest[0] != want[0]:
			return fmt.Errorf("from here it differs: %q", rest)
		default:
			want, rest = want[1:], rest[1:]
		}
	}
	if rest != "" {
		return fmt.Errorf("more than there should be: %q", rest)
	}
	if length >= 0 && len(got)-body != length {
		return fmt.Errorf("body of %d bytes, announced are %d", len(got)-body, length)
	}
	return nil
}
