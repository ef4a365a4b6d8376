package protocol_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/metaq-go/metaq/protocol"
)

func TestParseExtensions(t *testing.T) {
	for _, v := range []struct {
		text string
		want protocol.Extensions
	}{
		{"", protocol.Extensions{BrokerID: -1}},
		{"1.4.6.2", protocol.Extensions{BrokerID: -1}},
		{"1.4.6.3-SNAPSHOT", protocol.Extensions{BrokerID: -1}},
		{
			"1.4.6.2 metaq/0.1.0 id=7 ext=append,poll,topics",
			protocol.Extensions{Version: "0.1.0", BrokerID: 7, Verbs: []string{"append", "poll", "topics"}},
		},
		{
			"1.4.6.2  ext=poll new=1,2 id=0  metaq/9 more", // any order, words of later brokers
			protocol.Extensions{Version: "9", BrokerID: 0, Verbs: []string{"poll"}},
		},
		{"1.4.6.2 metaq/1 ext=", protocol.Extensions{Version: "1", BrokerID: -1}},
		{"1.4.6.2 id=1023", protocol.Extensions{BrokerID: 1023}},
		{"1.4.6.2 id=1024", protocol.Extensions{BrokerID: -1}},
		{"1.4.6.2 id=-2", protocol.Extensions{BrokerID: -1}},
		{"1.4.6.2 id=x", protocol.Extensions{BrokerID: -1}},
		{"1.4.6.2 xid=5 text=append", protocol.Extensions{BrokerID: -1}},
	} {
		got := protocol.ParseExtensions(v.text)
		if got.Version != v.want.Version || got.BrokerID != v.want.BrokerID || !slices.Equal(got.Verbs, v.want.Verbs) {
			t.Errorf("%q says %+v, want %+v", v.text, got, v.want)
		}
	}
	x := protocol.Extensions{Verbs: []string{"append", "appendix"}}
	if !x.Has(protocol.VerbAppend) || x.Has(protocol.VerbPoll) || x.Has(protocol.VerbNone) {
		t.Errorf("%q: Has finds other verbs than those", x.Verbs)
	}
}

// TestExtensionsRoundTrip: what a broker says of itself is what a client understands.
func TestExtensionsRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		x := protocol.Extensions{
			Version:  rapid.StringMatching(`[0-9a-z.+-]{1,12}`).Draw(t, "version"),
			BrokerID: rapid.IntRange(0, protocol.MaxBrokerID).Draw(t, "broker"),
			Verbs:    rapid.SliceOf(rapid.StringMatching(`[a-z]{1,8}`)).Draw(t, "verbs"),
		}
		got := protocol.ParseExtensions(x.String())
		if got.Version != x.Version || got.BrokerID != x.BrokerID || !slices.Equal(got.Verbs, x.Verbs) {
			t.Fatalf("%q says %+v, want %+v", x.String(), got, x)
		}
		if !strings.HasPrefix(x.String(), protocol.Level+" ") {
			t.Fatalf("%q does not open with %q", x.String(), protocol.Level)
		}
	})
}

func TestStored(t *testing.T) {
	// The example of protocol.md 4.1.1.
	got := string(protocol.AppendStored(bs("x"), 99, -5468930815054315520, 1, 0))
	if want := "xresult 200 24 99\r\n-5468930815054315520 1 0"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	got = string(protocol.AppendStored(nil, -2147483648, -9223372036854775808, -2147483648, -9223372036854775808))
	if want := "result 200 53 -2147483648\r\n-9223372036854775808 -2147483648 -9223372036854775808"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	rapid.Check(t, func(t *rapid.T) {
		id, partition, offset := rapid.Int64().Draw(t, "id"), rapid.Int32().Draw(t, "partition"), rapid.Int64().Draw(t, "offset")
		got, err := responses(strings.NewReader(string(protocol.AppendStored(nil, 5, id, partition, offset))), protocol.Limits{})
		text := fmt.Sprintf("%d %d %d", id, partition, offset)
		if want := fmt.Sprintf("result code=200 opaque=5 body=%q", text); len(got) != 1 || got[0] != want {
			t.Fatalf("got %q, %v, want %q", got, err, want)
		}
		i, p, o, ok := protocol.ParseStored([]byte(text))
		if !ok || i != id || p != partition || o != offset {
			t.Fatalf("%q is read as %d %d %d, %t", text, i, p, o, ok)
		}
	})
	for _, text := range []string{"", "1", "1 2", "1 2 3 4", "1  2 3", " 1 2 3", "a 2 3", "1 2147483648 3", "1 2 9223372036854775808", "1 2 3\r"} {
		if _, _, _, ok := protocol.ParseStored([]byte(text)); ok {
			t.Errorf("%q is taken for where a message was stored", text)
		}
	}
}

func TestStatusError(t *testing.T) {
	p := protocol.Response{Verb: protocol.VerbResult, Code: protocol.NotFound, Body: bs("nothing there")}
	var status *protocol.StatusError
	if !errors.As(p.Err(), &status) || status.Code != 404 || status.Text != "nothing there" {
		t.Errorf("got %#v", p.Err())
	}
	if got, want := p.Err().Error(), "status 404: nothing there"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	p.Body = nil
	if got, want := p.Err().Error(), "status 404"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	for _, ok := range []string{"result 200 0 1\r\n", "value 1 1\r\nx"} {
		rd := protocol.NewReader(strings.NewReader(ok), protocol.Limits{})
		if wantErr(t, rd.Response(&p), nil); p.Err() != nil {
			t.Errorf("%q is the error %v", ok, p.Err())
		}
	}
	if got := (protocol.VerbValue + 1).String(); got != "verb 12" {
		t.Errorf("a verb that is none is called %q", got)
	}
}

// TestLineAlone: AppendLine is AppendTo without the body, whose length it announces.
func TestLineAlone(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		q := anyRequest(t)
		whole, line := string(q.AppendTo(nil)), string(q.AppendLine(nil))
		if line+string(q.Body) != whole || !strings.HasSuffix(line, "\r\n") {
			t.Fatalf("line %q, whole %q", line, whole)
		}
	})
}

// TestRecordAppend: a record appends itself as it is, with the checksum it carries, right or not.
func TestRecordAppend(t *testing.T) {
	r := protocol.Record{ID: -5, Flag: 6, Checksum: 7, Body: bs("hello")}
	if got, want := string(r.AppendTo(bs("x"))), "x"+string(rawRecord(5, 7, -5, 6, bs("hello"))); got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}
