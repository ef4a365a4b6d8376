package tail4go

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"path/filepath"
	"time"

	"github.com/metaq-go/metaq/internal/vfs"
)

// store keeps the positions in a folder: the newest in one file, those before them in another, and a lock. One goroutine at
// a time uses it.
type store struct {
	fsys   vfs.FS
	dir    string
	log    *slog.Logger
	lock   io.Closer
	stored []byte // lines of the entries in the newest file
}

const (
	stateName = "positions.jsonl"
	olderName = "positions.old.jsonl"
	lockName  = "lock"
)

// openStore takes the folder, making it if need be, and reads what is in it.
func openStore(fsys vfs.FS, dir string, log *slog.Logger) (*store, []entry, error) {
	if err := vfs.MkdirAllSync(fsys, dir, 0o755); err != nil {
		return nil, nil, fmt.Errorf("make the state directory: %w", err)
	}
	s := &store{fsys: fsys, dir: dir, log: log}
	lock, err := fsys.Lock(s.path(lockName))
	if errors.Is(err, vfs.ErrLocked) {
		return nil, nil, fmt.Errorf("%w: %s", ErrLocked, dir)
	}
	if err != nil {
		return nil, nil, fmt.Errorf("lock the state directory: %w", err)
	}
	s.lock = lock
	entries, err := s.load()
	if err != nil {
		return nil, nil, errors.Join(err, s.close())
	}
	return s, entries, nil
}

func (s *store) path(name string) string { return filepath.Join(s.dir, name) }

func (s *store) load() ([]entry, error) {
	entries, err := s.read(stateName)
	switch {
	case err == nil:
		return entries, nil
	case errors.Is(err, errVersion):
		return nil, err
	case errors.Is(err, fs.ErrNotExist):
		// The first start, or a crash between the two renames of save.
		entries, err = s.read(olderName)
		if errors.Is(err, fs.ErrNotExist) {
			return nil, nil
		}
		if err != nil {
			return nil, s.damaged(err)
		}
		return entries, nil
	case !errors.Is(err, ErrDamaged):
		return nil, err
	}
	older, olderErr := s.read(olderName)
	if olderErr != nil {
		return nil, s.damaged(err, olderErr)
	}
	aside := stateName + ".damaged-" + time.Now().UTC().Format("20060102T150405")
	if renameErr := s.fsys.Rename(s.path(stateName), s.path(aside)); renameErr != nil {
		return nil, fmt.Errorf("set damaged positions aside: %w", errors.Join(renameErr, err))
	}
	s.log.Error("stored positions were damaged and are set aside; those stored before them are used, some lines are sent again",
		"aside", s.path(aside), "err", err)
	return older, nil
}

func (s *store) damaged(errs ...error) error {
	return fmt.Errorf("%w; to start anew, which sends files again that were sent before, move %s and %s away",
		errors.Join(errs...), s.path(stateName), s.path(olderName))
}

// read returns the entries of one file; ErrDamaged if they can't be trusted.
func (s *store) read(name string) ([]entry, error) {
	b, err := vfs.ReadFile(s.fsys, s.path(name))
	if err != nil {
		return nil, fmt.Errorf("read positions: %w", err)
	}
	entries, err := decodeState(b)
	if errors.Is(err, errVersion) {
		return nil, fmt.Errorf("%s: %w", s.path(name), err)
	}
	if err != nil {
		return nil, fmt.Errorf("%w: %s: %w", ErrDamaged, s.path(name), err)
	}
	return entries, nil
}

// save stores entries, unless they are the stored ones.
func (s *store) save(entries []entry) error {
	lines, err := encodeEntries(entries)
	if err != nil {
		return fmt.Errorf("encode positions: %w", err)
	}
	if s.stored != nil && bytes.Equal(lines, s.stored) {
		return nil
	}
	b, err := encodeState(lines, len(entries), time.Now())
	if err != nil {
		return fmt.Errorf("encode positions: %w", err)
	}
	err = s.fsys.Rename(s.path(stateName), s.path(olderName))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("keep the positions of before: %w", err)
	}
	if err := vfs.WriteFileAtomic(s.fsys, s.path(stateName), b, 0o644); err != nil {
		return fmt.Errorf("store positions: %w", err)
	}
	s.stored = lines
	return nil
}

// close gives the folder free; twice is fine.
func (s *store) close() error {
	if s.lock == nil {
		return nil
	}
	lock := s.lock
	s.lock = nil
	return lock.Close()
}
