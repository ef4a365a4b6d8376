package store

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/metaq-go/metaq/internal/vfs"
)

// loading runs jobs on a few goroutines and joins their errors.
type loading struct{ jobs []func() error }

func (g *loading) add(job func() error) { g.jobs = append(g.jobs, job) }

func (g *loading) run() error {
	var (
		mu    sync.Mutex
		errs  []error
		group sync.WaitGroup
		gate  = make(chan struct{}, runtime.NumCPU()+2)
	)
	for _, job := range g.jobs {
		gate <- struct{}{}
		group.Go(func() {
			defer func() { <-gate }()
			if err := job(); err != nil {
				mu.Lock()
				errs = append(errs, err)
				mu.Unlock()
			}
		})
	}
	group.Wait()
	return errors.Join(errs...)
}

// openLog opens a partition in its folder, which has to be there.
func (s *Store) openLog(topic string, partition int) (*Log, error) {
	l := newLog(s, topic, partition, filepath.Join(s.cfg.Dir, dirName(topic, partition)))
	segs, err := s.openSegments(l.dir)
	if err != nil {
		return nil, err
	}
	l.segments.Store(&segs)
	if len(segs) == 0 {
		err = l.begin()
	} else {
		err = l.recover()
	}
	if err != nil {
		for _, seg := range *l.segments.Load() {
			err = errors.Join(err, seg.file.Close())
		}
		return nil, err
	}
	last := l.last()
	l.next = last.start + last.size
	l.end.Store(l.next)
	return l, nil
}

// begin makes the first segment of a new partition.
func (l *Log) begin() error {
	seg, err := l.createSegment(0)
	if seg != nil {
		l.addSegment(seg)
	}
	return err
}

// openSegments opens the files of a partition in order and checks that each begins where the one before it ends. Files
// of other names are left alone.
func (s *Store) openSegments(dir string) (segs []*segment, err error) {
	entries, err := s.cfg.FS.ReadDir(dir)
	if err != nil {
		return nil, fmt.Errorf("partition %s: %w", dir, err)
	}
	defer func() {
		if err != nil {
			for _, seg := range segs {
				err = errors.Join(err, seg.file.Close())
			}
		}
	}()
	for _, e := range entries {
		name := filepath.Join(dir, e.Name())
		start, ok := parseSegmentName(e.Name())
		if e.IsDir() || !ok {
			if strings.HasSuffix(name, segmentSuffix) {
				s.cfg.Log.Warn("not a segment, left alone", "file", name)
			}
			continue
		}
		f, err := s.cfg.FS.OpenFile(name, os.O_RDWR, 0)
		if err != nil {
			return segs, fmt.Errorf("segment: %w", err)
		}
		seg := &segment{start: start, name: name, file: f}
		segs = append(segs, seg)
		if seg.size, err = f.Size(); err != nil {
			return segs, fmt.Errorf("segment %s: %w", name, err)
		}
	}
	slices.SortFunc(segs, func(a, b *segment) int {
		return cmp.Or(cmp.Compare(a.start, b.start), cmp.Compare(a.size, b.size))
	})
	return s.join(segs)
}

// join checks that sorted segments join. An empty one that begins within another, or where another does, holds nothing
// and is what a crash or an unclear error left of a segment that was not begun after all: it is set aside.
func (s *Store) join(segs []*segment) ([]*segment, error) {
	for i := 1; i < len(segs); {
		a, b := segs[i-1], segs[i]
		empty := -1
		switch end := a.start + a.size; {
		case end < a.start:
			return segs, fmt.Errorf("segment %s: offsets beyond %d, not of this partition?", a.name, int64(math.MaxInt64))
		case a.size == 0 && a.start == b.start:
			empty = i - 1
		case b.size == 0 && b.start < end:
			empty = i
		case b.start != end:
			return segs, fmt.Errorf("segments do not join: %s ends at offset %d, the next is %s; "+
				"a file is missing, cut or not of this partition: restore it, or move one side away", a.name, end, b.name)
		}
		if empty < 0 {
			i++
			continue
		}
		name := segs[empty].name
		aside := asideName(s.cfg.FS, name)
		if err := errors.Join(s.cfg.FS.Rename(name, aside), segs[empty].file.Close()); err != nil {
			return segs, fmt.Errorf("set aside an empty segment: %w", err)
		}
		s.cfg.Log.Warn("empty segment that is not the last set aside", "segment", name, "file", aside)
		segs = slices.Delete(segs, empty, empty+1)
	}
	return segs, nil
}

