package protocol_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/metaq-go/metaq/protocol"
)

// exchange is one block of docs/protocol.md: what clients send and brokers answer in it.
type exchange struct {
	requests  []protocol.Request
	responses []protocol.Response
	stored    []string // lines of the block that follows it, if that tells where records are
}

var (
	blocks  = regexp.MustCompile("(?ms)^```(wire|stored)\n(.*?)^```$")
	joints  = regexp.MustCompile(`\n +`)
	escapes = regexp.MustCompile(`\\(x[0-9a-f]{2}|[rnt\\])`)
)

// unescape undoes the escapes of chapter 1.
func unescape(t *testing.T, s string) []byte {
	t.Helper()
	if rest := escapes.ReplaceAllString(s, ""); strings.Contains(rest, `\`) {
		t.Fatalf("escape that is none in %q", s)
	}
	return escapes.ReplaceAllFunc([]byte(s), func(e []byte) []byte {
		if e[1] == 'x' {
			n, _ := strconv.ParseUint(string(e[2:]), 16, 8)
			return []byte{byte(n)}
		}
		return []byte(map[byte]string{'r': "\r", 'n': "\n", 't': "\t", '\\': `\`}[e[1]])
	})
}

// exchanges reads the examples out of the document and checks that each of them is encoded as it stands there.
func exchanges(t *testing.T) (all []exchange) {
	doc, err := os.ReadFile("../docs/protocol.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, block := range blocks.FindAllStringSubmatch(string(doc), -1) {
		if block[1] == "stored" {
			all[len(all)-1].stored = strings.Split(strings.TrimSpace(block[2]), "\n")
			continue
		}
		var x exchange
		for line := range strings.SplitSeq(strings.TrimSuffix(joints.ReplaceAllString(block[2], ""), "\n"), "\n") {
			side, text, _ := strings.Cut(line, ": ")
			data := unescape(t, text)
			rd := protocol.NewReader(bytes.NewReader(data), protocol.Limits{})
			switch side {
			case "C":
				x.requests = append(x.requests, decodeRequests(t, rd, data)...)
			case "S":
				var p protocol.Response
				if err := rd.Response(&p); err != nil || !bytes.Equal(p.AppendTo(nil), data) {
					t.Fatalf("%q: got %s, %v", data, responseWords(&p), err)
				}
				p.Body = bytes.Clone(p.Body)
				x.responses = append(x.responses, p)
			default:
				t.Fatalf("line of neither client nor broker: %q", line)
			}
		}
		all = append(all, x)
	}
	return all
}

func decodeRequests(t *testing.T, rd *protocol.Reader, data []byte) (all []protocol.Request) {
	t.Helper()
	var encoded []byte
	for {
		var q protocol.Request
		err := rd.Request(&q)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatalf("%q: %v", data, err)
		}
		encoded = q.AppendTo(encoded)
		q.Topic, q.Group, q.Body = bytes.Clone(q.Topic), bytes.Clone(q.Group), bytes.Clone(q.Body)
		all = append(all, q)
	}
	if !bytes.Equal(encoded, data) && all[0].Opaque != protocol.NoOpaque {
		t.Fatalf("%q is encoded as %q", data, encoded)
	}
	return all
}

// TestDocument: what docs/protocol.md shows is what this package reads and writes, and hangs together.
func TestDocument(t *testing.T) {
	seen := map[protocol.Verb]int{}
	for _, x := range exchanges(t) {
		if len(x.requests) != len(x.responses) {
			t.Errorf("%d requests and %d responses in one block", len(x.requests), len(x.responses))
		}
		for _, q := range x.requests {
			seen[q.Verb]++
			i := slices.IndexFunc(x.responses, func(p protocol.Response) bool { return p.Opaque == q.Opaque })
			if i < 0 {
				t.Errorf("no answer to %s", words(&q))
				continue
			}
			p := x.responses[i]
			switch q.Verb {
			case protocol.VerbAppend:
				wantAppended(t, &q, &p, x.stored)
			case protocol.VerbVersion:
				wantVersion(t, string(p.Body))
			case protocol.VerbPoll:
				if p.Verb == protocol.VerbValue {
					wantErr(t, protocol.CheckRecords(p.Body, 1), nil)
				}
			case protocol.VerbTopics:
				lines := strings.SplitAfter(string(p.Body), "\r\n")
				if p.Code == protocol.OK && (lines[len(lines)-1] != "" || !slices.IsSorted(lines[:len(lines)-1])) {
					t.Errorf("answer to topics is %q", p.Body)
				}
			}
		}
	}
	for _, v := range []protocol.Verb{protocol.VerbAppend, protocol.VerbPoll, protocol.VerbTopics, protocol.VerbVersion} {
		if seen[v] < 3 {
			t.Errorf("%d examples of %s found, want 3 at least", seen[v], v)
		}
	}
}

func wantVersion(t *testing.T, text string) {
	t.Helper()
	x := protocol.ParseExtensions(text)
	if text == protocol.Level {
		return
	}
	if x.String() != text || x.BrokerID != 0 || !x.Has(protocol.VerbAppend) || !x.Has(protocol.VerbPoll) || !x.Has(protocol.VerbTopics) {
		t.Errorf("%q says %+v", text, x)
	}
}

// wantAppended checks an append with its answer, and where the document says that its records are.
func wantAppended(t *testing.T, q *protocol.Request, p *protocol.Response, stored []string) {
	t.Helper()
	err := protocol.CheckRecords(q.Body, int(q.Count))
	if p.Code != protocol.OK {
		if err == nil || !strings.HasSuffix(string(p.Body), "failed.Detail:"+err.Error()) {
			t.Errorf("append is refused with %q, got error %v", p.Body, err)
		}
		return
	}
	id, partition, offset, ok := protocol.ParseStored(p.Body)
	if err != nil || !ok || partition != q.Partition || protocol.IDBroker(id) != 0 {
		t.Errorf("append of %v is answered with %q", err, p.Body)
	}
	i := 0
	for pos := range protocol.Records(q.Body) {
		want := fmt.Sprintf("record %d: id %d offset %d", i, protocol.IDAfter(id, i), offset+int64(pos))
		if i >= len(stored) || stored[i] != want {
			t.Errorf("the document lists %q, want %q as line %d", stored, want, i)
		}
		i++
	}
}
