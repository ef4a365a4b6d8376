package file

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/metaq-go/metaq/internal/vfs"
)

func logTo(w io.Writer) *slog.Logger { return slog.New(slog.NewTextHandler(w, nil)) }

// code encodes itself as text.
type code struct{ text string }

func (c code) MarshalText() ([]byte, error) { return []byte(c.text), nil }

type anything struct {
	A any               `json:"a,omitempty"`
	M map[string]string `json:"m,omitempty"`
	P *string           `json:"p,omitempty"`
	H string            `json:"-"`
	R json.RawMessage   `json:"r,omitempty"`
	L []inner           `json:"l,omitempty"`
	B []byte            `json:"b,omitempty"`
	inner
	hidden string
}

type inner struct {
	S string `json:"s,omitempty"`
}

func TestJSON(t *testing.T) {
	bad := "ok\xff\xfe"
	tests := []struct {
		name string
		row  anything
		want string // a part of the line; "" if the row is refused
	}{
		{"text", anything{inner: inner{"<a> & 日本 \u2028"}}, `{"s":"<a> & 日本 \u2028"}`},
		{"line feed and zero byte are escaped", anything{inner: inner{"a\n\x00"}}, `{"s":"a\n\u0000"}`},
		{"the replacement rune itself", anything{inner: inner{"\ufffd"}}, `{"s":"` + "\ufffd" + `"}`},
		{"its escape as a text", anything{inner: inner{`\ufffd`}}, `{"s":"\\ufffd"}`},
		{"its escape in JSON made elsewhere", anything{R: json.RawMessage(`"\ufffd"`)}, `{"r":"\ufffd"}`},
		{"bytes", anything{B: []byte(bad)}, `{"b":"b2v//g=="}`},
		{"field left out", anything{H: bad, hidden: bad}, `{}`},
		{"C37 text", anything{inner: inner{bad}}, ""},
		{"C37 behind a pointer", anything{P: &bad}, ""},
		{"C37 value of a map", anything{M: map[string]string{"k": bad}}, ""},
		{"C37 key of a map", anything{M: map[string]string{bad: "v"}}, ""},
		{"C37 in a list", anything{L: []inner{{"a"}, {bad}}}, ""},
		{"C37 in an interface", anything{A: []any{1, map[string]any{"k": bad}}}, ""},
		{"C37 from MarshalText", anything{A: code{bad}}, ""},
		{"C37 and JSON made elsewhere", anything{R: json.RawMessage(`"\ufffd"`), inner: inner{bad}}, ""},
		{"not a number", anything{A: math.NaN()}, ""},
		{"no JSON", anything{R: json.RawMessage(`{`)}, ""},
	}
	fsys := vfs.NewMem()
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s, err := Open(Config[anything]{Dir: "/out/x", FS: fsys, Prefix: "rows"})
			must(t, err)
			defer s.Close(t.Context())
			err = s.Write(t.Context(), []anything{{}, tt.row, {}})
			if tt.want == "" {
				if !isPermanent(err) {
					t.Errorf("got %v, want a Permanent error", err)
				}
				if s.Stats().Rows != 0 {
					t.Error("a batch with a bad row was stored")
				}
				return
			}
			must(t, err)
			if got := string(s.buf); got != "{}\n"+tt.want+"\n{}\n" {
				t.Errorf("lines %q, want %s", got, tt.want)
			}
			if n := s.Size(tt.row); n != len(tt.want)+1 {
				t.Errorf("size %d, want %d", n, len(tt.want)+1)
			}
		})
	}
}

// TestJSONAnyText compares what comes back with what was written: equal, or refused.
func TestJSONAnyText(t *testing.T) {
	e := encoderOf[map[string][]any](nil)
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.OneOf(rapid.String(), rapid.Custom(func(t *rapid.T) string {
			return string(rapid.SliceOfN(rapid.Byte(), 0, 6).Draw(t, "bytes"))
		}))
		in := map[string][]any{text.Draw(t, "key"): {text.Draw(t, "value")}}
		line, err := e.line(nil, &in)
		if err != nil {
			return // TestJSON says when
		}
		var out map[string][]any
		if err := json.Unmarshal(line, &out); err != nil {
			t.Fatal(err)
		}
		if got, want := fmt.Sprintf("%q", out), fmt.Sprintf("%q", in); got != want {
			t.Fatalf("wrote %s, read %s", want, got)
		}
	})
}

func TestOwnEncoder(t *testing.T) {
	refused := errors.New("refused")
	fsys := vfs.NewMem()
	s, err := Open(Config[string]{Dir: "/out", Ext: ".log", FS: fsys, Encode: func(dst []byte, v string) ([]byte, error) {
		switch v {
		case "refused":
			return append(dst, "half"...), refused
		case "cut":
			return dst[:0], nil
		}
		return append(dst, v...), nil
	}})
	must(t, err)
	must(t, s.Write(t.Context(), []string{"a", "", "\xff\r"}))
	for _, bad := range []string{"b\nc", "b\n", "b\x00", "refused", "cut"} {
		if err := s.Write(t.Context(), []string{"before", bad}); !isPermanent(err) {
			t.Errorf("row %q: %v, want a Permanent error", bad, err)
		}
	}
	if err := s.Write(t.Context(), []string{"refused"}); !errors.Is(err, refused) {
		t.Errorf("the encoder's error got lost: %v", err)
	}
	must(t, s.Write(t.Context(), []string{"d"}))
	must(t, s.Close(t.Context()))
	if _, lines := finished(t, fsys, ".log"); strings.Join(lines, "|") != "a||\xff\r|d" {
		t.Errorf("lines %q", lines)
	}
}
