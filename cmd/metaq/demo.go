package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/metaq-go/metaq/cmd/metaq/demo"
)

func newDemo() *cobra.Command {
	var (
		cfg     demo.Config
		seconds float64
		asJSON  bool
		verbose bool
	)
	cmd := &cobra.Command{
		Use:   "demo",
		Short: "See the whole way of a record on this machine, with a ledger at the end",
		Long: "Starts a broker, an application that writes and rotates an access log, the agent that ships it, an ordered topology that\n" +
			"keeps every line in Parquet and SQLite, and a broadcast job of three members. After --seconds, or Ctrl-C, everything that\n" +
			"was written is let through, read back, and held against the log files. Exits with 1 if the ledger does not add up.\n\n" +
			"With --log it ships an existing file instead, line by line, whatever its bytes.",
		Example: "  metaq demo\n" +
			"  metaq demo --seconds 60 --data ./demo          keep everything below ./demo\n" +
			"  metaq demo --log /var/log/syslog --json",
		RunE: func(cmd *cobra.Command, _ []string) error {
			if seconds <= 0 {
				return badUsage("--seconds %g: must be more than 0", seconds)
			}
			cfg.Time = time.Duration(seconds * float64(time.Second))
			stderr := cmd.ErrOrStderr()
			level := slog.LevelError
			if verbose {
				level = slog.LevelDebug
			}
			cfg.Logger = slog.New(slog.NewTextHandler(stderr, &slog.HandlerOptions{Level: level}))
			if isTerminal(stderr) {
				cfg.Progress = stderr
			}
			l, err := demo.Run(cmd.Context(), cfg)
			if err != nil {
				return err
			}
			if asJSON {
				err = output(json.NewEncoder(cmd.OutOrStdout()).Encode(l))
			} else {
				l.Print(cmd.OutOrStdout())
				if cfg.Dir != "" {
					fmt.Fprintf(cmd.OutOrStdout(), "everything is below %s: demo.db, parquet, logs, broker\n", l.Dir)
				}
			}
			if err == nil && !l.OK() {
				err = errors.New("the ledger does not add up")
			}
			return err
		},
	}
	f := cmd.Flags()
	f.StringVar(&cfg.Log, "log", "", "ship this `file` instead of running an application")
	f.Float64Var(&seconds, "seconds", 15, "how long the application runs")
	f.StringVar(&cfg.Dir, "data", "", "`folder` in which everything is kept; default: a temporary one that is removed")
	f.BoolVar(&asJSON, "json", false, "print the ledger as an object")
	f.BoolVarP(&verbose, "verbose", "v", false, "log to standard error")
	return cmd
}

func isTerminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}
