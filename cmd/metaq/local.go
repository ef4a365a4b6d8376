package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/metaq-go/metaq/broker"
)

// local is metaq local: one broker with everything inside.
type local struct {
	data, listen, zk, http string
	topics                 []string
	relaxed                bool
	id                     int
}

func newLocal() *cobra.Command {
	var l local
	cmd := &cobra.Command{
		Use:   "local",
		Short: "Run one broker with everything inside",
		Long: "Runs one broker on this machine, with nothing to install. When it can be used it prints one line, ready listen=… zk=…\n" +
			"http=… data=…, and then serves until SIGINT or SIGTERM.",
		Example: "  metaq local\n" +
			"  metaq local --topic access:4 --topic errors\n" +
			"  metaq local --data /var/lib/metaq --listen 0.0.0.0:8123\n" +
			"  metaq local --data $(mktemp -d) --listen 127.0.0.1:0 --http off",
		RunE: func(cmd *cobra.Command, _ []string) error {
			return l.run(cmd.Context(), cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	}
	f := cmd.Flags()
	f.StringVar(&l.data, "data", "./metaq-data", "`folder` of the messages")
	f.StringVar(&l.listen, "listen", "127.0.0.1:8123", "`address` for clients; port 0 takes a free one")
	f.StringVar(&l.zk, "zk", "off", "`address` of the ZooKeeper endpoint, or off; this version has none yet")
	f.StringVar(&l.http, "http", "127.0.0.1:8120", "`address` for /metrics, /healthz and /readyz, or off")
	f.StringArrayVar(&l.topics, "topic", nil, "`NAME[:PARTITIONS]` of a topic that is taken, may be given again; without it any topic is made at its first put")
	f.BoolVar(&l.relaxed, "relaxed", false, "acknowledge messages before they are synced to disk: a power cut may lose the last second")
	f.IntVar(&l.id, "id", 0, "broker `id`, 0 to 1023")
	return cmd
}

// config checks the flags.
func (l *local) config(stderr io.Writer) (broker.Config, error) {
	cfg := broker.Config{
		Dir: l.data, Addr: l.listen, BrokerID: l.id, Relaxed: l.relaxed, Topics: make(map[string]int),
		Log: slog.New(slog.NewTextHandler(stderr, nil)),
	}
	if l.http != "off" {
		cfg.HTTP = l.http
	}
	if l.zk != "off" {
		return cfg, badUsage("--zk %s: this version has no ZooKeeper endpoint yet; leave it out", l.zk)
	}
	if l.id < 0 || l.id > 1023 {
		return cfg, badUsage("--id %d: must be 0 to 1023", l.id)
	}
	for _, t := range l.topics {
		name, count, found := strings.Cut(t, ":")
		n := 1
		if found {
			var err error
			if n, err = strconv.Atoi(count); err != nil || n < 1 {
				return cfg, badUsage("--topic %s: want NAME:PARTITIONS with at least one partition", t)
			}
		}
		if _, ok := cfg.Topics[name]; ok {
			return cfg, badUsage("--topic %s: given twice", name)
		}
		cfg.Topics[name] = n
	}
	return cfg, nil
}

func (l *local) run(ctx context.Context, stdout, stderr io.Writer) (err error) {
	cfg, err := l.config(stderr)
	if err != nil {
		return err
	}
	b, err := broker.Open(cfg)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, b.Close()) }()
	http := "off"
	if a := b.HTTPAddr(); a != nil {
		http = a.String()
	}
	data, err := filepath.Abs(l.data)
	if err != nil {
		return err
	}
	if _, err := fmt.Fprintf(stdout, "ready listen=%s zk=%s http=%s data=%s\n", b.Addr(), l.zk, http, data); err != nil {
		return output(err)
	}
	return b.Run(ctx)
}
