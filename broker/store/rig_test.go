package store_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"go.uber.org/goleak"

	"github.com/metaq-go/metaq/broker/store"
	"github.com/metaq-go/metaq/internal/vfs"
	"github.com/metaq-go/metaq/internal/vfs/faultfs"
	"github.com/metaq-go/metaq/protocol"
)

func TestMain(m *testing.M) {
	if child() {
		return
	}
	goleak.VerifyTestMain(m)
}

const dir = "/data"

// rounds is how many times longer than usual random tests shall run.
func rounds(t testing.TB) int {
	n, err := strconv.Atoi(cmp.Or(os.Getenv("METAQ_ROUNDS"), "1"))
	check(t, err)
	return n
}

func check(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// rig is a store whose rounds the test carries out itself.
type rig struct {
	*store.Store
	*store.Hand
	t testing.TB
}

// open opens a store, by default in a memory of its own. It is closed at the end of the test.
func open(t testing.TB, cfg store.Config) *rig {
	t.Helper()
	if cfg.FS == nil {
		cfg.FS = vfs.NewMem()
	}
	if cfg.Dir == "" {
		cfg.Dir = dir
	}
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.NewTextHandler(t.Output(), nil))
	}
	s, err := store.Open(cfg)
	check(t, err)
	t.Cleanup(func() { s.Close() })
	return &rig{Store: s, Hand: store.ByHand(s), t: t}
}

// start opens a store with its committer running. stop ends it, without closing the store.
func start(t testing.TB, cfg store.Config) (r *rig, stop func()) {
	t.Helper()
	r = open(t, cfg)
	r.Hand = nil
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- r.Run(ctx) }()
	stopped := false
	stop = func() {
		if stopped {
			return
		}
		stopped = true
		cancel()
		if err := <-done; err != nil {
			t.Errorf("Run: %v", err)
		}
	}
	t.Cleanup(stop)
	return r, stop
}

// log returns partition p of topic t.
func (r *rig) log(p int) *store.Log {
	r.t.Helper()
	l, err := r.Create("t", p)
	check(r.t, err)
	return l
}

// run is what was appended at once.
type run struct {
	store.Appended
	data []byte // as it is stored
	n    int
}

// end is the offset behind the run.
func (a run) end() int64 { return a.Offset + int64(len(a.data)) }

// err returns the fate of a run whose round is over.
func (a run) err(t testing.TB) error {
	t.Helper()
	done, err := a.Commit.Done()
	if !done {
		t.Fatal("the round is not over")
	}
	return err
}

// append appends one record for each body.
func appendTo(l *store.Log, bodies ...string) (run, error) {
	var data []byte
	for _, b := range bodies {
		data = protocol.AppendMessage(data, 0, nil, []byte(b))
	}
	return appendRecords(l, data, len(bodies))
}

func appendRecords(l *store.Log, data []byte, n int) (run, error) {
	a, err := l.Append(data, n)
	if err == nil {
		protocol.StampIDs(data, a.ID)
	}
	return run{Appended: a, data: data, n: n}, err
}

// append appends one record for each body.
func (r *rig) append(l *store.Log, bodies ...string) run {
	r.t.Helper()
	a, err := appendTo(l, bodies...)
	check(r.t, err)
	return a
}

// put appends and commits.
func (r *rig) put(l *store.Log, bodies ...string) run {
	r.t.Helper()
	a := r.append(l, bodies...)
	r.Commit()
	check(r.t, a.err(r.t))
	return a
}

// readAll returns everything from offset to the high-water mark, read in pieces of limit bytes.
func readAll(l *store.Log, offset int64, limit int) ([]byte, error) {
	var all []byte
	for {
		chunk, err := l.Locate(offset+int64(len(all)), limit)
		if errors.Is(err, store.ErrAtEnd) {
			return all, nil
		}
		if err != nil {
			return all, err
		}
		if chunk.Len() < 1 || chunk.Len() > limit {
			return all, fmt.Errorf("chunk of %d bytes, want 1…%d", chunk.Len(), limit)
		}
		if all, err = chunk.AppendTo(all); err != nil {
			return all, err
		}
	}
}

