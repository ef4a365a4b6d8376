package protocol_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"testing/iotest"

	"pgregory.net/rapid"

	"github.com/metaq-go/metaq/protocol"
)

// name draws a field: any bytes but space, and nothing that with its neighbours could end the line.
func name(t *rapid.T, label string) []byte {
	s := rapid.OneOf(
		rapid.StringMatching(`[a-zA-Z0-9_.-]{1,20}`),
		rapid.StringMatching(`[^ \r\n]{1,5}`),
		rapid.StringMatching(`[\r\na]{1,5}`),
	).Filter(func(s string) bool { return !strings.Contains(s, "\r\n") && !strings.HasSuffix(s, "\r") }).Draw(t, label)
	return []byte(s)
}

// anyRequest draws a request as a client may send it, of every verb and form.
func anyRequest(t *rapid.T) protocol.Request {
	i32 := func(label string) int32 { return rapid.Int32().Draw(t, label) }
	content := func() []byte {
		n := rapid.OneOf(rapid.IntRange(0, 200), rapid.IntRange(0, 40<<10)).Draw(t, "length")
		return repeat(n)
	}
	q := protocol.Request{Verb: rapid.SampledFrom([]protocol.Verb{
		protocol.VerbPut, protocol.VerbPut, protocol.VerbGet, protocol.VerbOffset, protocol.VerbVersion, protocol.VerbStats,
		protocol.VerbQuit, protocol.VerbAppend, protocol.VerbPoll, protocol.VerbTopics,
	}).Draw(t, "verb"), Opaque: i32("opaque")}
	switch q.Verb {
	case protocol.VerbPut:
		q.Topic, q.Partition, q.Flag, q.Checksum = name(t, "topic"), i32("partition"), i32("flag"), i32("checksum")
		q.Body = content()
		if q.Old = rapid.Bool().Draw(t, "old"); q.Old {
			q.Checksum = protocol.NoChecksum
		}
		if rapid.Bool().Draw(t, "in transaction") {
			q.TxKey = []byte(fmt.Sprintf("TX:%s:%d", rapid.StringMatching(`[a-z0-9.-]{1,9}`).Draw(t, "session"), i32("number")))
		}
	case protocol.VerbAppend:
		q.Topic, q.Partition, q.Body = name(t, "topic"), i32("partition"), content()
		q.Count = rapid.Int32Min(0).Draw(t, "count")
	case protocol.VerbGet, protocol.VerbPoll, protocol.VerbOffset:
		q.Topic, q.Group, q.Partition = name(t, "topic"), name(t, "group"), i32("partition")
		q.Offset = rapid.Int64().Draw(t, "offset")
		if q.Verb != protocol.VerbOffset {
			q.MaxSize = i32("maxsize")
		}
		if q.Verb == protocol.VerbPoll {
			q.Wait = i32("wait")
		}
	case protocol.VerbStats:
		q.Item = name(t, "item")
	case protocol.VerbTopics:
		q.Topic = name(t, "topic")
	case protocol.VerbQuit:
		q.Opaque = 0
	}
	return q
}

// sources gives the same bytes in many ways.
func sources(t *rapid.T, data []byte) map[string]io.Reader {
	sizes := rapid.SliceOfN(rapid.OneOf(rapid.IntRange(1, 5), rapid.IntRange(1, 20<<10)), 1, 20).Draw(t, "chunks")
	return map[string]io.Reader{
		"whole":           bytes.NewReader(data),
		"byte by byte":    iotest.OneByteReader(bytes.NewReader(data)),
		"half":            iotest.HalfReader(bytes.NewReader(data)),
		"end with data":   iotest.DataErrReader(bytes.NewReader(data)),
		"chunks":          &chunked{data: data, sizes: sizes, end: io.EOF},
		"chunks with end": iotest.DataErrReader(&chunked{data: data, sizes: sizes, end: io.EOF}),
	}
}

// TestAnySource: however the bytes of requests arrive, the same requests come out, and then a clean end.
func TestAnySource(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var data []byte
		var want []string
		for range rapid.IntRange(0, 12).Draw(t, "requests") {
			q := anyRequest(t)
			data = q.AppendTo(data)
			want = append(want, words(&q))
		}
		for how, src := range sources(t, data) {
			got, err := requests(src, protocol.Limits{})
			if !errors.Is(err, io.EOF) {
				t.Fatalf("%s: got error %v, want %v", how, err, io.EOF)
			}
			if g, w := strings.Join(got, "\n"), strings.Join(want, "\n"); g != w {
				t.Fatalf("%s:\n got %s\nwant %s", how, g, w)
			}
		}
	})
}

