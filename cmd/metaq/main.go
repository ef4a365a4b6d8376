// Command metaq is the one binary: broker, producer, consumer, agent, and the tools around them.
//
// Each subcommand has a file of its own here; they are thin, the work is done by the packages they call. Names, flags
// and outputs are a contract that scripts rely on: results go to standard output, everything else to standard error,
// and the exit code says 0 = done, 1 = failed, 2 = wrong use, 3 = done, but something needs attention.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/metaq-go/metaq/client"
)

func main() { os.Exit(run(os.Args[1:], os.Stdin, os.Stdout, os.Stderr)) }

// Exit codes.
const (
	exitDone   = 0
	exitFailed = 1
	exitUsage  = 2
)

// usageError is an error for which the command line itself is to blame.
type usageError struct{ error }

func (e usageError) Unwrap() error { return e.error }

// outputError is an error of writing to standard output.
type outputError struct{ error }

func (e outputError) Unwrap() error { return e.error }

// output wraps an error of writing to standard output; nil stays nil.
func output(err error) error {
	if err == nil {
		return nil
	}
	return outputError{fmt.Errorf("write to standard output: %w", err)}
}

func badUsage(format string, args ...any) error { return usageError{fmt.Errorf(format, args...)} }

// run is main with everything it touches handed in, so that tests run the very same program.
func run(args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	ctx, stop := stopOnSignal()
	defer stop()
	root := newRoot()
	root.SetArgs(args)
	root.SetIn(stdin)
	root.SetOut(stdout)
	root.SetErr(stderr)
	cmd, err := root.ExecuteContextC(ctx)
	var (
		usage usageError
		out   outputError
	)
	switch {
	case err == nil:
		return exitDone
	case errors.As(err, &out) && errors.Is(out, syscall.EPIPE): // who read our output has left
		return exitDone
	case errors.As(err, &usage):
		fmt.Fprintf(stderr, "metaq: %v\nSee '%s --help'.\n", err, cmd.CommandPath())
		return exitUsage
	}
	fmt.Fprintf(stderr, "metaq: %v\n", err)
	return exitFailed
}

// stopOnSignal returns a context that ends at the first SIGINT or SIGTERM; the second one ends the process at once.
func stopOnSignal() (context.Context, func()) {
	ctx, cancel := context.WithCancel(context.Background())
	ch := make(chan os.Signal, 2)
	signal.Notify(ch, os.Interrupt, syscall.SIGTERM)
	done := make(chan struct{})
	go func() {
		select {
		case <-ch:
			cancel()
		case <-done:
			return
		}
		select {
		case <-ch:
			os.Exit(exitFailed)
		case <-done:
		}
	}()
	return ctx, func() {
		signal.Stop(ch)
		close(done)
		cancel()
	}
}

func newRoot() *cobra.Command {
	root := &cobra.Command{
		Use:   "metaq",
		Short: "A message log and everything around it, in one binary",
		Long: "metaq keeps messages in a partitioned, persistent log that speaks MetaQ's protocol, ships log files into it,\n" +
			"and carries records out of it.",
		Example: "  metaq demo                          see all of it work, in a temporary folder\n" +
			"  metaq local                         a broker with everything inside\n" +
			"  echo hello | metaq put test         send\n" +
			"  metaq get test                      read back",
		SilenceErrors: true,
		SilenceUsage:  true,
		Args:          cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return cmd.Help()
			}
			if near := cmd.SuggestionsFor(args[0]); len(near) > 0 {
				return badUsage("unknown command %q; did you mean %s?", args[0], strings.Join(near, " or "))
			}
			return badUsage("unknown command %q", args[0])
		},
	}
	root.SuggestionsMinimumDistance = 2
	root.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return usageError{err} })
	root.AddCommand(newLocal(), newPut(), newGet(), newConsume(), newTail(), newDemo(), newStats(), newVersion())
	for _, c := range root.Commands() {
		c.Args = usageArgs(c.Args)
	}
	return root
}

// usageArgs makes complaints about arguments usage errors.
func usageArgs(check cobra.PositionalArgs) cobra.PositionalArgs {
	if check == nil {
		check = cobra.NoArgs
	}
	return func(cmd *cobra.Command, args []string) error {
		if err := check(cmd, args); err != nil {
			return usageError{err}
		}
		return nil
	}
}

// cluster are the flags by which a command finds its cluster.
type cluster struct {
	server string
	log    bool
}

func (c *cluster) flags(cmd *cobra.Command) {
	def := os.Getenv("METAQ_SERVER")
	if def == "" {
		def = client.DefaultServer
	}
	cmd.Flags().StringVar(&c.server, "server", def, "`address` of a broker, meta://host:port, or several with commas ($METAQ_SERVER)")
	cmd.Flags().BoolVarP(&c.log, "verbose", "v", false, "log to standard error")
}

// open returns a client that has reached its broker.
func (c *cluster) open(ctx context.Context, stderr io.Writer) (*client.Client, error) {
	cl, err := client.New(client.Config{Servers: c.server, Log: c.logger(stderr)})
	if err != nil {
		return nil, usageError{err}
	}
	if err := cl.Ping(ctx); err != nil {
		cl.Close()
		return nil, fmt.Errorf("%w\nIs a broker running there? 'metaq local' starts one, --server names another", err)
	}
	return cl, nil
}

// logger writes warnings to w, and with --verbose everything.
func (c *cluster) logger(w io.Writer) *slog.Logger {
	level := slog.LevelWarn
	if c.log {
		level = slog.LevelDebug
	}
	return slog.New(slog.NewTextHandler(w, &slog.HandlerOptions{Level: level}))
}
