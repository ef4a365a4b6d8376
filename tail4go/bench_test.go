package tail4go

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/nxadm/tail"

	"github.com/metaq-go/metaq/client"
)

// nullSender acknowledges everything at once.
type nullSender struct{ lines int }

func (s *nullSender) SendAsync(_ context.Context, m *client.Message, done func(client.Result, error)) error {
	s.lines++
	done(client.Result{Tag: m.Tag}, nil)
	return nil
}

func (*nullSender) Flush(context.Context) error { return nil }

const (
	benchLine  = 120 // bytes with its end
	benchLines = 2 << 20
)

// benchFile writes lines of 120 bytes, 240 MiB of them.
func benchFile(b *testing.B, dir string) string {
	b.Helper()
	name := filepath.Join(dir, "bench.log")
	f, err := os.Create(name)
	if err != nil {
		b.Fatal(err)
	}
	w := bufio.NewWriterSize(f, 1<<20)
	pad := bytes.Repeat([]byte("x"), benchLine-11)
	for i := range benchLines {
		fmt.Fprintf(w, "%09d %s\n", i, pad)
	}
	if err := errors.Join(w.Flush(), f.Close()); err != nil {
		b.Fatal(err)
	}
	return name
}

// BenchmarkShip reads a file that is in the page cache: with the agent into a sender that does nothing, with a bare loop,
// and with the library. An operation is a line.
func BenchmarkShip(b *testing.B) {
	name := benchFile(b, b.TempDir())
	b.Run("tail4go", func(b *testing.B) { perLine(b, func() int { return shipWithAgent(b, name) }) })
	b.Run("bufio", func(b *testing.B) { perLine(b, func() int { return shipWithBufio(b, name) }) })
	b.Run("nxadm-tail", func(b *testing.B) { perLine(b, func() int { return shipWithTail(b, name) }) })
}

func perLine(b *testing.B, all func() int) {
	b.ReportAllocs()
	b.SetBytes(benchLine)
	for n := 0; n < b.N; n += benchLines {
		if got := all(); got != benchLines {
			b.Fatalf("got %d lines, want %d", got, benchLines)
		}
	}
	// The file is read to its end, whatever b.N is.
	rounds := (b.N + benchLines - 1) / benchLines
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(rounds*benchLines), "ns/line")
	b.ReportMetric(float64(rounds*benchLines)*benchLine/b.Elapsed().Seconds()/1e6, "MB/s-real")
}

func shipWithAgent(b *testing.B, name string) int {
	sender := new(nullSender)
	ctx, cancel := context.WithCancel(b.Context())
	defer cancel()
	agent, err := Open(Config{
		StateDir: b.TempDir(), Inputs: []Input{{Topic: "t", Patterns: []string{name}}},
		Idle: time.Millisecond, PollInterval: 5 * time.Millisecond,
	}, sender)
	if err != nil {
		b.Fatal(err)
	}
	if err := errors.Join(agent.Run(ctx), agent.Close()); err != nil {
		b.Fatal(err)
	}
	return sender.lines
}

func shipWithBufio(b *testing.B, name string) int {
	f, err := os.Open(name)
	if err != nil {
		b.Fatal(err)
	}
	defer f.Close()
	r := bufio.NewReaderSize(f, chunkBytes)
	for lines := 0; ; lines++ {
		switch _, err := r.ReadSlice('\n'); {
		case errors.Is(err, io.EOF):
			return lines
		case err != nil:
			b.Fatal(err)
		}
	}
}

func shipWithTail(b *testing.B, name string) int {
	t, err := tail.TailFile(name, tail.Config{CompleteLines: true, Logger: tail.DiscardingLogger})
	if err != nil {
		b.Fatal(err)
	}
	lines := 0
	for range t.Lines {
		lines++
	}
	if err := t.Wait(); err != nil {
		b.Fatal(err)
	}
	return lines
}
