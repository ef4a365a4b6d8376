package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/metaq-go/metaq/client"
)

// consume is metaq consume: a member of a consumer group that commits.
type consume struct {
	cluster
	group, member, offsets, from string
	broadcast, json              bool
	max                          int64
	idle                         time.Duration
}

func newConsume() *cobra.Command {
	var c consume
	cmd := &cobra.Command{
		Use:   "consume TOPIC --group G",
		Short: "Print messages as a member of a consumer group, and commit them",
		Long: "Prints the payloads of a topic, one a line, and commits what is printed: the next start of the group goes on where this one\n" +
			"ended. With --broadcast the member has positions of its own and gets everything. Positions are kept in a folder of this\n" +
			"machine, one process of a group at a time.",
		Example: "  metaq consume test --group g\n" +
			"  metaq consume test --group g --idle 2s\n" +
			"  metaq consume test --group alerts --broadcast --member web1",
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return c.run(cmd, args[0])
		},
	}
	c.flags(cmd)
	f := cmd.Flags()
	f.StringVar(&c.group, "group", "", "consumer `group` (required)")
	f.BoolVar(&c.broadcast, "broadcast", false, "get every message, whatever other members there are")
	f.StringVar(&c.member, "member", "", "`name` of this member; for --broadcast the same at every start, default the host's name")
	f.StringVar(&c.offsets, "offsets", "", "`folder` of the group's positions; default below $XDG_STATE_HOME/metaq, for each server")
	f.StringVar(&c.from, "from", "earliest", "where a group without a position begins: earliest or latest")
	f.Int64Var(&c.max, "max", 0, "end after so many messages")
	f.DurationVar(&c.idle, "idle", 0, "end when nothing came for so long")
	f.BoolVar(&c.json, "json", false, "print objects: topic partition offset id attr payload")
	return cmd
}

func (c *consume) config(topic string) (client.ConsumerConfig, error) {
	cfg := client.ConsumerConfig{Group: c.group, Topics: []string{topic}, Broadcast: c.broadcast, Member: c.member}
	switch {
	case c.group == "":
		return cfg, badUsage("--group is required")
	case c.max < 0:
		return cfg, badUsage("--max %d: must not be negative", c.max)
	case c.from == "latest":
		cfg.Start = client.Latest
	case c.from != "earliest":
		return cfg, badUsage("--from %s: want earliest or latest", c.from)
	}
	dir := c.offsets
	if dir == "" {
		var err error
		if dir, err = stateDir("offsets", c.server); err != nil {
			return cfg, err
		}
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return cfg, fmt.Errorf("folder of positions: %w", err)
	}
	cfg.Offsets = client.FileOffsets(dir)
	return cfg, nil
}

func (c *consume) run(cmd *cobra.Command, topic string) (err error) {
	cfg, err := c.config(topic)
	if err != nil {
		return err
	}
	ctx := cmd.Context()
	cl, err := c.open(ctx, cmd.ErrOrStderr())
	if err != nil {
		return err
	}
	defer cl.Close()
	if _, err := cl.Partitions(ctx, topic); err != nil {
		return err
	}
	co, err := cl.Consumer(cfg)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, co.Close()) }()
	out := newPrinter(cmd.OutOrStdout(), c.json, c.max)
	return c.print(ctx, co, out)
}

// print prints batches and commits each once it is out.
func (c *consume) print(ctx context.Context, co *client.Consumer, out *printer) error {
	for {
		b, err := c.poll(ctx, co)
		if err != nil || b == nil {
			return err
		}
		next := b.Offset
		for m := range b.Messages() {
			if err = out.message(&m); err != nil && !errors.Is(err, errEnough) {
				return err
			}
			next = m.Offset + int64(m.Size())
			if err != nil {
				break
			}
		}
		enough := err != nil
		if err := out.flush(); err != nil {
			return err
		}
		co.Commit(b.Topic, b.Partition, next)
		if enough {
			return nil
		}
		b.Release()
	}
}

// poll returns nil when the time without messages is up or a signal came.
func (c *consume) poll(ctx context.Context, co *client.Consumer) (*client.Batch, error) {
	pctx, cancel := ctx, context.CancelFunc(func() {})
	if c.idle > 0 {
		pctx, cancel = context.WithTimeout(ctx, c.idle)
	}
	defer cancel()
	b, err := co.Poll(pctx)
	if pctx.Err() != nil {
		return nil, nil
	}
	return b, err
}
