package tail4go

import (
	"context"
	"fmt"
	"os"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"
)

// wait lets time pass in a bubble.
func wait(d time.Duration) { <-time.After(d) }

func TestLines(t *testing.T) {
	long := strings.Repeat("x", 300_000)
	for _, tt := range []struct {
		name, text string
		keepCR     bool
		maxLine    int
		want       []record
	}{
		{name: "plain", text: "a\nbc\n", want: []record{{payload: "a"}, {Attr: Attr{Pos: 2}, payload: "bc"}}},
		{name: "unfinished", text: "a\nbc", want: []record{{payload: "a"}}},
		{name: "empty lines", text: "\n\na\n\n", want: []record{
			{}, {Attr: Attr{Pos: 1}}, {Attr: Attr{Pos: 2}, payload: "a"}, {Attr: Attr{Pos: 4}},
		}},
		{name: "CRLF", text: "a\r\n\r\nb\rc\r\nd\r\r\n", want: []record{
			{payload: "a"}, {Attr: Attr{Pos: 3}}, {Attr: Attr{Pos: 5}, payload: "b\rc"}, {Attr: Attr{Pos: 10}, payload: "d\r"},
		}},
		{name: "CRLF kept", keepCR: true, text: "a\r\n\r\nb\n", want: []record{
			{payload: "a\r"}, {Attr: Attr{Pos: 3}, payload: "\r"}, {Attr: Attr{Pos: 5}, payload: "b"},
		}},
		{name: "odd bytes", text: "n\x00ul\n\xff\xfe\n\x1b[31m\n   \n", want: []record{
			{payload: "n\x00ul"},
			{Attr: Attr{Pos: 5}, payload: "\xff\xfe"},
			{Attr: Attr{Pos: 8}, payload: "\x1b[31m"},
			{Attr: Attr{Pos: 14}, payload: "   "},
		}},
		{name: "longer than a chunk", text: "a\n" + long + "\nb\n", want: []record{
			{payload: "a"}, {Attr: Attr{Pos: 2}, payload: long}, {Attr: Attr{Pos: 300_003}, payload: "b"},
		}},
		{name: "as long as allowed", maxLine: 16, text: "0123456789abcdef\n0123456789abcdef\r\nx\n", want: []record{
			{payload: "0123456789abcdef"}, {Attr: Attr{Pos: 17}, payload: "0123456789abcdef"}, {Attr: Attr{Pos: 35}, payload: "x"},
		}},
		{name: "too long", maxLine: 16, text: "0123456789abcdefg\nx\n", want: []record{
			{Attr: Attr{Part: 1, More: true}, payload: "0123456789abcdef"},
			{Attr: Attr{Pos: 16, Part: 2}, payload: "g"},
			{Attr: Attr{Pos: 18}, payload: "x"},
		}},
		{name: "too long with CR kept", maxLine: 16, keepCR: true, text: "0123456789abcdef\r\n", want: []record{
			{Attr: Attr{Part: 1, More: true}, payload: "0123456789abcdef"}, {Attr: Attr{Pos: 16, Part: 2}, payload: "\r"},
		}},
		{name: "cut between characters", maxLine: 16, text: "0123456789abcde日日日日日\n", want: []record{
			{Attr: Attr{Part: 1, More: true}, payload: "0123456789abcde"},
			{Attr: Attr{Pos: 15, Part: 2}, payload: "日日日日日"},
		}},
		{name: "cut without characters", maxLine: 16, text: strings.Repeat("\x80", 18) + "\n", want: []record{
			{Attr: Attr{Part: 1, More: true}, payload: strings.Repeat("\x80", 16)}, {Attr: Attr{Pos: 16, Part: 2}, payload: "\x80\x80"},
		}},
		{name: "too long and unfinished", maxLine: 16, text: strings.Repeat("x", 40), want: []record{
			{Attr: Attr{Part: 1, More: true}, payload: strings.Repeat("x", 16)},
			{Attr: Attr{Pos: 16, Part: 2, More: true}, payload: strings.Repeat("x", 16)},
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := newBench(t, "app.log")
				b.cfg.KeepCR, b.cfg.MaxLine = tt.keepCR, tt.maxLine
				b.write("app.log", tt.text)
				r := newRecorder(nil)
				b.run(r)
				got := r.records()
				if len(got) != len(tt.want) {
					t.Fatalf("got %d records, want %d: %.300q", len(got), len(tt.want), got)
				}
				for i, want := range tt.want {
					want.Host, want.Path, want.key = "h", b.path("app.log"), "h:"+b.path("app.log")
					if got[i] != want {
						t.Errorf("record %d: got %.200q, want %.200q", i, got[i], want)
					}
				}
			})
		})
	}
}

