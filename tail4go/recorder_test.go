package tail4go

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/metaq-go/metaq/client"
)

func TestMain(m *testing.M) {
	// The library that benchmarks compare with never ends these two.
	goleak.VerifyTestMain(m,
		goleak.IgnoreAnyFunction("github.com/nxadm/tail/watch.(*InotifyTracker).run"),
		goleak.IgnoreAnyFunction("github.com/fsnotify/fsnotify.(*Watcher).readEvents"))
}

// record is a message as a recorder took it.
type record struct {
	Attr
	key, payload string
}

// outcome is what a recorder does with a message.
type outcome struct {
	after time.Duration // 0: it is answered within SendAsync
	err   error         // nil: acknowledged
	lost  bool          // with an error: not stored
}

// recorder is a Sender that stores messages in memory, and answers as it is told.
type recorder struct {
	judge func(m *client.Message) outcome // nil: everything is acknowledged at once
	limit int                             // of messages on their way; 0: none

	mu     sync.Mutex
	cond   *sync.Cond
	got    []record
	flying int
	most   int
	more   chan struct{} // a token: got grew
}

func newRecorder(judge func(m *client.Message) outcome) *recorder {
	r := &recorder{judge: judge, more: make(chan struct{}, 1)}
	r.cond = sync.NewCond(&r.mu)
	return r
}

func (r *recorder) SendAsync(ctx context.Context, m *client.Message, done func(client.Result, error)) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	stop := context.AfterFunc(ctx, func() { r.mu.Lock(); r.cond.Broadcast(); r.mu.Unlock() })
	defer stop()
	for r.limit > 0 && r.flying >= r.limit && ctx.Err() == nil {
		r.cond.Wait()
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	var o outcome
	if r.judge != nil {
		o = r.judge(m)
	}
	if errors.Is(o.err, errNotTaken) {
		return o.err
	}
	if !o.lost {
		a, err := ParseAttr(m.Attr)
		if err != nil {
			panic(err)
		}
		r.got = append(r.got, record{a, string(m.Key), string(m.Payload)})
		select {
		case r.more <- struct{}{}:
		default:
		}
	}
	res := client.Result{Topic: m.Topic, Tag: m.Tag}
	if o.after == 0 {
		done(res, o.err)
		return nil
	}
	r.flying++
	r.most = max(r.most, r.flying)
	time.AfterFunc(o.after, func() {
		done(res, o.err)
		r.mu.Lock()
		r.flying--
		r.cond.Broadcast()
		r.mu.Unlock()
	})
	return nil
}

// errNotTaken is an outcome in which SendAsync itself fails.
var errNotTaken = errors.New("not taken")

func (r *recorder) Flush(ctx context.Context) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	stop := context.AfterFunc(ctx, func() { r.mu.Lock(); r.cond.Broadcast(); r.mu.Unlock() })
	defer stop()
	for r.flying > 0 && ctx.Err() == nil {
		r.cond.Wait()
	}
	return ctx.Err()
}

func (r *recorder) records() []record {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.got)
}

// lines returns the payloads, pieces of a line joined.
func (r *recorder) lines() []string {
	var lines []string
	open := make(map[string]int) // path and position at which a line goes on
	for _, m := range r.records() {
		at := m.Path + " " + itoa(m.Pos)
		i, ok := open[at]
		if !ok || m.Part < 2 {
			i = len(lines)
			lines = append(lines, "")
		}
		delete(open, at)
		lines[i] += m.payload
		if m.More {
			open[m.Path+" "+itoa(m.Pos+int64(len(m.payload)))] = i
		}
	}
	return lines
}

func itoa(n int64) string { return Attr{Pos: n}.String() }

// testLog writes the agent's log to the test's.
func testLog(t testing.TB) *slog.Logger {
	return slog.New(slog.NewTextHandler(t.Output(), &slog.HandlerOptions{
		ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
			if a.Key == slog.TimeKey {
				return slog.Attr{}
			}
			return a
		},
	}))
}

// bench is a folder with logs and a state, and an agent that may run on them.
type bench struct {
	t     *testing.T
	dir   string
	cfg   Config
	agent *Agent
	stop  func() error
}

func newBench(t *testing.T, patterns ...string) *bench {
	t.Helper()
	dir := t.TempDir()
	b := &bench{t: t, dir: filepath.Join(dir, "logs")}
	if err := os.Mkdir(b.dir, 0o755); err != nil {
		t.Fatal(err)
	}
	for i, p := range patterns {
		patterns[i] = b.path(p)
	}
	b.cfg = Config{
		Host: "h", StateDir: filepath.Join(dir, "state"), Logger: testLog(t),
		Inputs: []Input{{Topic: "t", Patterns: patterns}},
	}
	return b
}

func (b *bench) path(name string) string { return filepath.Join(b.dir, name) }

// start runs the agent; the bench ends it with the test, or stop does.
func (b *bench) start(s Sender) {
	b.t.Helper()
	agent, err := Open(b.cfg, s)
	if err != nil {
		b.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	result := make(chan error, 1)
	go func() { result <- agent.Run(ctx) }()
	b.agent = agent
	end := sync.OnceValue(func() error {
		cancel()
		return errors.Join(<-result, agent.Close())
	})
	asked := false
	b.stop = func() error {
		asked = true
		return end()
	}
	b.t.Cleanup(func() {
		if err := end(); err != nil && !asked {
			b.t.Errorf("agent: %v", err)
		}
	})
}

// run runs the agent until it has been idle for a while.
func (b *bench) run(s Sender) {
	b.t.Helper()
	cfg := b.cfg
	if cfg.Idle == 0 {
		cfg.Idle = 3 * time.Second
	}
	agent, err := Open(cfg, s)
	if err != nil {
		b.t.Fatal(err)
	}
	if err := errors.Join(agent.Run(context.Background()), agent.Close()); err != nil {
		b.t.Fatal(err)
	}
	b.agent = agent
}

func (b *bench) write(name, text string) {
	b.t.Helper()
	f, err := os.OpenFile(b.path(name), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	if err != nil {
		b.t.Fatal(err)
	}
	_, err = f.WriteString(text)
	if err := errors.Join(err, f.Close()); err != nil {
		b.t.Fatal(err)
	}
}

func (b *bench) rename(from, to string) {
	b.t.Helper()
	if err := os.Rename(b.path(from), b.path(to)); err != nil {
		b.t.Fatal(err)
	}
}

func (b *bench) remove(name string) {
	b.t.Helper()
	if err := os.Remove(b.path(name)); err != nil {
		b.t.Fatal(err)
	}
}

// wantLines compares lists of lines.
func wantLines(t *testing.T, got []string, want ...string) {
	t.Helper()
	if slices.Equal(got, want) {
		return
	}
	t.Errorf("got %d lines, want %d", len(got), len(want))
	for i := range max(len(got), len(want)) {
		var g, w string
		if i < len(got) {
			g = got[i]
		}
		if i < len(want) {
			w = want[i]
		}
		if g != w {
			t.Fatalf("line %d: got %.200q, want %.200q", i, g, w)
		}
	}
}

func splitLines(b []byte) []string {
	b = bytes.TrimSuffix(b, []byte("\n"))
	if len(b) == 0 {
		return nil
	}
	return strings.Split(string(b), "\n")
}
