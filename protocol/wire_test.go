package protocol_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/metaq-go/metaq/protocol"
)

// errDry is what test sources return where a connection would block: a Reader that passes it on is waiting for more.
var errDry = errors.New("nothing more was sent")

// sent is a source that gives what a peer has sent and then waits.
func sent(s string) io.Reader {
	return io.MultiReader(strings.NewReader(s), dry{})
}

type dry struct{}

func (dry) Read([]byte) (int, error) { return 0, errDry }

// requests decodes until an error and returns each request in words.
func requests(src io.Reader, lim protocol.Limits) ([]string, error) {
	rd := protocol.NewReader(src, lim)
	var got []string
	for {
		var q protocol.Request
		if err := rd.Request(&q); err != nil {
			return got, err
		}
		got = append(got, words(&q))
	}
}

// responses decodes until an error and returns each response in words.
func responses(src io.Reader, lim protocol.Limits) ([]string, error) {
	rd := protocol.NewReader(src, lim)
	var got []string
	for {
		var p protocol.Response
		if err := rd.Response(&p); err != nil {
			return got, err
		}
		got = append(got, responseWords(&p))
	}
}

// words describes a request by its fields that are not zero.
func words(q *protocol.Request) string {
	var b strings.Builder
	b.WriteString(q.Verb.String())
	text := func(name string, v []byte) {
		if v != nil && (len(v) > 0 || name == "txkey") {
			fmt.Fprintf(&b, " %s=%q", name, v)
		}
	}
	number := func(name string, v int64) {
		if v != 0 {
			fmt.Fprintf(&b, " %s=%d", name, v)
		}
	}
	text("topic", q.Topic)
	text("group", q.Group)
	text("item", q.Item)
	number("partition", int64(q.Partition))
	number("offset", q.Offset)
	number("maxsize", int64(q.MaxSize))
	number("wait", int64(q.Wait))
	number("flag", int64(q.Flag))
	number("checksum", int64(q.Checksum))
	if q.Old {
		b.WriteString(" old")
	}
	text("txkey", q.TxKey)
	number("count", int64(q.Count))
	number("opaque", int64(q.Opaque))
	number("toolong", int64(q.TooLong))
	text("body", q.Body)
	return b.String()
}

func responseWords(p *protocol.Response) string {
	return fmt.Sprintf("%s code=%d opaque=%d body=%q", p.Verb, p.Code, p.Opaque, p.Body)
}

// wantWords fails the test where two lists of words differ.
func wantWords(t *testing.T, got, want []string) {
	t.Helper()
	for i := range max(len(got), len(want)) {
		g, w := "(nothing)", "(nothing)"
		if i < len(got) {
			g = got[i]
		}
		if i < len(want) {
			w = want[i]
		}
		if g != w {
			t.Errorf("message %d:\n got %s\nwant %s", i, g, w)
		}
	}
}

// wantErr fails the test if err is not want.
func wantErr(t *testing.T, err, want error) {
	t.Helper()
	if !errors.Is(err, want) {
		t.Errorf("got error %v, want %v", err, want)
	}
}

// body returns the body of a put made of an attribute and a payload, spelled out byte by byte.
func body(attr, payload string) []byte {
	n := len(attr)
	return append([]byte{byte(n >> 24), byte(n >> 16), byte(n >> 8), byte(n)}, attr+payload...)
}

// chunked gives its bytes in pieces of the given sizes, over and over, then end.
type chunked struct {
	data  []byte
	sizes []int
	next  int
	end   error
}

func (c *chunked) Read(p []byte) (int, error) {
	if len(c.data) == 0 {
		return 0, c.end
	}
	n := min(len(p), len(c.data), c.sizes[c.next%len(c.sizes)])
	c.next++
	copy(p, c.data[:n])
	c.data = c.data[n:]
	return n, nil
}

// endless repeats its bytes for ever.
type endless struct {
	data []byte
	pos  int
}

func (e *endless) Read(p []byte) (int, error) {
	n := copy(p, e.data[e.pos:])
	if e.pos += n; e.pos == len(e.data) {
		e.pos = 0
	}
	return n, nil
}

// repeat returns n bytes that differ from one another, so that a shift by any small number shows.
func repeat(n int) []byte {
	return bytes.Repeat([]byte("0123456789abcdefghijklmnopqrstuvwxyz."), n/37+1)[:n]
}