// TestAnyResponseSource: the same for responses, taken in every way a client may take them.
func TestAnyResponseSource(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var data []byte
		var want []string
		for range rapid.IntRange(0, 12).Draw(t, "responses") {
			p := protocol.Response{Verb: protocol.VerbValue, Code: protocol.OK, Opaque: rapid.Int32().Draw(t, "opaque")}
			p.Body = repeat(rapid.OneOf(rapid.IntRange(0, 100), rapid.IntRange(0, 20<<10)).Draw(t, "length"))
			if rapid.Bool().Draw(t, "result") {
				p.Verb, p.Code = protocol.VerbResult, protocol.Code(rapid.Int32().Draw(t, "code"))
			}
			data = p.AppendTo(data)
			want = append(want, responseWords(&p))
		}
		ways := rapid.SliceOfN(rapid.IntRange(0, 2), 1, 5).Draw(t, "ways")
		for how, src := range sources(t, data) {
			got, err := mixed(protocol.NewReader(src, protocol.Limits{}), ways)
			if !errors.Is(err, io.EOF) {
				t.Fatalf("%s: got error %v, want %v", how, err, io.EOF)
			}
			if g, w := strings.Join(got, "\n"), strings.Join(want, "\n"); g != w {
				t.Fatalf("%s:\n got %.300s\nwant %.300s", how, g, w)
			}
		}
	})
}

// mixed reads responses by Response, by ResponseLine and Body, and by ResponseLine and ReadBody, in turn.
func mixed(rd *protocol.Reader, ways []int) (got []string, err error) {
	for i := 0; ; i++ {
		var p protocol.Response
		way := ways[i%len(ways)]
		if way == 0 {
			if err := rd.Response(&p); err != nil {
				return got, err
			}
			got = append(got, responseWords(&p))
			continue
		}
		n, err := rd.ResponseLine(&p)
		if err != nil {
			return got, err
		}
		if way == 1 {
			p.Body, err = rd.Body(n)
		} else {
			p.Body = make([]byte, n)
			err = rd.ReadBody(p.Body)
		}
		if err != nil {
			return got, err
		}
		got = append(got, responseWords(&p))
	}
}

// TestAliases: what a decoded request holds stays as it was until the next call, whatever the buffer went through, and
// appending to it writes into nothing else.
func TestAliases(t *testing.T) {
	stream := "stats item 1\r\nput topic 0 3 0 -1 TX:s:1 1\r\nabctopics name\r\nget topic group 0 0 1 1\r\nversion 5\r\n"
	want, _ := requests(sent(stream), protocol.Limits{})
	for size := 1; size < len(stream); size++ {
		rd := protocol.NewReader(&chunked{data: []byte(stream), sizes: []int{size}, end: io.EOF}, protocol.Limits{})
		var got []string
		var q protocol.Request
		for rd.Request(&q) == nil {
			got = append(got, words(&q))
			for _, alias := range [][]byte{q.Topic, q.Group, q.Item, q.TxKey, q.Body} {
				_ = append(alias, "XXX"...)
				_ = append(alias, "XXXXXXXXXXXXXXXXXXXX"...)
			}
			if after := words(&q); after != got[len(got)-1] {
				t.Errorf("appending to a field made %s out of %s", after, got[len(got)-1])
			}
		}
		wantWords(t, got, want)
		if t.Failed() {
			t.Fatalf("with pieces of %d bytes", size)
		}
	}
	rd := protocol.NewReader(strings.NewReader("value 2 1\r\nabvalue 2 2\r\ncd"), protocol.Limits{})
	var p protocol.Response
	var got []string
	for rd.Response(&p) == nil {
		got = append(got, responseWords(&p))
		_ = append(p.Body, "XXXXXXXXXXXXXXXXXXXX"...)
	}
	wantWords(t, got, []string{`value code=200 opaque=1 body="ab"`, `value code=200 opaque=2 body="cd"`})
}

