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
	"strconv"
	"sync"
	"sync/atomic"
	"syscall"
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
	before := cpuTime(b)
	rounds := 0
	// The file is read to its end, whatever b.N is.
	for ; rounds*benchLines < b.N; rounds++ {
		if got := all(); got != benchLines {
			b.Fatalf("got %d lines, want %d", got, benchLines)
		}
	}
	gigabytes := float64(rounds*benchLines) * benchLine / 1e9
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(rounds*benchLines), "ns/line")
	b.ReportMetric(gigabytes*1000/b.Elapsed().Seconds(), "MB/s")
	b.ReportMetric((cpuTime(b)-before).Seconds()/gigabytes, "CPU-s/GB")
}

// cpuTime returns what this process has used.
func cpuTime(b *testing.B) time.Duration {
	var r syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &r); err != nil {
		b.Fatal(err)
	}
	return time.Duration(r.Utime.Nano() + r.Stime.Nano())
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

// tally counts which of some numbered lines came.
type tally struct {
	mu  sync.Mutex
	got []uint8
	all atomic.Int64
}

func (c *tally) count(line string) {
	n, err := strconv.Atoi(line[:9])
	if err != nil {
		panic(err)
	}
	c.mu.Lock()
	c.got[n]++
	c.mu.Unlock()
	c.all.Add(1)
}

func (c *tally) SendAsync(_ context.Context, m *client.Message, done func(client.Result, error)) error {
	c.count(string(m.Payload))
	done(client.Result{Tag: m.Tag}, nil)
	return nil
}

func (*tally) Flush(context.Context) error { return nil }

// BenchmarkRotation writes a million lines, about 100 000 a second, to a log that is renamed 49 times, through one handle each
// time until after the rename, and counts those that never come, and that come twice. Run it with -benchtime 1x.
func BenchmarkRotation(b *testing.B) {
	b.Run("tail4go", func(b *testing.B) { rotation(b, followWithAgent) })
	for name, poll := range map[string]bool{"nxadm-tail-inotify": false, "nxadm-tail-poll": true} {
		b.Run(name, func(b *testing.B) {
			rotation(b, func(b *testing.B, name string, c *tally) func() { return followWithTail(b, name, c, poll) })
		})
	}
}

func followWithAgent(b *testing.B, name string, c *tally) (stop func()) {
	agent, err := Open(Config{StateDir: b.TempDir(), Inputs: []Input{{Topic: "t", Patterns: []string{name}}}}, c)
	if err != nil {
		b.Fatal(err)
	}
	ctx, cancel := context.WithCancel(b.Context())
	result := make(chan error, 1)
	go func() { result <- agent.Run(ctx) }()
	return func() {
		cancel()
		if err := errors.Join(<-result, agent.Close()); err != nil {
			b.Error(err)
		}
	}
}

func followWithTail(b *testing.B, name string, c *tally, poll bool) (stop func()) {
	t, err := tail.TailFile(name, tail.Config{
		Follow: true, ReOpen: true, CompleteLines: true, Poll: poll, Logger: tail.DiscardingLogger,
	})
	if err != nil {
		b.Fatal(err)
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for l := range t.Lines {
			c.count(l.Text)
		}
	}()
	return func() {
		if err := t.Stop(); err != nil {
			b.Error(err)
		}
		<-ended
	}
}

const rotationLines = 1_000_000

func rotation(b *testing.B, follow func(b *testing.B, name string, c *tally) (stop func())) {
	lost, doubled := 0, 0
	for range b.N {
		name := filepath.Join(b.TempDir(), "app.log")
		if err := os.WriteFile(name, nil, 0o644); err != nil {
			b.Fatal(err)
		}
		c := &tally{got: make([]uint8, rotationLines)}
		stop := follow(b, name, c)
		writeRotating(b, name)
		// As long as something comes, and a little longer.
		for last := int64(-1); c.all.Load() != last; {
			last = c.all.Load()
			<-time.After(3 * time.Second)
		}
		stop()
		for _, n := range c.got {
			lost += max(0, 1-int(n))
			doubled += max(0, int(n)-1)
		}
	}
	b.ReportMetric(float64(lost)/float64(b.N), "lost/op")
	b.ReportMetric(float64(doubled)/float64(b.N), "doubled/op")
}

func writeRotating(b *testing.B, name string) {
	const perFile, perTick = 20_000, 1000
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	var f *os.File
	for i := range rotationLines {
		if i%perFile == 0 {
			if f != nil {
				if err := os.Rename(name, fmt.Sprintf("%s.%d", name, i)); err != nil {
					b.Fatal(err)
				}
			}
			next, err := os.OpenFile(name, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
			if err != nil {
				b.Fatal(err)
			}
			if f != nil {
				f.Close()
			}
			f = next
		}
		if i%perTick == 0 {
			<-tick.C
		}
		if _, err := fmt.Fprintf(f, "%09d some text of a line, not very long\n", i); err != nil {
			b.Fatal(err)
		}
	}
	f.Close()
}