// recover verifies the last segment and sets aside what follows its last good record.
func (l *Log) recover() error {
	seg := l.last()
	found, err := scan(seg.file, seg.size)
	if err != nil {
		return fmt.Errorf("verify %s: %w", seg.name, err)
	}
	log := l.store.cfg.Log.With("topic", l.topic, "partition", l.partition)
	if found.damaged > 0 {
		log.Error("records in the last segment do not match their checksums; they stay where they are",
			"segment", seg.name, "places", found.damaged, "offset", seg.start+found.firstDamaged)
	}
	if found.good < seg.size {
		aside, err := setAside(l.store.cfg.FS, seg.file, found.good, seg.size)
		if err != nil {
			return fmt.Errorf("set aside the torn tail of %s: %w", seg.name, err)
		}
		log.Warn("torn tail set aside", "segment", seg.name, "offset", seg.start+found.good,
			"bytes", seg.size-found.good, "file", aside, "reason", found.reason)
		seg.size = found.good
	}
	l.messages.Store(int64(found.records))
	if !l.store.ids.above(found.lastID) {
		log.Warn("a message id lies far in the future; new ids do not follow it", "id", found.lastID)
	}
	l.idsFromSealed(log)
	return l.secure()
}

// secure makes durable what was found: a process that was killed may have left bytes and names that are only in the
// system's memory, and readers are about to see them.
func (l *Log) secure() error {
	seg := l.last()
	if err := seg.file.Sync(); err != nil {
		return fmt.Errorf("sync %s: %w", seg.name, err)
	}
	if err := l.store.cfg.FS.SyncDir(l.dir); err != nil {
		return fmt.Errorf("partition %s: %w", l.dir, err)
	}
	return nil
}

// idsFromSealed makes new ids follow those of the sealed segment before an empty last one.
func (l *Log) idsFromSealed(log *slog.Logger) {
	segs := *l.segments.Load()
	if l.last().size > 0 || len(segs) == 1 {
		return
	}
	seg := segs[len(segs)-2]
	found, err := scan(seg.file, seg.size)
	if err != nil {
		log.Warn("can't read the last message ids; new ones follow the clock alone", "segment", seg.name, "err", err)
	}
	l.store.ids.above(found.lastID)
}

// asideName returns a free name under which something of a segment can be set aside: no broker takes it for a segment.
func asideName(fsys vfs.FS, segment string) string {
	at := segment + ".corrupt-" + time.Now().UTC().Format("20060102T150405.000000000")
	name := at
	for n := 2; ; n++ {
		if _, err := fsys.Stat(name); err != nil {
			return name
		}
		name = at + "-" + strconv.Itoa(n) // of an earlier start: the clock stands or stepped back
	}
}

// setAside copies the bytes from…to of a segment into a file beside it and, when the copy is safe, cuts them off. The
// cut is not durable yet.
func setAside(fsys vfs.FS, f vfs.File, from, to int64) (name string, err error) {
	name = asideName(fsys, f.Name())
	if err := copyTo(fsys, name, io.NewSectionReader(f, from, to-from)); err != nil {
		return name, err
	}
	return name, f.Truncate(from)
}

// copyTo writes r into a new file and makes content and name durable.
func copyTo(fsys vfs.FS, name string, r io.Reader) (err error) {
	out, err := fsys.OpenFile(name, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o644)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, out.Close()) }()
	if _, err := io.Copy(io.NewOffsetWriter(out, 0), r); err != nil {
		return err
	}
	if err := out.Sync(); err != nil {
		return err
	}
	return fsys.SyncDir(filepath.Dir(name))
}
