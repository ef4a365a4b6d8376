package tail4go

import (
	"cmp"
	"context"
	"log/slog"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/metaq-go/metaq/client"
)

// input follows the files of one Input. Its scanner finds and opens them, its reader reads them and sends their lines; the
// agent's keeper asks it for what is to be stored.
type input struct {
	Input
	cfg    Config
	log    *slog.Logger
	sender Sender
	keyRE  *regexp.Regexp
	// stateDir begins the names of the agent's own files, which are never followed.
	stateDir string
	count    *counters
	wake     chan struct{} // a token: the reader has something to do

	fault   atomic.Pointer[error] // why sending fails; nil: it doesn't
	flush   atomic.Bool           // unfinished last lines are to be sent
	settled atomic.Pointer[settled]

	mu       sync.Mutex
	round    uint64 // scans made
	changes  uint64 // counts what the scanner did that the reader has to look at
	news     time.Time
	nextSeq  uint64
	files    []*file // followed, by seq; the slice is replaced, never changed
	byID     map[fileID]*file
	byName   map[string]*file  // the latest file of a first name; it may be over, see busyNames
	known    map[fileID]*entry // files that are not followed
	problems map[string]string // paths that can't be read, with the cause
	starting bool              // until a first scan has seen all files
	names    map[string]bool   // of files known before; nil after the start
	matched  int
	touched  bool // known or files changed since the last save

	blocks blockPool

	busyList []*file // the scanner's own

	// The reader's own.
	buf   []byte
	long  []byte
	msg   client.Message
	busy  int // files that are looked at often
	pause backoff
}

// settled is the reader's word that it was at the end of every file.
type settled struct {
	changes uint64
	flushed bool
}

// counters are the numbers of an agent that are not kept per file.
type counters struct {
	lines, acked, resent, rotated, truncated, lost, saveErrors atomic.Int64
}

func newInput(in Input, cfg Config, sender Sender, count *counters, entries []entry) *input {
	re, _ := in.keyPattern() // valid: the configuration was checked
	i := &input{
		Input: in, cfg: cfg, sender: sender, keyRE: re, count: count,
		log:      cfg.Logger.With("input", in.Name, "topic", in.Topic),
		stateDir: strings.TrimSuffix(cfg.StateDir, string(filepath.Separator)) + string(filepath.Separator),
		wake:     make(chan struct{}, 1),
		byID:     make(map[fileID]*file),
		byName:   make(map[string]*file),
		known:    make(map[fileID]*entry),
		names:    make(map[string]bool),

		starting: true,
		buf:      make([]byte, chunkBytes),
	}
	for k := range entries {
		e := &entries[k]
		if e.Input != in.Name {
			continue
		}
		i.known[e.id()] = e
		i.names[string(e.Path)], i.names[string(e.Now)] = true, true
		i.nextSeq = max(i.nextSeq, e.Seq+1)
	}
	return i
}

// ordered reports whether files of one name must be sent one after another.
func (in *input) ordered() bool { return in.Key != KeyNone }

// kick wakes the reader.
func (in *input) kick() {
	select {
	case in.wake <- struct{}{}:
	default:
	}
}

// failed is called by the sender for each line it could not send.
func (in *input) failed(err error) {
	in.fault.Store(&err)
	in.kick()
}

// stir makes the reader look at a file; in.mu is held.
func (in *input) stir(f *file) {
	f.stirred.Store(true)
	in.changes++
}

// follow begins with files; in.mu is held.
func (in *input) follow(files ...*file) {
	for _, f := range files {
		f.attr = newAttrText(in.cfg.Host, f.path)
		f.key = []byte(in.cfg.Host + ":" + f.path)
		f.sent.Store(f.pos.at)
		f.first = f.pos.at
		f.saved = position{at: -1}
		f.win = newWindow(f.pos, &in.blocks, in.failed)
		in.byID[f.id] = f
		in.stir(f)
	}
	slices.SortFunc(files, func(a, b *file) int { return cmp.Compare(a.seq, b.seq) })
	for _, f := range files {
		before := in.byName[f.path]
		if before != nil && before.seq > f.seq {
			continue // an old one came back
		}
		if before != nil && before.handle != nil && in.ordered() {
			f.prev = before
		}
		in.byName[f.path] = f
	}
	in.files = append(slices.Clone(in.files), files...)
	slices.SortFunc(in.files, func(a, b *file) int { return cmp.Compare(a.seq, b.seq) })
	in.touched = true
	in.news = time.Now()
}

// unfollow lets go of a file; in.mu is held.
func (in *input) unfollow(f *file) {
	in.files = slices.DeleteFunc(slices.Clone(in.files), func(g *file) bool { return g == f })
	in.count.acked.Add(f.win.mark().at - f.first)
	if in.byID[f.id] == f {
		delete(in.byID, f.id)
	}
	in.touched = true
}

// list returns the files that are followed.
func (in *input) list() []*file {
	in.mu.Lock()
	defer in.mu.Unlock()
	return in.files
}

// dirty reports whether there is something to store that was not there at the last call of entries.
func (in *input) dirty() bool {
	in.mu.Lock()
	defer in.mu.Unlock()
	return in.touched || slices.ContainsFunc(in.files, func(f *file) bool {
		return f.handle != nil && f.win.mark() != f.saved
	})
}

// maxGone bounds how many files that are gone are remembered.
const maxGone = 10_000

// entries returns what is to be stored, and forgets files that have been gone for too long.
func (in *input) entries(now time.Time) []entry {
	in.mu.Lock()
	defer in.mu.Unlock()
	in.touched = false
	list := make([]entry, 0, len(in.files)+len(in.known))
	for _, f := range in.files {
		if f.handle != nil {
			list = append(list, f.entry(in.Name))
		}
	}
	gone := make([]*entry, 0, len(in.known))
	for id, e := range in.known {
		if !e.Gone.IsZero() && now.Sub(e.Gone) > in.cfg.Retention {
			delete(in.known, id)
			continue
		}
		gone = append(gone, e)
	}
	if over := len(gone) - maxGone; over > 0 {
		slices.SortFunc(gone, func(a, b *entry) int { return a.Gone.Compare(b.Gone) })
		for _, e := range gone[:over] {
			delete(in.known, e.id())
		}
		gone = gone[over:]
	}
	for _, e := range gone {
		list = append(list, *e)
	}
	slices.SortFunc(list, func(a, b entry) int { return cmp.Compare(a.Seq, b.Seq) })
	return list
}

// isSettled reports whether the reader is at the end of every file, has sent what it found, and all is acknowledged;
// since: the last time that something new came.
func (in *input) isSettled() (ok bool, since time.Time) {
	in.mu.Lock()
	defer in.mu.Unlock()
	s := in.settled.Load()
	if in.starting || s == nil || s.changes != in.changes || in.flush.Load() && !s.flushed {
		return false, in.news
	}
	for _, f := range in.files {
		if f.win.mark().at != f.sent.Load() {
			return false, in.news
		}
	}
	return true, in.news
}

// close closes all files; nothing else may be running.
func (in *input) close() {
	in.mu.Lock()
	defer in.mu.Unlock()
	for _, f := range in.files {
		if f.handle != nil {
			_ = f.handle.Close() // was only read
		}
	}
}

// sleep waits until t, for a token of wake, or for the end of ctx, and reports whether to go on.
func (in *input) sleep(ctx context.Context, t time.Time) bool {
	timer := time.NewTimer(time.Until(t))
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-in.wake:
	case <-ctx.Done():
	}
	return ctx.Err() == nil
}
