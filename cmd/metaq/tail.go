package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"github.com/metaq-go/metaq/client"
	"github.com/metaq-go/metaq/tail4go"
)

// tail is metaq tail: the agent.
type tail struct {
	cluster
	file, topic, state, from, key string
	exclude                       []string
	idle                          time.Duration
	keepCR                        bool
}

func newTail() *cobra.Command {
	var t tail
	cmd := &cobra.Command{
		Use:   "tail PATTERN… --topic T  |  tail -f FILE",
		Short: "Ship the lines of growing files into a topic",
		Long: "Follows the files that match, through rotation by rename, and sends every complete line as a message. Positions are stored\n" +
			"only when the broker has acknowledged, so a restart goes on where it was and loses nothing. While the broker is away the\n" +
			"files are the buffer. Quote patterns, so that the shell leaves them alone; ** stands for any folders.\n\n" +
			"A message's attribute says where its line was: host=… path=… pos=…",
		Example: "  metaq tail '/var/log/app/*.log' --topic access\n" +
			"  metaq tail 'logs/**/*.log' --topic access --key none --state /var/lib/metaq/tail\n" +
			"  metaq tail access.log --topic access --idle 2s      ship what is there, and end\n" +
			"  metaq tail -f tail.yaml",
		Args: cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			return t.run(cmd, args)
		},
	}
	t.flags(cmd)
	f := cmd.Flags()
	f.StringVarP(&t.file, "file", "f", "", "configuration `file` (YAML) instead of patterns")
	f.StringVar(&t.topic, "topic", "", "`topic` of the messages")
	f.StringVar(&t.state, "state", "", "`folder` of the positions; default below $XDG_STATE_HOME/metaq, for each server and topic")
	f.StringVar(&t.from, "from", "begin", "where to begin in files that are there at the first start: begin or end")
	f.StringVar(&t.key, "key", "file", "what keeps its order in one partition: `file`, none, or a regular expression whose first group in the line is the key")
	f.StringArrayVar(&t.exclude, "exclude", nil, "`pattern` of files to leave out, may be given again")
	f.DurationVar(&t.idle, "idle", 0, "end when everything read is acknowledged and nothing new came for so long")
	f.BoolVar(&t.keepCR, "keep-cr", false, "keep the CR of lines that end in CR LF")
	return cmd
}

// config returns the agent's configuration from flags or file.
func (t *tail) config(cmd *cobra.Command, patterns []string) (tail4go.Config, error) {
	if t.file != "" {
		if len(patterns) > 0 || cmd.Flags().Changed("topic") {
			return tail4go.Config{}, badUsage("-f %s says what to ship: leave out patterns and --topic", t.file)
		}
		return t.fromFile(cmd)
	}
	switch {
	case len(patterns) == 0:
		return tail4go.Config{}, badUsage("name the files to ship, or a configuration by -f")
	case t.topic == "":
		return tail4go.Config{}, badUsage("--topic is required")
	}
	start, err := parseStart(t.from)
	if err != nil {
		return tail4go.Config{}, badUsage("--from %s: want begin or end", t.from)
	}
	return tail4go.Config{
		Inputs:   []tail4go.Input{{Topic: t.topic, Patterns: patterns, Exclude: t.exclude, Start: start, Key: t.key}},
		StateDir: t.state, Idle: t.idle, IdlePartial: t.idle > 0, KeepCR: t.keepCR,
	}, nil
}

func parseStart(s string) (tail4go.Start, error) {
	switch s {
	case "", "begin":
		return tail4go.Begin, nil
	case "end":
		return tail4go.End, nil
	}
	return 0, fmt.Errorf("%q is neither begin nor end", s)
}

func (t *tail) run(cmd *cobra.Command, patterns []string) (err error) {
	cfg, err := t.config(cmd, patterns)
	if err != nil {
		return err
	}
	ctx, stderr := cmd.Context(), cmd.ErrOrStderr()
	cfg.Logger = t.logger(stderr)
	if cfg.StateDir == "" {
		if cfg.StateDir, err = stateDir("tail", t.server, cmp.Or(t.topic, filepath.Base(t.file))); err != nil {
			return err
		}
	}
	if err := os.MkdirAll(cfg.StateDir, 0o755); err != nil {
		return fmt.Errorf("folder of positions: %w", err)
	}
	c, err := client.New(client.Config{Servers: t.server, Log: cfg.Logger})
	if err != nil {
		return usageError{err}
	}
	defer c.Close()
	if err := c.Ping(ctx); err != nil {
		fmt.Fprintf(stderr, "metaq: %v\nThe files wait; shipping begins when a broker answers.\n", err)
	}
	// Lines wait for a broker as long as it takes, and in their order: what a lost connection leaves in doubt goes again
	// before what is behind it.
	p := c.Producer(client.ProducerConfig{Resend: true, Timeout: 365 * 24 * time.Hour})
	defer p.Close()
	defer p.Abort() // what the agent gave up waiting for comes again at its next start
	agent, err := tail4go.Open(cfg, p)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, agent.Close()) }()
	stop := reportLag(ctx, agent, stderr)
	defer stop()
	err = agent.Run(ctx)
	st := agent.Stats()
	fmt.Fprintf(stderr, "%d lines, %d bytes shipped, %d bytes wait\n", st.Lines, st.Acked, st.Lag)
	return err
}

// reportLag says from time to time how many bytes wait while nothing can be sent.
func reportLag(ctx context.Context, agent *tail4go.Agent, stderr io.Writer) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		tick := time.NewTicker(10 * time.Second)
		defer tick.Stop()
		for {
			select {
			case <-tick.C:
				if st := agent.Stats(); st.LastFailure != "" {
					fmt.Fprintf(stderr, "metaq: %d bytes wait: %s\n", st.Lag, st.LastFailure)
				}
			case <-ctx.Done():
				return
			}
		}
	}()
	return func() { cancel(); <-done }
}
