package parquet

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"sync"
	"time"

	pq "github.com/parquet-go/parquet-go"
	"github.com/parquet-go/parquet-go/compress/zstd"

	"github.com/metaq-go/metaq/internal/vfs"
	"github.com/metaq-go/metaq/pipeline"
)

// Sink writes batches of type T to Parquet files. Open makes one. It is used by one goroutine at a time, but
// for Stats.
type Sink[T any] struct {
	cfg    Config
	prefix prefix
	plan   plan
	lock   io.Closer
	writer *pq.GenericWriter[T] // nil: to be made

	latest time.Time // newest stamp given to a file
	failed string    // a file of a batch that was not acknowledged, which has to go before anything else is written
	closed bool

	mu    sync.Mutex
	stats Stats
}

// Stats is what a sink has done since it was opened.
type Stats struct {
	Rows    int64 // stored
	Bytes   int64 // of the files published
	Files   int64 // published
	Removed int64 // temporary files that a crash had left
}

// Open takes the folder and prefix for the sink, and removes temporary files of the same prefix that a crash may have left: what
// they hold was never acknowledged. It returns an error if T can't be stored without changes, and vfs.ErrLocked
// while another sink has folder and prefix, in this process or in another.
func Open[T any](cfg Config) (s *Sink[T], err error) {
	cfg = cfg.withDefaults()
	s = &Sink[T]{cfg: cfg, prefix: prefix(cfg.Prefix)}
	defer func() {
		if err != nil {
			s, err = nil, fmt.Errorf("open parquet sink %s: %w", filepath.Join(cfg.Dir, cfg.Prefix), err)
		}
	}()
	if err := cfg.check(); err != nil {
		return nil, err
	}
	if s.plan, err = planOf(reflect.TypeFor[T]()); err != nil {
		return nil, err
	}
	if err := s.makeWriter(); err != nil {
		return nil, err
	}
	if err := vfs.MkdirAllSync(cfg.FS, cfg.Dir, 0o755); err != nil {
		return nil, err
	}
	if s.lock, err = cfg.FS.Lock(filepath.Join(cfg.Dir, s.prefix.lock())); err != nil {
		return nil, err
	}
	if err := s.clean(); err != nil {
		return nil, errors.Join(err, s.lock.Close())
	}
	return s, nil
}

// clean removes temporary files. They are ours: the lock is held, and nobody else gives a file such a name.
func (s *Sink[T]) clean() error {
	entries, err := s.cfg.FS.ReadDir(s.cfg.Dir)
	if err != nil {
		return err
	}
	for _, e := range entries {
		stamp, part, ok := s.prefix.stamp(e.Name())
		if !ok || !e.Type().IsRegular() {
			continue
		}
		if stamp.After(s.latest) {
			s.latest = stamp
		}
		if !part {
			continue
		}
		if err := s.cfg.FS.Remove(filepath.Join(s.cfg.Dir, e.Name())); err != nil {
			return err
		}
		s.stats.Removed++
		s.cfg.Logger.Info("unfinished file left by a crash is removed", "file", filepath.Join(s.cfg.Dir, e.Name()))
	}
	return nil
}

// makeWriter makes the writer, which is used for one file after the other.
func (s *Sink[T]) makeWriter() (err error) {
	defer func() {
		if p := recover(); p != nil { // how parquet-go says that it doesn't like a type or tag
			err = fmt.Errorf("%v: %v", reflect.TypeFor[T](), p)
		}
	}()
	level := map[Level]zstd.Level{
		Normal: zstd.SpeedDefault, Fastest: zstd.SpeedFastest, Better: zstd.SpeedBetterCompression, Best: zstd.SpeedBestCompression,
	}[s.cfg.Level]
	options := []pq.WriterOption{
		pq.Compression(&zstd.Codec{Level: level}), pq.MaxRowsPerRowGroup(int64(s.cfg.RowGroup)), pq.WriteBufferSize(256 << 10),
	}
	for k, v := range s.cfg.Metadata {
		options = append(options, pq.KeyValueMetadata(k, v))
	}
	s.writer = pq.NewGenericWriter[T](io.Discard, options...)
	return nil
}