// TestLinesAnyhowWritten writes bytes in any pieces, with pauses, and puts the file together again from its records.
func TestLinesAnyhowWritten(t *testing.T) {
	type piece struct {
		text  string
		pause time.Duration
	}
	text := rapid.OneOf(
		rapid.StringOf(rapid.SampledFrom([]rune("ab\n\rö日\x00"))),
		rapid.Map(rapid.IntRange(0, 200_000), func(n int) string { return strings.Repeat("long ", n/5) }),
	)
	pieces := rapid.SliceOfN(rapid.Custom(func(t *rapid.T) piece {
		return piece{text.Draw(t, "text"), time.Duration(rapid.IntRange(0, 1000).Draw(t, "ms")) * time.Millisecond}
	}), 1, 12)
	rapid.Check(t, func(rt *rapid.T) {
		pieces := pieces.Draw(rt, "pieces")
		most := rapid.SampledFrom([]int{16, 17, 100, 1 << 20}).Draw(rt, "most")
		partial := time.Duration(rapid.IntRange(0, 2).Draw(rt, "partial")) * 400 * time.Millisecond
		r := newRecorder(nil)
		var want strings.Builder
		synctest.Test(t, func(t *testing.T) {
			b := newBench(t, "*.log")
			b.cfg.Logger = nil
			b.cfg.KeepCR, b.cfg.MaxLine, b.cfg.PartialAfter = true, most, partial
			b.start(r)
			for _, p := range pieces {
				want.WriteString(p.text)
				b.write("a.log", p.text)
				wait(p.pause)
			}
			wait(2 * time.Second) // for the scan that finds the file
			b.remove("a.log")     // now its end is due
			wait(10 * time.Second)
		})
		got, err := fileOf(r.records(), most)
		if err != nil {
			rt.Fatal(err)
		}
		if n := len(r.records()); n > 0 && r.records()[n-1].More && got+"\n" == want.String() {
			return // the last line got its end after all of it had been sent
		}
		if got != want.String() {
			rt.Fatalf("got %d bytes %.300q, want %d bytes %.300q", len(got), got, want.Len(), want.String())
		}
	})
}

// fileOf puts a file together from its records, of which CRs were kept.
func fileOf(got []record, most int) (string, error) {
	var text strings.Builder
	part := 0
	for i, m := range got {
		if len(m.payload) > most {
			return "", fmt.Errorf("record %d has %d bytes, at most %d are allowed", i, len(m.payload), most)
		}
		if part > 0 && m.Pos == int64(text.Len())+1 {
			text.WriteByte('\n') // the end of a line all of which was sent
			part = 0
		}
		if m.Pos != int64(text.Len()) {
			return "", fmt.Errorf("record %d is at %d, want %d", i, m.Pos, text.Len())
		}
		want := 0
		if part > 0 || m.More {
			want = part + 1
		}
		if m.Part != want {
			return "", fmt.Errorf("record %d is part %d, want %d", i, m.Part, want)
		}
		text.WriteString(m.payload)
		part = m.Part
		if !m.More {
			text.WriteByte('\n')
			part = 0
		}
	}
	return text.String(), nil
}

func TestLastLine(t *testing.T) {
	for _, tt := range []struct {
		text string
		most int
		want int64
	}{
		{"", 100, 0},
		{"a", 100, 0},
		{"a\n", 100, 2},
		{"a\nb", 100, 2},
		{"\n" + strings.Repeat("x", 200_000), 1 << 20, 1},
		{"\n" + strings.Repeat("x", 200_000), 1000, 200_001},
	} {
		r := strings.NewReader(tt.text)
		if got, err := lastLine(r, r.Size(), tt.most); err != nil || got != tt.want {
			t.Errorf("%.20q: got %d, %v, want %d", tt.text, got, err, tt.want)
		}
	}
}

func TestNoWriter(t *testing.T) {
	name := t.TempDir() + "/a"
	w, err := os.Create(name)
	if err != nil {
		t.Fatal(err)
	}
	r, err := os.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	if noWriter(r) {
		t.Error("a writer was overlooked")
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	if !noWriter(r) {
		t.Skip("this file system does not tell")
	}
	// The lease is given back: opening for writing doesn't wait.
	w, err = os.OpenFile(name, os.O_WRONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		t.Fatal(err)
	}
	w.Close()
}

func TestSendAllocatesNothing(t *testing.T) {
	b := newBench(t, "app.log")
	b.write("app.log", strings.Repeat("0123456789\n", 10_000))
	in := newInput(b.cfg.Inputs[0].withDefaults(), mustDefaults(t, b.cfg), new(nullSender), new(counters), nil)
	in.scan(time.Now())
	defer in.close()
	f := in.list()[0]
	var err error
	allocs := testing.AllocsPerRun(20, func() {
		f.pos, f.scanned = position{}, 0
		_, _, err = in.pump(context.Background(), f)
	})
	if err != nil {
		t.Fatal(err)
	}
	if allocs > 1 {
		t.Errorf("%v allocations for 10 000 lines, want none per line", allocs)
	}
}

func mustDefaults(t *testing.T, cfg Config) Config {
	t.Helper()
	cfg, err := cfg.withDefaults()
	if err != nil {
		t.Fatal(err)
	}
	return cfg
}