// TestBuffered counts what was read ahead.
func TestBuffered(t *testing.T) {
	rd := protocol.NewReader(sent("version 1\r\nput t 0 3 0 1\r\nabcversion 3\r\nversion 4\r"), protocol.Limits{})
	if got := rd.Buffered(); got != 0 {
		t.Errorf("%d bytes buffered before anything was read, want 0", got)
	}
	var q protocol.Request
	for _, want := range []int{39, 21, 10} {
		wantErr(t, rd.Request(&q), nil)
		if got := rd.Buffered(); got != want {
			t.Errorf("%d bytes buffered after %s, want %d", got, words(&q), want)
		}
	}
	wantErr(t, rd.Request(&q), errDry)
}

// asking tells when it is asked and gives one piece each time.
type asking struct {
	pieces []string
	tell   func()
}

func (a *asking) Read(p []byte) (int, error) {
	a.tell()
	if len(a.pieces) == 0 {
		return 0, io.EOF
	}
	n := copy(p, a.pieces[0])
	a.pieces = a.pieces[1:]
	return n, nil
}

// TestSourceAsked: the source is not asked while a whole message is buffered, so that a server may take being asked for
// a sign that the input ran dry.
func TestSourceAsked(t *testing.T) {
	var got []string
	rd := protocol.NewReader(&asking{
		pieces: []string{"version 1\r\nversion 2\r\nput t 0 4 0 3\r\nab", "cdversion 4\r", "\n"},
		tell:   func() { got = append(got, "asked") },
	}, protocol.Limits{})
	for {
		var q protocol.Request
		if err := rd.Request(&q); err != nil {
			wantErr(t, err, io.EOF)
			break
		}
		got = append(got, words(&q))
	}
	wantWords(t, got, []string{
		"asked", "version opaque=1", "version opaque=2", "asked", `put topic="t" checksum=-1 old opaque=3 body="abcd"`,
		"asked", "version opaque=4", "asked",
	})
}

// once gives all it has in one piece and counts how often it is asked.
type once struct {
	data  []byte
	asked int
}

func (o *once) Read(p []byte) (int, error) {
	o.asked++
	n := copy(p, o.data)
	o.data = o.data[n:]
	return n, nil
}

// TestNotAskedInVain: what is buffered whole is taken without a look at the source, which might block.
func TestNotAskedInVain(t *testing.T) {
	for _, direct := range []bool{false, true} {
		src := &once{data: bs("value 5 1\r\nhelloresult 200 0 2\r\n")}
		rd := protocol.NewReader(src, protocol.Limits{})
		var p protocol.Response
		for _, want := range []string{"hello", ""} {
			n, err := rd.ResponseLine(&p)
			wantErr(t, err, nil)
			if direct {
				p.Body = make([]byte, n)
				err = rd.ReadBody(p.Body)
			} else {
				p.Body, err = rd.Body(n)
			}
			wantErr(t, err, nil)
			if string(p.Body) != want || src.asked != 1 {
				t.Errorf("got body %q after asking %d times, want %q after 1", p.Body, src.asked, want)
			}
		}
	}
}

// TestSourceErrors come out as they are.
func TestSourceErrors(t *testing.T) {
	broken := errors.New("cable cut")
	for _, s := range []string{"", "vers", "put t 0 5 0 1\r\nhe", "value 5 1\r\nhe"} {
		_, err := requests(io.MultiReader(strings.NewReader(s), iotest.ErrReader(broken)), protocol.Limits{})
		wantErr(t, err, broken)
	}
	for _, way := range []int{0, 1, 2} {
		src := io.MultiReader(strings.NewReader("value 5 1\r\nhe"), iotest.ErrReader(broken))
		_, err := mixed(protocol.NewReader(src, protocol.Limits{}), []int{way})
		wantErr(t, err, broken)
		_, err = mixed(protocol.NewReader(strings.NewReader("value 5 1\r\n"), protocol.Limits{}), []int{way})
		wantErr(t, err, io.ErrUnexpectedEOF)
	}
}

// stuck is a source that breaks the rules: it has nothing and does not say so.
type stuck struct{}

func (stuck) Read([]byte) (int, error) { return 0, nil }

// TestNoProgress: such a source does not hang us.
func TestNoProgress(t *testing.T) {
	_, err := requests(stuck{}, protocol.Limits{})
	wantErr(t, err, io.ErrNoProgress)
	_, err = requests(io.MultiReader(strings.NewReader("put t 0 5 0 1\r\nhe"), stuck{}), protocol.Limits{})
	wantErr(t, err, io.ErrNoProgress)
}
