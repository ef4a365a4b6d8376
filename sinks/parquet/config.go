package parquet

import (
	"fmt"
	"log/slog"
	"path/filepath"
	"strings"

	"github.com/metaq-go/metaq/internal/vfs"
)

// Config says where a sink writes and how. The zero Config writes to the working directory.
type Config struct {
	// Dir is the folder; it is made if need be. Default: the working directory.
	Dir string
	// Prefix begins the names of the files. Sinks that share a folder need different prefixes. Default "rows".
	Prefix string
	// RowGroup is how many rows a row group has at most: what is held in memory, encoded, until it is written, and what readers
	// skip or take in parallel. Default 131072.
	RowGroup int
	// Level is how much time compression may take. Default Normal.
	Level Level
	// Metadata is put into the footer of each file.
	Metadata map[string]string
	// FS is the file system. Default: the operating system's.
	FS vfs.FS
	// Logger hears of temporary files that a crash left. Default: discard.
	Logger *slog.Logger
}

// Level is a level of zstd, by which all columns are compressed whose tags don't name something else.
type Level uint8

// The levels, with those of the zstd program that they are close to.
const (
	Normal  Level = iota // 3
	Fastest              // 1
	Better               // 7
	Best                 // 11
)

func (c Config) withDefaults() Config {
	if c.Dir == "" {
		c.Dir = "."
	}
	if c.Prefix == "" {
		c.Prefix = "rows"
	}
	if c.RowGroup == 0 {
		c.RowGroup = 128 << 10
	}
	if c.FS == nil {
		c.FS = vfs.OS()
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	return c
}

func (c Config) check() error {
	switch {
	case filepath.Base(c.Prefix) != c.Prefix || strings.HasPrefix(c.Prefix, "."):
		return fmt.Errorf("prefix %q: must be the beginning of a file name and not begin with a dot", c.Prefix)
	case c.RowGroup < 1:
		return fmt.Errorf("RowGroup %d: must be at least 1", c.RowGroup)
	case c.Level > Best:
		return fmt.Errorf("there is no level %d", c.Level)
	}
	return nil
}
