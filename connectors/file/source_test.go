package file

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/iotest"

	"go.uber.org/goleak"
	"pgregory.net/rapid"

	"github.com/metaq-go/metaq/pipeline"
	"github.com/metaq-go/metaq/pipeline/pipelinetest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func number(l Line) int {
	n, err := strconv.Atoi(l.Text)
	if err != nil {
		return -1
	}
	return n
}

func TestSuiteLines(t *testing.T) {
	pipelinetest.SpoutSuite(t, pipelinetest.SpoutCase[Line]{
		New: func(t *testing.T) pipelinetest.SpoutPlace[Line] {
			dir := t.TempDir()
			names := []string{filepath.Join(dir, "a.log"), filepath.Join(dir, "b.log")}
			for _, n := range names {
				write(t, n, "")
			}
			put := func(numbers ...int) error {
				for _, n := range numbers {
					f, err := os.OpenFile(names[n%2], os.O_APPEND|os.O_WRONLY, 0)
					if err != nil {
						return err
					}
					fmt.Fprintln(f, n)
					f.Close()
				}
				return nil
			}
			return pipelinetest.SpoutPlace[Line]{Source: Lines(names...), Put: put}
		},
		ID: number, Ends: true, Forgets: true,
	})
}

func TestSuiteReader(t *testing.T) {
	pipelinetest.SpoutSuite(t, pipelinetest.SpoutCase[Line]{
		New: func(*testing.T) pipelinetest.SpoutPlace[Line] {
			var buf bytes.Buffer
			put := func(numbers ...int) error {
				for _, n := range numbers {
					fmt.Fprintln(&buf, n)
				}
				return nil
			}
			return pipelinetest.SpoutPlace[Line]{Source: Reader("stdin", &buf), Put: put}
		},
		ID: number, Ends: true, Forgets: true,
	})
}

// TestReaderWaits is the rest of the suite for a reader that stays open: the topology can stop while Read blocks.
func TestReaderWaits(t *testing.T) {
	r, w := io.Pipe()
	defer w.Close()
	sp := open(t, Reader("stdin", r))
	ctx, cancel := context.WithCancel(t.Context())
	got := make(chan error)
	go func() {
		_, err := sp.Next(ctx, make([]pipeline.Tuple[Line], 1))
		got <- err
	}()
	cancel()
	if err := <-got; !errors.Is(err, context.Canceled) {
		t.Errorf("Next after its context ended: %v, want context.Canceled", err)
	}
	if err := sp.Close(t.Context()); err != nil {
		t.Error(err)
	}
}

func TestLines(t *testing.T) {
	long := strings.Repeat("x", 3*blockSize)
	tests := []struct {
		name, text string
		want       []string
	}{
		{"empty", "", nil},
		{"one line", "a\n", []string{"a"}},
		{"no line feed at the end", "a\nb", []string{"a", "b"}},
		{"empty lines", "\n\n", []string{"", ""}},
		{"carriage returns stay", "a\r\nb\rc\r\n", []string{"a\r", "b\rc\r"}},
		{"any bytes", "\x00\xff\n\xfe", []string{"\x00\xff", "\xfe"}},
		{"longer than a block", "a\n" + long + "\nb", []string{"a", long, "b"}},
		{"long at the end", long, []string{long}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			name := filepath.Join(t.TempDir(), "x.log")
			write(t, name, tt.text)
			check(t, Lines(name), name, tt.text, tt.want)
			check(t, Reader("in", iotest.DataErrReader(strings.NewReader(tt.text))), "in", tt.text, tt.want)
		})
	}
}

// check reads src to its end and compares texts and offsets.
func check(t *testing.T, src *Source, name, text string, want []string) {
	t.Helper()
	got, err := readAll(t, src)
	if !errors.Is(err, io.EOF) {
		t.Fatalf("Next at the end: %v, want io.EOF", err)
	}
	var texts []string
	for _, l := range got {
		texts = append(texts, l.Text)
		if l.File != name || !strings.HasPrefix(text[l.Offset:], l.Text) || l.Offset > 0 && text[l.Offset-1] != '\n' {
			t.Errorf("line %q says it is at byte %d of %s", l.Text, l.Offset, l.File)
		}
	}
	if !slices.Equal(texts, want) {
		t.Errorf("got %d lines %.80q, want %d %.80q", len(texts), texts, len(want), want)
	}
}

func TestLinesAnyText(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		text := strings.Join(rapid.SliceOf(rapid.SampledFrom([]string{"\n", "a", "\r\n", "long line ", "\x00"})).Draw(rt, "text"), "")
		want := strings.SplitAfter(text, "\n")
		if want[len(want)-1] == "" {
			want = want[:len(want)-1]
		}
		got, _ := readAll(t, Reader("in", iotest.HalfReader(strings.NewReader(text))))
		if len(got) != len(want) {
			rt.Fatalf("%d lines, want %d", len(got), len(want))
		}
		for i, l := range got {
			if l.Text != strings.TrimSuffix(want[i], "\n") {
				rt.Fatalf("line %d is %q, want %q", i, l.Text, want[i])
			}
		}
	})
}

