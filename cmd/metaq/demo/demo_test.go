package demo

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func TestDemoAddsUp(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "demo")
	l, err := Run(t.Context(), Config{Dir: dir, Time: 4 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	if !l.OK() || l.Missing != 0 || l.Doubled != 0 || l.Differs != 0 {
		t.Errorf("ledger: %+v", l)
	}
	if l.Lines < 100 || l.Rotations < 1 || len(l.Members) != members || l.Counted != l.Lines {
		t.Errorf("too little happened: %+v", l)
	}
	var text strings.Builder
	l.Print(&text)
	for _, want := range []string{
		"lines written", "records in the topic", "rows in SQLite", "rows in Parquet", "broadcast member 3",
		"missing", "doubled", "lines a second", "p99", "requests per second", "█", "the ledger agrees",
	} {
		if !strings.Contains(text.String(), want) {
			t.Errorf("the ledger does not show %q:\n%s", want, text.String())
		}
	}
}

func TestDemoStopsEarlyAndStillAddsUp(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), time.Second) // Ctrl-C
	defer cancel()
	l, err := Run(ctx, Config{Time: time.Hour})
	if err != nil || !l.OK() {
		t.Errorf("ledger: %+v, %v", l, err)
	}
}

func TestDemoOfAFile(t *testing.T) {
	tests := map[string]struct {
		text  string
		lines int64
	}{
		"no newline at the end": {"a\nb", 2},
		"crlf and lone cr":      {"a\r\nb\rc\n", 2},
		"bytes of any kind":     {"\xff\xfe\x00\n\n\n\x00\x00\n", 4},
		"long":                  {strings.Repeat("x", 300_000) + "\nend\n", 2},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "some [file].log") // whose name looks like a pattern
			if err := os.WriteFile(file, []byte(tt.text), 0o644); err != nil {
				t.Fatal(err)
			}
			l, err := Run(t.Context(), Config{Log: file})
			if err != nil || !l.OK() || l.Lines != tt.lines || l.SQLite.Records != tt.lines || l.Parquet.Records != tt.lines {
				t.Errorf("ledger: %+v, %v; want %d lines", l, err, tt.lines)
			}
		})
	}
}

func TestLedgerSeesWhatIsWrong(t *testing.T) {
	file := filepath.Join(t.TempDir(), "log")
	if err := os.WriteFile(file, []byte("a\nb\nc\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	truth, err := readTruth([]string{file}, func(_ []byte, pos int64) (int64, error) { return pos, nil })
	if err != nil {
		t.Fatal(err)
	}
	s := newStation(truth)
	s.add(0, []byte("a"))
	s.add(0, []byte("a"))  // doubled
	s.add(2, []byte("B"))  // differs
	s.add(99, []byte("?")) // of no line
	if got, want := s.tally(), (tally{Records: 4, Missing: 1, Doubled: 2, Differs: 1}); got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
	l := Ledger{Lines: 3, Counted: 2, SQLite: s.tally()}
	l.judge()
	if l.OK() || len(l.Problems) != 2 {
		t.Errorf("problems: %q", l.Problems)
	}
}

func TestDemoRefusesAFullFolder(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "mine"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := Run(t.Context(), Config{Dir: dir}); err == nil || !strings.Contains(err.Error(), dir) {
		t.Errorf("got %v", err)
	}
	if _, err := Run(t.Context(), Config{Log: filepath.Join(dir, "nosuch")}); err == nil {
		t.Error("a log that is not there was accepted")
	}
}

func TestChart(t *testing.T) {
	var b strings.Builder
	chart(&b, "title", []int{0, 50, 100})
	want := "title\n    0 s │ 0\n    1 s │" + strings.Repeat("█", 25) + " 50\n    2 s │" + strings.Repeat("█", 50) + " 100\n"
	if b.String() != want {
		t.Errorf("got\n%swant\n%s", b.String(), want)
	}
	b.Reset()
	chart(&b, "many", make([]int, 1000))
	if n := strings.Count(b.String(), "\n"); n > chartRows+1 {
		t.Errorf("%d lines for 1000 seconds", n)
	}
}
