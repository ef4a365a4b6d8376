package file

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"sync"
	"time"

	"github.com/metaq-go/metaq/internal/vfs"
	"github.com/metaq-go/metaq/pipeline"
)

// Sink writes rows of type T to files. Open makes one. Write and Size are for one goroutine at a time; Close and Stats may be
// called from any.
type Sink[T any] struct {
	cfg    Config[T]
	names  names
	encode encoder[T]
	lock   io.Closer
	buf    []byte // Write's

	mu     sync.Mutex
	part   *part     // the unfinished file, if there is one
	latest time.Time // newest stamp given to a file
	aging  aging
	stats  Stats
	closed bool
}

// Stats is what a sink has done since it was opened.
type Stats struct {
	Rows      int64 // stored
	Bytes     int64 // stored
	Files     int64 // published
	Recovered int64 // of Files: left unfinished by a crash
	Torn      int64 // bytes set aside after a crash
}

// Open takes the folder and prefix for the sink, and finishes the file that a crash may have left there. The error
// is vfs.ErrLocked while another sink has them, in this process or in another.
func Open[T any](cfg Config[T]) (*Sink[T], error) {
	cfg = cfg.withDefaults()
	what := filepath.Join(cfg.Dir, cfg.Prefix)
	if err := cfg.check(); err != nil {
		return nil, fmt.Errorf("open file sink %s: %w", what, err)
	}
	if err := vfs.MkdirAllSync(cfg.FS, cfg.Dir, 0o755); err != nil {
		return nil, fmt.Errorf("open file sink %s: %w", what, err)
	}
	s := &Sink[T]{cfg: cfg, names: names{cfg.Prefix, cfg.Ext}, encode: encoderOf(cfg.Encode)}
	lock, err := cfg.FS.Lock(filepath.Join(cfg.Dir, s.names.lock()))
	if err != nil {
		return nil, fmt.Errorf("open file sink %s: %w", what, err)
	}
	r := recovery{fsys: cfg.FS, dir: cfg.Dir, names: s.names, log: cfg.Logger}
	if err := r.run(); err != nil {
		return nil, errors.Join(fmt.Errorf("open file sink %s: %w", what, err), lock.Close())
	}
	s.lock, s.latest = lock, r.latest
	s.stats = Stats{Files: r.files, Recovered: r.files, Torn: r.torn}
	return s, nil
}

// Write appends the rows of a batch and returns nil when they are durable. The error is pipeline.Permanent if a row can't be
// encoded; then none is stored.
func (s *Sink[T]) Write(ctx context.Context, batch []T) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	s.buf = s.buf[:0]
	for i := range batch {
		var err error
		if s.buf, err = s.encode.line(s.buf, &batch[i]); err != nil {
			return pipeline.Permanent(fmt.Errorf("encode a row for %s: %w", s.what(), err))
		}
	}
	if len(batch) == 0 {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return fmt.Errorf("write to %s: the sink is closed", s.what())
	}
	if err := s.store(); err != nil {
		return fmt.Errorf("write to %s: %w", s.what(), err)
	}
	s.stats.Rows += int64(len(batch))
	s.stats.Bytes += int64(len(s.buf))
	if s.part.size >= s.cfg.MaxBytes {
		if err := s.publish(); err != nil { // the batch is stored: Write must not fail; the next one tries again
			s.complain(err)
		}
	}
	return nil
}

func (s *Sink[T]) what() string { return filepath.Join(s.cfg.Dir, s.cfg.Prefix) }

// retry is how soon a file that could not be published is tried again without a Write.
const retry = 10 * time.Second

// complain is for a failure to publish that nobody can be told of.
func (s *Sink[T]) complain(err error) {
	s.cfg.Logger.Warn("a file can't be published, it will be tried again", "file", s.part.path(), "err", err)
	s.aging.stop()
	s.aging.start(retry, s.expire)
}

// store appends buf to the unfinished file, or to a new one if it is too much for that.
func (s *Sink[T]) store() error {
	if p := s.part; p != nil {
		full := p.size > 0 && p.size+int64(len(s.buf)) > s.cfg.MaxBytes
		if full || p.file == nil { // without file: it could not be published before
			if err := s.publish(); err != nil {
				return err
			}
		}
	}
	if s.part == nil {
		stamp := time.Now()
		if !stamp.After(s.latest) {
			stamp = s.latest.Add(1)
		}
		s.latest = stamp
		p, err := createPart(s.cfg.FS, s.cfg.Dir, s.names, stamp)
		if err != nil {
			return err
		}
		s.part = p
	}
	if err := s.part.append(s.buf); err != nil {
		return err
	}
	if s.cfg.MaxAge > 0 && !s.aging.running() {
		s.aging.start(s.cfg.MaxAge, s.expire)
	}
	return nil
}

// publish finishes the unfinished file.
func (s *Sink[T]) publish() error {
	if err := s.part.publish(); err != nil {
		return fmt.Errorf("publish %s: %w", s.part.path(), err)
	}
	s.part = nil
	s.aging.stop()
	s.stats.Files++
	return nil
}

// expire publishes the unfinished file because of its age.
func (s *Sink[T]) expire(number int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.aging.fired(number) {
		return
	}
	if err := s.publish(); err != nil {
		s.complain(err)
	}
}

// Size returns the bytes of a row's line, for pipeline.BatchBytes; it encodes the row.
func (s *Sink[T]) Size(v T) int {
	s.buf, _ = s.encode.line(s.buf[:0], &v)
	return len(s.buf)
}

// Stats returns what was done so far.
func (s *Sink[T]) Stats() Stats {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.stats
}

// Close publishes the unfinished file and gives the folder free. If that fails nothing is lost: the next Open does it. Close may
// be called twice.
func (s *Sink[T]) Close(context.Context) error {
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		return nil
	}
	s.closed = true
	s.aging.stop()
	var err error
	if p := s.part; p != nil {
		if p.size > 0 {
			err = s.publish()
		} else {
			err = p.discard()
		}
		if p.file != nil {
			err = errors.Join(err, p.file.Close())
		}
	}
	err = errors.Join(err, s.lock.Close())
	s.mu.Unlock()
	s.aging.wait()
	if err != nil {
		return fmt.Errorf("close file sink %s: %w", s.what(), err)
	}
	return nil
}