func TestLineTooLong(t *testing.T) {
	for _, text := range []string{"ok\n12345678\nrest\n", "ok\n12345678", "ok\n" + strings.Repeat("x", 2*blockSize)} {
		src := Reader("in", strings.NewReader(text))
		src.MaxLine = 7
		got, err := readAll(t, src)
		if !errors.Is(err, ErrLineTooLong) || !strings.Contains(err.Error(), "in at byte 3") {
			t.Errorf("%.20q: %v, want ErrLineTooLong at byte 3", text, err)
		}
		if len(got) > 1 { // what came before may be handed out, what comes after may not
			t.Errorf("%.20q: %d lines handed out", text, len(got))
		}
	}
	src := Reader("in", strings.NewReader("1234567\n"))
	src.MaxLine = 7
	if got, err := readAll(t, src); len(got) != 1 || !errors.Is(err, io.EOF) {
		t.Errorf("line of just MaxLine: %d lines, %v", len(got), err)
	}
}

func TestReadError(t *testing.T) {
	broken := errors.New("the disk is broken")
	src := Reader("in", io.MultiReader(strings.NewReader("a\nb\nhalf"), iotest.ErrReader(broken)))
	got, err := readAll(t, src)
	if len(got) != 2 || !errors.Is(err, broken) || !strings.Contains(err.Error(), "in at byte 8") {
		t.Errorf("%d lines and %v, want 2 and the error at byte 8", len(got), err)
	}
}

func TestOpenErrors(t *testing.T) {
	dir := t.TempDir()
	task := pipeline.Task{Count: 1}
	if _, err := Lines(filepath.Join(dir, "missing")).Open(t.Context(), task); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("missing file: %v", err)
	}
	if _, err := Lines(dir).Open(t.Context(), task); err == nil {
		t.Error("a directory was opened as a file")
	}
	src := Reader("in", strings.NewReader(""))
	if err := open(t, src).Close(t.Context()); err != nil {
		t.Error(err)
	}
	if _, err := src.Open(t.Context(), task); err == nil {
		t.Error("a reader was opened twice")
	}
}

func TestFilesAreShared(t *testing.T) {
	dir := t.TempDir()
	var names []string
	for i := range 5 {
		names = append(names, filepath.Join(dir, strconv.Itoa(i)))
		write(t, names[i], strconv.Itoa(i))
	}
	read := func(mode pipeline.Mode) (all []string) {
		src := Lines(names...)
		for i := range 2 {
			sp, err := src.Open(t.Context(), pipeline.Task{Index: i, Count: 2, Mode: mode})
			if err != nil {
				t.Fatal(err)
			}
			lines, _ := drain(t, sp)
			for _, l := range lines {
				all = append(all, l.Text)
			}
		}
		return all
	}
	if got, want := read(pipeline.Ordered), []string{"0", "2", "4", "1", "3"}; !slices.Equal(got, want) {
		t.Errorf("two tasks read %v, want %v", got, want)
	}
	if got := read(pipeline.Broadcast); len(got) != 10 {
		t.Errorf("broadcast: %v, want every line twice", got)
	}
}

// TestCloseEarly closes a spout that has read ahead.
func TestCloseEarly(t *testing.T) {
	name := filepath.Join(t.TempDir(), "x.log")
	write(t, name, strings.Repeat("line\n", blockSize))
	sp := open(t, Lines(name))
	if _, err := sp.Next(t.Context(), make([]pipeline.Tuple[Line], 1)); err != nil {
		t.Fatal(err)
	}
	if err := sp.Close(t.Context()); err != nil {
		t.Error(err)
	}
}

func open(tb testing.TB, src *Source) pipeline.Spout[Line] {
	tb.Helper()
	sp, err := src.Open(tb.Context(), pipeline.Task{Count: 1})
	if err != nil {
		tb.Fatal(err)
	}
	return sp
}

func readAll(tb testing.TB, src *Source) ([]Line, error) {
	tb.Helper()
	return drain(tb, open(tb, src))
}

func drain(tb testing.TB, sp pipeline.Spout[Line]) (lines []Line, err error) {
	tb.Helper()
	dst := make([]pipeline.Tuple[Line], 3)
	for err == nil {
		var n int
		n, err = sp.Next(tb.Context(), dst)
		for _, d := range dst[:n] {
			lines = append(lines, d.Value)
		}
	}
	if closeErr := sp.Close(tb.Context()); closeErr != nil {
		tb.Error(closeErr)
	}
	return lines, err
}

func write(tb testing.TB, name, text string) {
	tb.Helper()
	if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
		tb.Fatal(err)
	}
}

func BenchmarkLines(b *testing.B) {
	name := filepath.Join(b.TempDir(), "x.log")
	text := strings.Repeat(strings.Repeat("x", 99)+"\n", 1<<18)
	write(b, name, text)
	dst := make([]pipeline.Tuple[Line], 256)
	b.SetBytes(int64(len(text)))
	b.ReportAllocs()
	for b.Loop() {
		sp := open(b, Lines(name))
		for {
			if _, err := sp.Next(b.Context(), dst); err != nil {
				break
			}
		}
		sp.Close(b.Context())
	}
}