// Write stores a batch in a file of its own and returns nil when that is durable under its final name. The error is
// pipeline.Permanent if a row can't be stored; then none is.
func (s *Sink[T]) Write(ctx context.Context, batch []T) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if s.closed {
		return fmt.Errorf("write to %s: the sink is closed", s.what())
	}
	if len(batch) == 0 {
		return nil
	}
	if s.plan.check != nil {
		for i := range batch {
			if err := s.plan.check(reflect.ValueOf(&batch[i]).Elem()); err != nil {
				return pipeline.Permanent(fmt.Errorf("write to %s: %w", s.what(), err))
			}
		}
	}
	n, err := s.store(batch)
	if err != nil {
		return fmt.Errorf("write to %s: %w", s.what(), err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.stats.Rows += int64(len(batch))
	s.stats.Bytes += n
	s.stats.Files++
	return nil
}

func (s *Sink[T]) what() string { return filepath.Join(s.cfg.Dir, s.cfg.Prefix) }

func (s *Sink[T]) path(name string) string { return filepath.Join(s.cfg.Dir, name) }

// store writes the file and publishes it.
func (s *Sink[T]) store(batch []T) (n int64, err error) {
	if err := s.undo(); err != nil {
		return 0, fmt.Errorf("remove the file of a write that failed: %w", err)
	}
	stamp, err := s.freeStamp()
	if err != nil {
		return 0, err
	}
	part, finished := s.path(s.prefix.part(stamp)), s.path(s.prefix.finished(stamp))
	if n, err = s.writePart(part, batch); err != nil {
		return 0, err
	}
	s.failed = finished // until it is known to have worked: a rename that fails may have happened
	if err := s.cfg.FS.Rename(part, finished); err != nil {
		return 0, errors.Join(err, s.remove(part), s.undo())
	}
	if err := s.cfg.FS.SyncDir(s.cfg.Dir); err != nil {
		return 0, errors.Join(err, s.undo())
	}
	s.failed = ""
	return n, nil
}

// undo takes back a file whose batch will be written again.
func (s *Sink[T]) undo() error {
	if s.failed == "" {
		return nil
	}
	err := s.remove(s.failed)
	if err == nil {
		s.failed = ""
	}
	return err
}

// remove is fine if the file isn't there: a reader may have taken it.
func (s *Sink[T]) remove(name string) error {
	err := s.cfg.FS.Remove(name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// freeStamp returns a time for the name of a file, later than all others, under which there is no file.
func (s *Sink[T]) freeStamp() (time.Time, error) {
	stamp := time.Now()
	if !stamp.After(s.latest) {
		stamp = s.latest.Add(1)
	}
	for {
		s.latest = stamp
		_, err := s.cfg.FS.Stat(s.path(s.prefix.finished(stamp)))
		if errors.Is(err, fs.ErrNotExist) {
			return stamp, nil
		}
		if err != nil {
			return time.Time{}, err
		}
		stamp = stamp.Add(1)
	}
}

// writePart writes the temporary file, durable but for its name, or none.
func (s *Sink[T]) writePart(name string, batch []T) (n int64, err error) {
	f, err := s.cfg.FS.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if err != nil {
		if !errors.Is(err, fs.ErrExist) { // it may have been made all the same
			err = errors.Join(err, s.remove(name))
		}
		return 0, err
	}
	err = s.encode(f, batch)
	if err == nil {
		n, err = f.Size()
	}
	if err == nil {
		err = f.Sync()
	}
	err = errors.Join(err, f.Close())
	if err != nil {
		err = errors.Join(err, s.remove(name)) // what stays after a crash, or if this fails, the next Open removes
	}
	return n, err
}

// encode writes the batch as Parquet. After an error the writer is made anew: nobody knows what it holds.
func (s *Sink[T]) encode(f vfs.File, batch []T) (err error) {
	if s.writer == nil {
		if err := s.makeWriter(); err != nil {
			return err
		}
	}
	defer func() {
		if p := recover(); p != nil { // the same rows would do it again
			err = pipeline.Permanent(fmt.Errorf("parquet-go panicked: %v", p))
		}
		if err != nil {
			s.writer = nil
		}
	}()
	s.writer.Reset(io.NewOffsetWriter(f, 0))
	if _, err := s.writer.Write(batch); err != nil {
		return err
	}
	return s.writer.Close()
}

// Size estimates the bytes of a row before encoding, for pipeline.BatchBytes.
func (s *Sink[T]) Size(v T) int { return s.plan.size(reflect.ValueOf(&v).Elem()) }

// Stats returns what was done so far. It may be called from any goroutine.
func (s *Sink[T]) Stats() Stats {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.stats
}

// Close gives the folder free. It may be called twice.
func (s *Sink[T]) Close(context.Context) error {
	if s.closed {
		return nil
	}
	s.closed = true
	if err := errors.Join(s.undo(), s.lock.Close()); err != nil {
		return fmt.Errorf("close parquet sink %s: %w", s.what(), err)
	}
	return nil
}
