// Package demo is metaq demo: the whole way of a record on one machine, counted at every station.
//
// An application writes an access log and rotates it; the agent ships it into a topic; an ordered topology parses the
// lines and keeps them in Parquet and in SQLite, counting as it goes; a broadcast job of three members sees every record.
// At the end everything is read back and held against the files: the ledger. Everything it uses is what a user's program
// would use; nothing is simulated but the shop's customers.
package demo

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"time"
)

// Config says what to run.
type Config struct {
	Dir      string        // everything is kept below it; it must be empty or not there. Default: a temporary folder, removed at the end
	Log      string        // ship this file instead of running an application
	Time     time.Duration // how long the application runs; default 15 s
	Progress io.Writer     // a terminal for live progress; nil: none
	Logger   *slog.Logger  // default: discarded
}

// members is how many see everything in the broadcast job.
const members = 3

// Run runs the demo. The ledger is complete if the error is nil; whether it adds up is for the ledger to say.
func Run(ctx context.Context, cfg Config) (l Ledger, err error) {
	if cfg.Time == 0 {
		cfg.Time = 15 * time.Second
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	dir, cleanup, err := prepareDir(cfg.Dir)
	if err != nil {
		return l, err
	}
	defer func() { err = errors.Join(err, cleanup()) }()
	f, err := openFlow(cfg, dir)
	if err != nil {
		return l, err
	}
	defer func() { err = errors.Join(err, f.close()) }()
	if err := f.run(ctx); err != nil {
		return l, err
	}
	return f.ledger()
}

// prepareDir returns the folder of this run and what to do with it at the end.
func prepareDir(dir string) (string, func() error, error) {
	if dir == "" {
		dir, err := os.MkdirTemp("", "metaq-demo-")
		return dir, func() error { return os.RemoveAll(dir) }, err
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", nil, err
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return "", nil, err
	}
	if len(entries) > 0 {
		return "", nil, fmt.Errorf("folder %s is not empty: a ledger needs a fresh start; remove it or name another", dir)
	}
	dir, err = filepath.Abs(dir)
	return dir, func() error { return nil }, err
}
