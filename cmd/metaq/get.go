package main

import (
	"bufio"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"io"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"github.com/metaq-go/metaq/client"
	"github.com/metaq-go/metaq/protocol"
)

// get is metaq get: messages are printed, nothing is committed.
type get struct {
	cluster
	partition, from string
	max             int64
	follow, json    bool
}

func newGet() *cobra.Command {
	var g get
	cmd := &cobra.Command{
		Use:   "get TOPIC",
		Short: "Print the messages of a topic",
		Long: "Prints the payloads of a topic, one a line, one partition after the other. It ends where the topic ended when it began;\n" +
			"with --follow it goes on until it is stopped. It is in no group and commits nothing.",
		Example: "  metaq get test\n" +
			"  metaq get test --partition 0-1 --from 4096 --max 10 --json\n" +
			"  metaq get test --from 2026-12-01T10:00:00Z\n" +
			"  metaq get test --from latest --follow",
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return g.run(cmd, args[0])
		},
	}
	g.flags(cmd)
	f := cmd.Flags()
	f.StringVar(&g.partition, "partition", "", "only this one, `BROKER-PARTITION`")
	f.StringVar(&g.from, "from", "earliest", "earliest, latest, an `offset`, or a time: RFC 3339, or 10m for ten minutes ago")
	f.Int64Var(&g.max, "max", 0, "end after so many messages")
	f.BoolVar(&g.follow, "follow", false, "go on with what comes")
	f.BoolVar(&g.json, "json", false, "print objects: topic partition offset id attr payload")
	return cmd
}

// position is where to begin.
type position struct {
	latest bool
	offset int64
	since  time.Time // skip what is older
}

func parsePosition(s string, now time.Time) (position, error) {
	switch s {
	case "earliest":
		return position{}, nil
	case "latest":
		return position{latest: true}, nil
	}
	if n, err := strconv.ParseInt(s, 10, 64); err == nil && n >= 0 {
		return position{offset: n}, nil
	}
	if d, err := time.ParseDuration(s); err == nil && d >= 0 {
		return position{since: now.Add(-d)}, nil
	}
	for _, layout := range []string{time.RFC3339Nano, "2006-01-02T15:04:05", time.DateTime, time.DateOnly} {
		if t, err := time.ParseInLocation(layout, s, time.Local); err == nil {
			return position{since: t}, nil
		}
	}
	return position{}, badUsage("--from %s: want earliest, latest, an offset, a time such as 2026-12-01T10:00:00Z, or an age such as 10m", s)
}

func (g *get) run(cmd *cobra.Command, topic string) error {
	from, err := parsePosition(g.from, time.Now())
	if err != nil {
		return err
	}
	if g.max < 0 {
		return badUsage("--max %d: must not be negative", g.max)
	}
	ctx := cmd.Context()
	c, err := g.open(ctx, cmd.ErrOrStderr())
	if err != nil {
		return err
	}
	defer c.Close()
	parts, err := c.Partitions(ctx, topic)
	if err != nil {
		return err
	}
	if g.partition != "" {
		parts = slices.DeleteFunc(parts, func(p client.Partition) bool { return p.String() != g.partition })
		if len(parts) == 0 {
			return badUsage("--partition %s: topic %s has no such partition", g.partition, topic)
		}
	}
	out := newPrinter(cmd.OutOrStdout(), g.json, g.max)
	if g.follow {
		err = g.followAll(ctx, c, topic, parts, from, out)
	} else {
		for _, p := range parts {
			if err = g.partitionTo(ctx, c, topic, p, from, out); err != nil {
				break
			}
		}
	}
	if errors.Is(err, errEnough) || ctx.Err() != nil {
		err = nil
	}
	return errors.Join(err, out.flush())
}

var errEnough = errors.New("enough messages")

// reader returns a reader of a partition and where it ends now.
func (from position) reader(ctx context.Context, c *client.Client, topic string, p client.Partition) (*client.Reader, int64, error) {
	start, end, err := c.Offsets(ctx, topic, p)
	if err != nil {
		return nil, 0, err
	}
	at := max(start, min(from.offset, end))
	if from.latest {
		at = end
	}
	return c.Reader(topic, p, at), end, nil
}

// partitionTo prints a partition up to its present end.
func (g *get) partitionTo(ctx context.Context, c *client.Client, topic string, p client.Partition, from position, out *printer) error {
	r, end, err := from.reader(ctx, c, topic, p)
	if err != nil {
		return err
	}
	for r.Offset() < end {
		b, err := r.Next(ctx)
		if err != nil {
			return err
		}
		if err := out.batch(b, end, from.since); err != nil {
			return err
		}
		b.Release()
	}
	return nil
}

// followAll prints what comes to any of the partitions until ctx ends.
func (g *get) followAll(ctx context.Context, c *client.Client, topic string, parts []client.Partition, from position, out *printer) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var group sync.WaitGroup
	for _, p := range parts {
		r, _, err := from.reader(ctx, c, topic, p)
		if err != nil {
			return err
		}
		group.Go(func() {
			for ctx.Err() == nil {
				b, err := r.Next(ctx)
				if err == nil {
					err = out.batch(b, protocol.MaxOffset, from.since)
				}
				if err == nil {
					err = out.flush()
				}
				if err != nil {
					cancel(err)
				}
			}
		})
	}
	group.Wait()
	return context.Cause(ctx)
}

// printer writes messages to standard output. Safe for concurrent use.
type printer struct {
	json bool
	max  int64 // 0: no limit

	mu  sync.Mutex
	out *bufio.Writer
	n   int64
}

func newPrinter(w io.Writer, json bool, limit int64) *printer {
	return &printer{json: json, max: limit, out: bufio.NewWriterSize(w, 64<<10)}
}

// batch prints the messages below offset end that are not older than since. It returns errEnough after the last one that
// was asked for.
func (p *printer) batch(b *client.Batch, end int64, since time.Time) error {
	for m := range b.Messages() {
		if m.Offset >= end {
			return nil
		}
		if !since.IsZero() && protocol.IDTime(m.ID).Before(since) {
			continue
		}
		if err := p.message(&m); err != nil {
			return err
		}
	}
	return nil
}

func (p *printer) message(m *client.Message) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.max > 0 && p.n == p.max {
		return errEnough
	}
	p.n++
	var err error
	if p.json {
		err = json.NewEncoder(p.out).Encode(toJSON(m))
	} else {
		p.out.Write(m.Payload)
		err = p.out.WriteByte('\n')
	}
	if err != nil {
		return output(err)
	}
	if p.n == p.max {
		return errEnough
	}
	return nil
}

func (p *printer) flush() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	return output(p.out.Flush())
}

// jsonMessage is a message as --json prints it.
type jsonMessage struct {
	Topic     string  `json:"topic"`
	Partition string  `json:"partition"`
	Offset    int64   `json:"offset"`
	ID        int64   `json:"id"`
	Attr      *string `json:"attr"` // null: none
	Payload   string  `json:"payload"`
	Base64    bool    `json:"base64,omitempty"`
}

func toJSON(m *client.Message) jsonMessage {
	j := jsonMessage{
		Topic: m.Topic, Partition: m.Partition.String(), Offset: m.Offset, ID: m.ID, Payload: string(m.Payload),
	}
	if m.Attr != nil {
		attr := strings.ToValidUTF8(string(m.Attr), "\ufffd")
		j.Attr = &attr
	}
	if !utf8.Valid(m.Payload) {
		j.Payload, j.Base64 = base64.StdEncoding.EncodeToString(m.Payload), true
	}
	return j
}
