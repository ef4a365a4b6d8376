package store

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/metaq-go/metaq/internal/vfs"
	"github.com/metaq-go/metaq/protocol"
)

// Errors that callers decide by.
var (
	// ErrClosed means that the store takes no more appends because it is being closed.
	ErrClosed = errors.New("store is closed")
	// ErrUnsafe means that a sync failed, or that a failed write could not be undone: nobody knows what is on disk behind the
	// high-water mark. The partition takes no more appends until the store is opened again, which finds out.
	ErrUnsafe = errors.New("partition is closed for writing after a disk failure")
	// ErrBelow means that an offset lies before the first segment.
	ErrBelow = errors.New("offset is below the start of the partition")
	// ErrAbove means that an offset lies beyond the high-water mark.
	ErrAbove = errors.New("offset is above the high-water mark")
	// ErrAtEnd means that an offset is the high-water mark: there is nothing yet.
	ErrAtEnd = errors.New("no data yet at this offset")
)

// Config says where and how a Store keeps its partitions.
type Config struct {
	FS            vfs.FS        // default: the operating system's
	Dir           string        // data folder; made if missing
	BrokerID      int           // 0…1023, goes into message ids
	SegmentSize   int64         // a segment that reached it is closed and the next one begun; default 1 GiB
	Relaxed       bool          // answer appends when they are written, before they are synced
	FlushInterval time.Duration // with Relaxed: written bytes are synced at least this often; default 1 s
	MaxPending    int           // bytes a partition collects for a round before appends wait; default 4 MiB
	Log           *slog.Logger  // default: discarded
}

func (c Config) withDefaults() Config {
	if c.FS == nil {
		c.FS = vfs.OS()
	}
	c.SegmentSize = cmp.Or(c.SegmentSize, 1<<30)
	c.FlushInterval = cmp.Or(c.FlushInterval, time.Second)
	c.MaxPending = cmp.Or(c.MaxPending, 4<<20)
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	return c
}

// Store is a folder of partitions, open for reading and writing. All methods are safe for concurrent use.
type Store struct {
	cfg     Config
	lock    io.Closer
	ids     ids
	rounds  rounds
	buffers sync.Pool // *[]byte of past rounds

	making sync.Mutex // held while a partition is made, so that mu need not be; taken before mu

	mu      sync.RWMutex
	topics  map[string][]*Log // by partition number; nil where there is none
	stopped bool              // Run has ended
	created waiters
	closed  atomic.Bool
}

// Open locks the data folder, opens every partition in it and verifies the last segment of each. It returns an error
// that names the folder or file if another process holds it, or if segments do not join.
func Open(cfg Config) (*Store, error) {
	s := &Store{cfg: cfg.withDefaults(), topics: make(map[string][]*Log)}
	s.ids.broker = s.cfg.BrokerID
	s.rounds.wake = make(chan struct{}, 1)
	if s.cfg.BrokerID < 0 || s.cfg.BrokerID > protocol.MaxBrokerID {
		return nil, fmt.Errorf("broker id %d: must be 0…%d", s.cfg.BrokerID, protocol.MaxBrokerID)
	}
	tx := filepath.Join(s.cfg.Dir, "transactions")
	err := vfs.MkdirAllSync(s.cfg.FS, s.cfg.Dir, 0o755)
	if err == nil {
		err = s.cfg.FS.MkdirAll(tx, 0o755)
	}
	if err != nil {
		return nil, fmt.Errorf("data folder %s: %w", s.cfg.Dir, err)
	}
	lock, err := s.cfg.FS.Lock(filepath.Join(tx, ".lock"))
	if err != nil {
		return nil, fmt.Errorf("data folder %s: in use by another broker? %w", s.cfg.Dir, err)
	}
	s.lock = lock
	if err := s.load(); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

// Close syncs and closes all files and gives up the lock. Call it after Run has returned; twice is fine.
func (s *Store) Close() error {
	if s.closed.Swap(true) {
		return nil
	}
	var errs []error
	for _, l := range s.Logs() {
		errs = append(errs, l.close())
	}
	return errors.Join(append(errs, s.lock.Close())...)
}

// Log returns a partition, or nil if nothing was ever written to it.
func (s *Store) Log(topic []byte, partition int) *Log {
	s.mu.RLock()
	defer s.mu.RUnlock()
	logs := s.topics[string(topic)]
	if partition < 0 || partition >= len(logs) {
		return nil
	}
	return logs[partition]
}

// Partitions returns the highest partition number of a topic on disk plus one, 0 if it has none.
func (s *Store) Partitions(topic []byte) int {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return len(s.topics[string(topic)])
}

// Logs returns all partitions, sorted by topic and number.
func (s *Store) Logs() []*Log {
	s.mu.RLock()
	defer s.mu.RUnlock()
	var all []*Log
	for _, logs := range s.topics {
		for _, l := range logs {
			if l != nil {
				all = append(all, l)
			}
		}
	}
	slices.SortFunc(all, func(a, b *Log) int {
		return cmp.Or(cmp.Compare(a.topic, b.topic), cmp.Compare(a.partition, b.partition))
	})
	return all
}

// Create returns a partition and makes it, empty and starting at offset 0, if it is not there. The topic must be fit
// for a folder name (see ValidTopic), the partition 0…1048576.
func (s *Store) Create(topic string, partition int) (*Log, error) {
	if err := ValidTopic(topic); err != nil {
		return nil, err
	}
	if partition < 0 || partition > maxPartition {
		return nil, fmt.Errorf("partition %d of topic %s: must be 0…%d", partition, topic, maxPartition)
	}
	if l, err := s.existing(topic, partition); l != nil || err != nil {
		return l, err
	}
	s.making.Lock()
	defer s.making.Unlock()
	if l, err := s.existing(topic, partition); l != nil || err != nil {
		return l, err
	}
	if err := s.makeDir(filepath.Join(s.cfg.Dir, dirName(topic, partition))); err != nil {
		return nil, fmt.Errorf("partition %s-%d: %w", topic, partition, err)
	}
	l, err := s.openLog(topic, partition)
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.stopped || s.closed.Load() {
		return nil, errors.Join(ErrClosed, l.close())
	}
	s.add(l)
	s.created.all()
	return l, nil
}

// existing returns a partition, nil if it is not there, ErrClosed if no more appends are taken.
func (s *Store) existing(topic string, partition int) (*Log, error) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	if s.stopped || s.closed.Load() {
		return nil, ErrClosed
	}
	if logs := s.topics[topic]; partition < len(logs) {
		return logs[partition], nil
	}
	return nil, nil
}

