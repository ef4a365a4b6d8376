package file

import (
	"fmt"
	"log/slog"
	"path/filepath"
	"strings"
	"time"

	"github.com/metaq-go/metaq/internal/vfs"
)

// Config says where a sink writes and what. The zero Config writes JSON lines to the working directory.
type Config[T any] struct {
	// Dir is the folder; it is made if need be. Default: the working directory.
	Dir string
	// Prefix begins the names of the files. Sinks that share a folder need different prefixes. Default "rows".
	Prefix string
	// Ext ends the names of finished files. Default ".jsonl".
	Ext string
	// MaxBytes is when a file is finished: before the batch that would make it larger. A batch is never divided, so
	// a larger one makes a larger file. Default 128 MiB.
	MaxBytes int64
	// MaxAge is how long after its first row a file is finished, whether or not more rows come. Default 1 h; negative: never.
	MaxAge time.Duration
	// Encode appends a row to dst, without a line feed at the end, and returns the extended slice. An error goes to the
	// dead letters, the tuple with it. A row must hold neither line feeds nor zero bytes. Encode is called by one goroutine at a
	// time. Default: encoding/json without HTML escapes, which refuses invalid UTF-8 instead of replacing it.
	Encode func(dst []byte, v T) ([]byte, error)
	// FS is the file system. Default: the operating system's.
	FS vfs.FS
	// Logger hears of files finished after a crash and of what was set aside. Default: discard.
	Logger *slog.Logger
}

func (c Config[T]) withDefaults() Config[T] {
	if c.Dir == "" {
		c.Dir = "."
	}
	if c.Prefix == "" {
		c.Prefix = "rows"
	}
	if c.Ext == "" {
		c.Ext = ".jsonl"
	}
	if c.MaxBytes == 0 {
		c.MaxBytes = 128 << 20
	}
	if c.MaxAge == 0 {
		c.MaxAge = time.Hour
	}
	if c.FS == nil {
		c.FS = vfs.OS()
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	return c
}

func (c Config[T]) check() error {
	switch {
	case filepath.Base(c.Prefix) != c.Prefix || strings.HasPrefix(c.Prefix, "."):
		return fmt.Errorf("prefix %q: must be the beginning of a file name and not begin with a dot", c.Prefix)
	case !strings.HasPrefix(c.Ext, ".") || filepath.Base("x"+c.Ext) != "x"+c.Ext || c.Ext == partExt || c.Ext == tornExt:
		return fmt.Errorf("extension %q: must begin with a dot, be part of a file name, and be neither %s nor %s", c.Ext, partExt, tornExt)
	case c.MaxBytes < 0:
		return fmt.Errorf("MaxBytes %d: can't be negative", c.MaxBytes)
	}
	return nil
}
