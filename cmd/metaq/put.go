package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"github.com/metaq-go/metaq/client"
)

// put is metaq put: standard input becomes messages.
type put struct {
	cluster
	partition   int
	attr, key   string
	whole, null bool
	quiet       bool
	plain       bool
}

func newPut() *cobra.Command {
	var p put
	cmd := &cobra.Command{
		Use:   "put TOPIC",
		Short: "Send standard input, a message for each line",
		Long: "Sends every line of standard input as a message. For each one that is acknowledged it prints BROKER-PARTITION OFFSET ID,\n" +
			"in the order of the input. Exits with 1 and names the first message that was not acknowledged.",
		Example: "  echo hello | metaq put test\n" +
			"  seq 1 1000000 | metaq put test --quiet\n" +
			"  metaq put images --whole --attr cat.jpg < cat.jpg\n" +
			"  find . -print0 | metaq put files --null",
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return p.run(cmd, args[0])
		},
	}
	p.flags(cmd)
	f := cmd.Flags()
	f.IntVar(&p.partition, "partition", -1, "`number` of the partition; default: bursts go round")
	f.StringVar(&p.attr, "attr", "", "attribute `text` of every message")
	f.StringVar(&p.key, "key", "", "`text` whose hash chooses the partition")
	f.BoolVar(&p.whole, "whole", false, "all of standard input is one message")
	f.BoolVar(&p.null, "null", false, "messages are ended by NUL, not by newline")
	f.BoolVar(&p.quiet, "quiet", false, "print only the summary")
	f.BoolVar(&p.plain, "plain", false, "speak MetaQ's own protocol only, a put for each message")
	return cmd
}

func (p *put) run(cmd *cobra.Command, topic string) error {
	given := cmd.Flags().Changed
	switch {
	case p.whole && p.null:
		return badUsage("--whole and --null exclude each other")
	case given("partition") && given("key"):
		return badUsage("--partition and --key exclude each other")
	case given("partition") && p.partition < 0:
		return badUsage("--partition %d: must not be negative", p.partition)
	}
	ctx := cmd.Context()
	c, err := p.open(ctx, cmd.ErrOrStderr())
	if err != nil {
		return err
	}
	defer c.Close()
	cfg := client.ProducerConfig{Plain: p.plain}
	if p.partition >= 0 {
		cfg.Partition = func(_ *client.Message, parts []client.Partition) int {
			if p.partition >= len(parts) {
				return -1
			}
			return p.partition
		}
	}
	producer := c.Producer(cfg)
	defer producer.Close()

	began := time.Now()
	acks := newAckPrinter(cmd.OutOrStdout(), p.quiet)
	m := client.Message{Topic: topic}
	if given("attr") {
		m.Attr = []byte(p.attr)
	}
	if given("key") {
		m.Key = []byte(p.key)
	}
	sendErr := p.send(ctx, cmd.InOrStdin(), producer, acks, &m)
	if acks.failed() {
		producer.Abort() // nothing behind the message that failed can change the outcome
	}
	flushErr := producer.Flush(context.WithoutCancel(ctx))
	n, bytes, ackErr := acks.finish()
	took := time.Since(began)
	fmt.Fprintf(cmd.ErrOrStderr(), "%d messages acknowledged, %d bytes, %.1f s, %.0f messages/s\n",
		n, bytes, took.Seconds(), float64(n)/max(took.Seconds(), 1e-9))
	if ackErr != nil { // it names a message; that sending stopped follows from it
		return ackErr
	}
	return errors.Join(sendErr, flushErr)
}

// send reads messages and hands them over, until the input ends, a message fails, or a signal comes.
func (p *put) send(ctx context.Context, in io.Reader, producer *client.Producer, acks *ackPrinter, m *client.Message) error {
	if p.whole {
		data, err := io.ReadAll(in)
		if err != nil {
			return fmt.Errorf("read standard input: %w", err)
		}
		m.Payload = data
		acks.sent(len(data))
		return producer.SendAsync(ctx, m, acks.done)
	}
	end := byte('\n')
	if p.null {
		end = 0
	}
	r := bufio.NewReaderSize(in, 256<<10)
	var long []byte
	for ctx.Err() == nil && !acks.failed() {
		piece, err := r.ReadSlice(end)
		if errors.Is(err, bufio.ErrBufferFull) {
			long = append(long, piece...)
			continue
		}
		if len(long) > 0 {
			piece = append(long, piece...)
			long = long[:0]
		}
		if err != nil && !errors.Is(err, io.EOF) {
			return fmt.Errorf("read standard input: %w", err)
		}
		if len(piece) > 0 {
			m.Payload = bytes.TrimSuffix(piece, []byte{end})
			m.Tag++
			acks.sent(len(m.Payload))
			if err := producer.SendAsync(ctx, m, acks.done); err != nil {
				acks.done(client.Result{Tag: m.Tag}, err)
				return err
			}
		}
		if err != nil {
			return nil
		}
	}
	return ctx.Err()
}

// ackPrinter prints acknowledgements in the order of the messages, whatever order they come in.
type ackPrinter struct {
	quiet bool
	out   *bufio.Writer

	mu       sync.Mutex
	results  []ack // of messages first, first+1, …
	first    int64
	count    int64
	bytes    int64 // of payloads
	err      error // of the first message that failed
	failedAt int64
	writeErr error
}

type ack struct {
	res  client.Result
	err  error
	done bool
}

func newAckPrinter(out io.Writer, quiet bool) *ackPrinter {
	return &ackPrinter{quiet: quiet, out: bufio.NewWriterSize(out, 64<<10), first: 1}
}

// sent notes that a message of n bytes is about to be sent.
func (a *ackPrinter) sent(n int) {
	a.mu.Lock()
	a.results = append(a.results, ack{})
	a.bytes += int64(n)
	a.mu.Unlock()
}

// done is called for each message, in any order; the tag of the first is 1, or 0 if it is the only one.
func (a *ackPrinter) done(res client.Result, err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	at := max(res.Tag, 1) - a.first
	a.results[at] = ack{res, err, true}
	if err != nil && (a.err == nil || a.first+at < a.failedAt) {
		a.err, a.failedAt = err, a.first+at
	}
	if at > 0 {
		return
	}
	n := 0
	var line []byte
	for n < len(a.results) && a.results[n].done {
		if r := &a.results[n]; r.err == nil {
			a.count++
			if !a.quiet && a.writeErr == nil {
				line = append(append(line[:0], r.res.Partition.String()...), ' ')
				line = append(strconv.AppendInt(line, r.res.Offset, 10), ' ')
				line = append(strconv.AppendInt(line, r.res.ID, 10), '\n')
				_, a.writeErr = a.out.Write(line)
			}
		}
		n++
	}
	a.first += int64(n)
	a.results = a.results[n:]
	if len(a.results) == 0 && a.writeErr == nil { // nothing is on its way: whoever reads our output may be waiting for it
		a.writeErr = a.out.Flush()
	}
}

func (a *ackPrinter) failed() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.err != nil || a.writeErr != nil
}

// finish prints what is left and returns how many messages were acknowledged, and an error that names the first that
// was not.
func (a *ackPrinter) finish() (count, bytes int64, err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if err := a.out.Flush(); a.writeErr == nil {
		a.writeErr = err
	}
	if a.err != nil {
		return a.count, a.bytes, fmt.Errorf("message %d was not acknowledged: %w", a.failedAt, a.err)
	}
	return a.count, a.bytes, output(a.writeErr)
}