// wantLog checks that the partition holds exactly the runs.
func wantLog(t testing.TB, l *store.Log, runs ...run) {
	t.Helper()
	got, err := readAll(l, l.Start(), math.MaxInt)
	check(t, err)
	var want []byte
	for _, a := range runs {
		if off := l.Start() + int64(len(want)); a.Offset != off {
			t.Errorf("run of id %d said to be at offset %d, want %d", a.ID, a.Offset, off)
		}
		want = append(want, a.data...)
	}
	if string(got) != string(want) {
		t.Errorf("partition %s-%d holds %d bytes\n%s\nwant %d bytes\n%s", l.Topic(), l.Partition(), len(got), brief(got), len(want), brief(want))
	}
	if l.End() != l.Start()+int64(len(want)) {
		t.Errorf("end is %d, want %d", l.End(), l.Start()+int64(len(want)))
	}
}

// brief shows records.
func brief(data []byte) string {
	var b strings.Builder
	for pos, r := range protocol.Records(data) {
		fmt.Fprintf(&b, "%d: id %d, %d bytes %.20q\n", pos, r.ID, len(r.Body), r.Body)
		if b.Len() > 4000 {
			return b.String() + "…"
		}
	}
	return b.String()
}

// records returns n records of size bytes each, headers included.
func records(n, size int) (data []byte, bodies []string) {
	for i := range n {
		body := strings.Repeat(string(rune('a'+i%26)), size-protocol.HeaderSize)
		bodies = append(bodies, body)
		data = protocol.AppendMessage(data, 0, nil, []byte(body))
	}
	return data, bodies
}

// names returns what is in a folder, as "name size" or "name/".
func names(t testing.TB, fsys vfs.FS, dir string) []string {
	t.Helper()
	entries, err := fsys.ReadDir(dir)
	check(t, err)
	var all []string
	for _, e := range entries {
		if e.IsDir() {
			all = append(all, e.Name()+"/")
			continue
		}
		info, err := e.Info()
		check(t, err)
		all = append(all, fmt.Sprintf("%s %d", e.Name(), info.Size()))
	}
	return all
}

// write makes a file and the folders above it.
func write(t testing.TB, fsys vfs.FS, name string, data []byte) {
	t.Helper()
	check(t, fsys.MkdirAll(filepath.Dir(name), 0o755))
	check(t, vfs.WriteFileAtomic(fsys, name, data, 0o644))
}

func read(t testing.TB, fsys vfs.FS, name string) []byte {
	t.Helper()
	data, err := vfs.ReadFile(fsys, name)
	check(t, err)
	return data
}

func exists(fsys vfs.FS, name string) bool {
	_, err := fsys.Stat(name)
	return !errors.Is(err, fs.ErrNotExist)
}

// segment is the path of the segment of t-0 that begins at offset.
func segment(offset int64) string { return fmt.Sprintf("%s/t-0/%020d.meta", dir, offset) }

// counting is a memory that counts calls.
type counting struct{ *faultfs.FS }

func newCounting() counting { return counting{faultfs.New(vfs.NewMem())} }

// syncs returns how many files were synced.
func (c counting) syncs() int { return c.Count(vfs.OpSync) + c.Count(vfs.OpDatasync) }

// logged is what a store logged.
type logged struct {
	t    testing.TB
	mu   sync.Mutex
	text strings.Builder
}

func newLog(t testing.TB) (*slog.Logger, *logged) {
	l := &logged{t: t}
	return slog.New(slog.NewTextHandler(l, nil)), l
}

func (l *logged) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.t.Output().Write(b)
	return l.text.Write(b)
}

// want checks that one line has all the words.
func (l *logged) want(words ...string) {
	l.t.Helper()
	l.mu.Lock()
	defer l.mu.Unlock()
	for line := range strings.Lines(l.text.String()) {
		missing := slices.ContainsFunc(words, func(w string) bool { return !strings.Contains(line, w) })
		if !missing {
			return
		}
	}
	l.t.Errorf("no line of the log has %q:\n%s", words, l.text.String())
}

// empty checks that nothing was logged.
func (l *logged) empty() {
	l.t.Helper()
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.text.Len() > 0 {
		l.t.Errorf("logged:\n%s", l.text.String())
	}
}
