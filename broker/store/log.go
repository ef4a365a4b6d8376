package store

import (
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/metaq-go/metaq/protocol"
)

// Log is one partition. All methods are safe for concurrent use.
type Log struct {
	store     *Store
	topic     string
	partition int
	dir       string

	// What readers see. end is moved after segments, so whoever loads end first finds every offset below it.
	segments atomic.Pointer[[]*segment]
	end      atomic.Int64 // high-water mark: offset behind the last readable byte
	messages atomic.Int64
	grown    waiters

	// What appenders share, under mu.
	mu      sync.Mutex
	room    *sync.Cond // the round was taken, or failed
	pending []byte     // records of the round being collected
	count   int        // records in pending
	commit  *Commit    // of that round; nil while pending is empty
	next    int64      // offset behind pending
	queued  bool       // the log is in the committer's queue
	closed  error      // why appends are refused; nil while they are not

	// What only the committer touches.
	unsynced bool // written since the last sync (relaxed)
	failing  bool // the last round failed
}

func newLog(s *Store, topic string, partition int, dir string) *Log {
	l := &Log{store: s, topic: topic, partition: partition, dir: dir}
	l.room = sync.NewCond(&l.mu)
	return l
}

// Topic returns the topic's name.
func (l *Log) Topic() string { return l.topic }

// Partition returns the partition's number.
func (l *Log) Partition() int { return l.partition }

// Start returns the offset of the first byte that is there.
func (l *Log) Start() int64 { return (*l.segments.Load())[0].start }

// End returns the high-water mark: the offset behind the last byte that may be read.
func (l *Log) End() int64 { return l.end.Load() }

// Messages returns how many records were found in the last segment at opening or appended since.
func (l *Log) Messages() int64 { return l.messages.Load() }

// Err returns why the partition takes no appends, or nil.
func (l *Log) Err() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.closed
}

// Appended says where an append will be once its Commit is done without an error.
type Appended struct {
	ID     int64 // of the first record; the others follow as protocol.NextID says
	Offset int64 // of the first record
	Commit *Commit
}

// Append adds n whole, verified records (protocol.CheckRecords) as one contiguous run and gives them ids; records is
// copied. It waits while the round being collected is full. It returns ErrClosed or ErrUnsafe; other faults show in the
// Commit.
func (l *Log) Append(records []byte, n int) (Appended, error) {
	l.mu.Lock()
	for l.closed == nil && len(l.pending) > 0 && len(l.pending)+len(records) > l.store.cfg.MaxPending {
		l.room.Wait()
	}
	if l.closed != nil {
		defer l.mu.Unlock()
		return Appended{}, fmt.Errorf("append %s: %w", dirName(l.topic, l.partition), l.closed)
	}
	if l.commit == nil {
		l.commit = new(Commit)
		l.pending = l.store.buffer()
	}
	a := Appended{ID: l.store.ids.reserve(n), Offset: l.next, Commit: l.commit}
	at := len(l.pending)
	l.pending = append(l.pending, records...)
	protocol.StampIDs(l.pending[at:], a.ID)
	l.next += int64(len(records))
	l.count += n
	if !l.queued { // under the lock: whoever refuses appends then finds all earlier ones in the queue
		l.queued = true
		l.store.rounds.add(l)
	}
	l.mu.Unlock()
	return a, nil
}

// Notify arranges that ch gets a token when the high-water mark passes offset. It reports false, and arranges nothing,
// if it has.
func (l *Log) Notify(offset int64, ch chan<- struct{}) bool {
	return l.grown.add(ch, func() bool { return l.end.Load() <= offset })
}

// Forget undoes Notify.
func (l *Log) Forget(ch chan<- struct{}) { l.grown.remove(ch) }

// round is what one partition has to commit.
type round struct {
	log     *Log
	commit  *Commit
	records []byte
	count   int
	err     error
}

// take ends the collecting of a round.
func (l *Log) take() round {
	l.mu.Lock()
	defer l.mu.Unlock()
	r := round{log: l, commit: l.commit, records: l.pending, count: l.count}
	l.pending, l.count, l.commit, l.queued = nil, 0, nil, false
	l.room.Broadcast()
	return r
}

// abort fails a round, if r has one, and the one collected meanwhile, whose offsets build on it, and makes offsets start
// over at the high-water mark. A closed that is not nil refuses all appends from now on.
func (l *Log) abort(r round, closed error) {
	l.mu.Lock()
	next := l.commit
	l.store.recycle(l.pending)
	l.pending, l.count, l.commit = nil, 0, nil
	l.next = l.end.Load()
	if closed != nil {
		l.closed = closed
	}
	l.room.Broadcast()
	l.mu.Unlock()
	if r.commit != nil {
		r.commit.finish(r.err)
	}
	if next != nil {
		next.finish(r.err)
	}
}

// publish makes a round readable.
func (l *Log) publish(r round) {
	l.messages.Add(int64(r.count))
	l.end.Add(int64(len(r.records)))
	l.grown.all()
	r.commit.finish(nil)
}

// refuse closes the partition for appends.
func (l *Log) refuse(why error) {
	l.mu.Lock()
	if l.closed == nil {
		l.closed = why
	}
	l.room.Broadcast()
	l.mu.Unlock()
}
