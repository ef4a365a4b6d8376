package tail4go

import (
	"bytes"
	"strings"
	"testing"
	"unicode/utf8"

	"pgregory.net/rapid"
)

func TestAttrText(t *testing.T) {
	for _, tt := range []struct {
		attr Attr
		want string
	}{
		{Attr{Host: "web-1", Path: "/var/log/app.log", Pos: 1234}, "host=web-1 path=/var/log/app.log pos=1234"},
		{Attr{Host: "h", Path: "/größe/日志.log"}, "host=h path=/größe/日志.log pos=0"},
		{Attr{Host: "h", Path: "/a b=c%\n\xff\u2028\u00a0.log"}, "host=h path=/a%20b%3Dc%25%0A%FF%E2%80%A8%C2%A0.log pos=0"},
		{Attr{Host: "h", Path: "/p", Pos: 99, Part: 1, More: true}, "host=h path=/p pos=99 part=1+"},
		{Attr{Host: "h", Path: "/p", Pos: 99, Part: 12}, "host=h path=/p pos=99 part=12"},
		{Attr{}, "host= path= pos=0"},
	} {
		if got := tt.attr.String(); got != tt.want {
			t.Errorf("got %q, want %q", got, tt.want)
		}
		got, err := ParseAttr([]byte(tt.want))
		if err != nil || got != tt.attr {
			t.Errorf("%q: got %+v, %v, want %+v", tt.want, got, err, tt.attr)
		}
	}
}

func TestParseAttrErrors(t *testing.T) {
	for text, want := range map[string]string{
		"":                            "no field host",
		"host=h path=/p":              "no field pos",
		"host=h pos=1":                "no field path",
		"host=h path=/p pos=x":        "field pos",
		"host=h path=/p pos=-1":       "field pos",
		"host=h path=/p pos=1 part=0": "parts count from 1",
		"host=h path=/p pos=1 part=a": "field part",
		"host=h path=%2 pos=1":        "ends within an escape",
		"host=h path=%zz pos=1":       "is no escape",
		"host=h path=/p pos=99999999999999999999": "field pos",
	} {
		if _, err := ParseAttr([]byte(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: got error %v, want one with %q", text, err, want)
		}
	}
	if _, err := ParseAttr([]byte("host=h new=1 path=/p pos=1")); err != nil {
		t.Errorf("an unknown field: %v", err)
	}
}

func TestAttrRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a := Attr{
			Host: string(rapid.SliceOf(rapid.Byte()).Draw(t, "host")),
			Path: rapid.String().Draw(t, "path"),
			Pos:  rapid.Int64Min(0).Draw(t, "pos"),
			Part: rapid.IntRange(0, 1<<31-1).Draw(t, "part"),
		}
		a.More = a.Part > 0 && rapid.Bool().Draw(t, "more")
		text := a.String()
		if !utf8.ValidString(text) {
			t.Fatalf("%q is no UTF-8", text)
		}
		got, err := ParseAttr([]byte(text))
		if err != nil || got != a {
			t.Fatalf("%q: got %+v, %v, want %+v", text, got, err, a)
		}
	})
}

func FuzzParseAttr(f *testing.F) {
	f.Add([]byte("host=web-1 path=/var/log/app.log pos=1234 part=1+"))
	f.Add([]byte("host=%41 path=%FF pos=0"))
	f.Fuzz(func(t *testing.T, text []byte) {
		a, err := ParseAttr(text)
		if err != nil {
			return
		}
		if a.Part == 0 {
			a.More = false
		}
		again, err := ParseAttr([]byte(a.String()))
		if err != nil || again != a {
			t.Fatalf("%q: got %+v, %v, want %+v", text, again, err, a)
		}
	})
}

// TestAttrTextOfLines compares the text that is counted up with the one that is made anew.
func TestAttrTextOfLines(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := newAttrText("host", "/path")
		steps := rapid.SliceOf(rapid.OneOf(
			rapid.Int64Range(-100, 300), rapid.Int64Range(0, 1<<21), rapid.Int64Range(0, 1<<40),
		)).Draw(t, "steps")
		a := Attr{Host: "host", Path: "/path", Pos: rapid.Int64Range(0, 1<<60).Draw(t, "pos")}
		for _, step := range steps {
			a.Pos = max(0, a.Pos+step)
			a.Part = rapid.IntRange(0, 3).Draw(t, "part")
			if got, want := text.of(a), []byte(a.String()); !bytes.Equal(got, want) {
				t.Fatalf("got %s, want %s", got, want)
			}
		}
	})
}