func (s *Store) add(l *Log) {
	logs := s.topics[l.topic]
	for len(logs) <= l.partition {
		logs = append(logs, nil)
	}
	logs[l.partition] = l
	s.topics[l.topic] = logs
}

// NotifyCreated arranges that ch gets a token when the next partition is made. A caller looks for its partition after
// this call, so that it can't miss it.
func (s *Store) NotifyCreated(ch chan<- struct{}) {
	s.created.add(ch, func() bool { return true })
}

// Forget undoes NotifyCreated.
func (s *Store) Forget(ch chan<- struct{}) { s.created.remove(ch) }

// ValidTopic returns an error that says why, if topic can't be the name of a topic: it becomes a folder name and a
// field of a text line.
func ValidTopic(topic string) error {
	if topic == "" || len(topic) > 200 {
		return fmt.Errorf("topic name of %d bytes: must have 1 to 200", len(topic))
	}
	if topic[0] == '.' {
		return fmt.Errorf("topic %q: must not begin with a dot", topic)
	}
	for _, c := range []byte(topic) {
		if c <= ' ' || c == 0x7f || c == '/' || c == '\\' || c == '*' {
			return fmt.Errorf("topic %q: must not contain spaces, control characters, / \\ or *", topic)
		}
	}
	return nil
}

// load opens what is in the data folder. Folders that are no partitions are left alone (storage.md 1.4).
func (s *Store) load() error {
	// A process that was killed may have made folders whose names are not durable yet.
	if err := s.cfg.FS.SyncDir(s.cfg.Dir); err != nil {
		return fmt.Errorf("data folder %s: %w", s.cfg.Dir, err)
	}
	entries, err := s.cfg.FS.ReadDir(s.cfg.Dir)
	if err != nil {
		return fmt.Errorf("data folder %s: %w", s.cfg.Dir, err)
	}
	var group loading
	for _, e := range entries {
		dir, err := s.isDir(e)
		if err != nil {
			return fmt.Errorf("data folder %s: %w", s.cfg.Dir, err)
		}
		topic, partition, ok := splitDir(e.Name())
		if !dir || !ok {
			if dir && e.Name() != "transactions" {
				s.cfg.Log.Warn("folder is no partition, left alone", "dir", filepath.Join(s.cfg.Dir, e.Name()))
			}
			continue
		}
		group.add(func() error {
			l, err := s.openLog(topic, partition)
			if err != nil {
				return err
			}
			s.mu.Lock()
			s.add(l)
			s.mu.Unlock()
			return nil
		})
	}
	return group.run()
}

// isDir tells whether an entry of the data folder is a folder or a link to one, as partitions on another disk are.
func (s *Store) isDir(e fs.DirEntry) (bool, error) {
	if e.Type()&fs.ModeSymlink == 0 {
		return e.IsDir(), nil
	}
	info, err := s.cfg.FS.Stat(filepath.Join(s.cfg.Dir, e.Name()))
	if errors.Is(err, fs.ErrNotExist) {
		s.cfg.Log.Warn("link leads nowhere, left alone", "link", filepath.Join(s.cfg.Dir, e.Name()))
		return false, nil
	}
	return err == nil && info.IsDir(), err
}

// maxPartition bounds partition numbers: a folder named by a huge one must not make a huge table.
const maxPartition = 1 << 20

// splitDir splits the name of a partition's folder at its last hyphen.
func splitDir(name string) (topic string, partition int, ok bool) {
	i := len(name) - 1
	for i >= 0 && name[i] != '-' {
		i--
	}
	if i <= 0 {
		return "", 0, false
	}
	n, err := strconv.Atoi(name[i+1:])
	if err != nil || n < 0 || n > maxPartition || strconv.Itoa(n) != name[i+1:] {
		return "", 0, false
	}
	return name[:i], n, true
}

func dirName(topic string, partition int) string { return topic + "-" + strconv.Itoa(partition) }

// makeDir makes dir, if it is not there, and its name durable.
func (s *Store) makeDir(dir string) error {
	if err := s.cfg.FS.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	return s.cfg.FS.SyncDir(s.cfg.Dir)
}

// Run commits what is appended until ctx ends and everything appended by then is committed. Without it appends are
// never done. Call it once.
func (s *Store) Run(ctx context.Context) error { return s.rounds.run(ctx, s) }
