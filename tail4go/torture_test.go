package tail4go

import (
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/metaq-go/metaq/client"
	"github.com/metaq-go/metaq/internal/vfs"
)

// torture is a log that is written and rotated at random, by a program that keeps each file open for a while, and an agent
// that is stopped and crashes at random, with a broker that is slow and fails at random.
type torture struct {
	*bench
	rng    *rand.Rand
	fs     *vfs.Mem
	r      *recorder
	names  int // of files
	logs   []*tortureLog
	held   []*tortureFile // files that must not be let go of: their inodes would be used again
	lines  map[string]*tortureLine
	unsure bool // the broker stores lines and says that it didn't
}

// tortureLog is a log, whatever its file is.
type tortureLog struct {
	name string
	file *tortureFile
	half string // the beginning of a line that was written
}

type tortureFile struct {
	f    *os.File
	ino  uint64
	size int64
	now  string
}

type tortureLine struct {
	file   *tortureFile
	pos    int64
	got    int // times it was stored
	excuse int // times it may have been stored beyond the first
}

func newTorture(t *testing.T, seed uint64) *torture {
	k := &torture{
		bench: newBench(t, "**/*.log"), rng: rand.New(rand.NewPCG(seed, 1)), fs: vfs.NewMem(),
		lines: make(map[string]*tortureLine),
	}
	k.cfg.fs = k.fs
	k.cfg.StateDir = "/state"
	k.cfg.Logger = nil
	k.cfg.StopWait = 5 * time.Second
	k.cfg.Inputs[0].Key = []string{KeyFile, KeyNone}[seed%2]
	k.unsure = seed%3 == 0
	for i := range 1 + k.rng.IntN(3) {
		log := &tortureLog{name: fmt.Sprintf("app%d", i)}
		k.open(log)
		k.logs = append(k.logs, log)
	}
	return k
}

// judge decides about a message: late answers in any order, and failures now and then.
func (k *torture) judge(rng *rand.Rand) func(m *client.Message) outcome {
	bad := rng.IntN(3) * rng.IntN(20) // percent
	return func(*client.Message) outcome {
		o := outcome{after: time.Duration(rng.IntN(300)) * time.Millisecond}
		if rng.IntN(100) >= bad {
			return o
		}
		switch rng.IntN(3) {
		case 0:
			return outcome{err: errNotTaken}
		case 1:
			if k.unsure {
				o.err = client.ErrUnknown
				return o
			}
		}
		o.err, o.lost = errSend, true
		return o
	}
}

func (k *torture) open(log *tortureLog) {
	name := log.name + ".log"
	f, err := os.OpenFile(k.path(name), os.O_APPEND|os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o644)
	if err != nil {
		k.t.Fatal(err)
	}
	k.t.Cleanup(func() { f.Close() })
	fi, err := f.Stat()
	if err != nil {
		k.t.Fatal(err)
	}
	id, _ := identify(fi)
	log.file = &tortureFile{f: f, ino: id.ino, now: name}
	log.half = ""
	k.held = append(k.held, log.file)
}

// write writes a line, or a piece of one.
func (k *torture) write(log *tortureLog) {
	text := log.half
	if text == "" {
		text = fmt.Sprintf("%d %s %s", len(k.lines), log.name, strings.Repeat("x", k.rng.IntN(1<<k.rng.IntN(11))))
		k.lines[text] = &tortureLine{file: log.file, pos: log.file.size}
	}
	whole := text + "\n"
	from := 0
	if log.half != "" {
		from = int(log.file.size - k.lines[text].pos)
	}
	to := len(whole)
	if k.rng.IntN(10) == 0 {
		to = from + k.rng.IntN(to-from)
	}
	n, err := log.file.f.WriteString(whole[from:to])
	if err != nil {
		k.t.Fatal(err)
	}
	log.file.size += int64(n)
	log.half = ""
	if to < len(whole) {
		log.half = text
	}
}

// rotate renames the log's file, and makes a new one at once. Deleting comes only after it was read: nobody could read it
// after that.
func (k *torture) rotate(log *tortureLog) {
	for log.half != "" {
		k.write(log)
	}
	k.names++
	to := fmt.Sprintf("%s.%d.log", log.name, k.names)
	switch _, known := k.stored()[log.file.ino]; {
	case known && k.rng.IntN(2) == 0:
		// A file that nobody knows can't be found under a name that matches nothing.
		to = fmt.Sprintf("%s.%d.old", log.name, k.names)
	case k.rng.IntN(2) == 0:
		to = fmt.Sprintf("archive/%s.%d.log", log.name, k.names)
		if err := os.MkdirAll(k.path("archive"), 0o755); err != nil {
			k.t.Fatal(err)
		}
	}
	k.rename(log.file.now, to)
	log.file.now = to
	// The program writes to the renamed file before it notices.
	for range k.rng.IntN(5) {
		k.write(log)
	}
	for log.half != "" {
		k.write(log)
	}
	k.open(log)
}

func (k *torture) begin() {
	k.r = newRecorder(k.judge(rand.New(rand.NewPCG(k.rng.Uint64(), 2))))
	k.r.limit = 1 + k.rng.IntN(500)
	k.start(k.r)
}

// collect counts what a recorder has stored.
func (k *torture) collect() {
	for _, line := range k.r.lines() {
		l := k.lines[line]
		if l == nil {
			k.t.Fatalf("got a line that was never written: %.200q", line)
		}
		l.got++
	}
}

func (k *torture) end() {
	if err := k.stop(); err != nil {
		k.t.Fatal(err)
	}
	k.collect()
	if k.agent.Stats().InFlight > 0 {
		k.excuse() // StopWait was over
	}
}

// crash ends the agent as kill -9 or a power failure would: what it sends and stores from now on reaches nobody. Lines
// behind the last stored positions may come twice.
func (k *torture) crash() {
	k.r.mu.Lock()
	k.r.judge = func(*client.Message) outcome { return outcome{err: errNotTaken} }
	k.r.mu.Unlock()
	after := k.fs.Kill()
	if k.rng.IntN(2) == 0 {
		after = k.fs.Crash(k.rng)
	}
	if err := k.stop(); err != nil {
		k.t.Fatal(err)
	}
	k.collect()
	k.fs, k.cfg.fs = after, after
	k.excuse()
}

func (k *torture) excuse() {
	stored := k.stored()
	for _, l := range k.lines {
		if l.got > 0 && l.pos >= stored[l.file.ino] {
			l.excuse++
		}
	}
}

// stored returns the stored positions by inode.
func (k *torture) stored() map[uint64]int64 {
	st := &store{fsys: k.fs, dir: k.cfg.StateDir, log: slog.New(slog.DiscardHandler)}
	entries, err := st.load()
	if err != nil {
		k.t.Fatal(err)
	}
	positions := make(map[uint64]int64)
	for _, e := range entries {
		positions[e.Ino] = e.Pos
	}
	return positions
}

func (k *torture) step() {
	log := k.logs[k.rng.IntN(len(k.logs))]
	switch n := k.rng.IntN(100); {
	case n < 70:
		for range k.rng.IntN(1 << k.rng.IntN(8)) {
			k.write(log)
		}
	case n < 80:
		k.rotate(log)
	case n < 83 && k.stop != nil:
		k.end()
		k.stop = nil
	case n < 86 && k.stop != nil:
		k.crash()
		k.stop = nil
	case k.stop == nil && n < 95:
		k.begin()
	}
	if k.rng.IntN(3) == 0 {
		wait(time.Duration(k.rng.IntN(1<<k.rng.IntN(13))) * time.Millisecond)
	}
}

func (k *torture) check() {
	if k.stop == nil {
		k.begin()
	}
	for _, log := range k.logs {
		for log.half != "" {
			k.write(log)
		}
	}
	k.r.mu.Lock()
	k.r.judge = nil
	k.r.mu.Unlock()
	wait(2 * time.Minute)
	s := k.agent.Stats()
	if s.Lag != 0 || s.InFlight != 0 || s.Lost != 0 {
		k.t.Errorf("at the end: %+v", s)
	}
	k.end()
	missing, doubled := 0, 0
	for text, l := range k.lines {
		if l.got == 0 {
			missing++
			k.t.Logf("missing: %.60q of %s at %d", text, l.file.now, l.pos)
		}
		if l.got > 1+l.excuse && !k.unsure {
			doubled++
			k.t.Logf("doubled: %.60q of %s at %d: %d times", text, l.file.now, l.pos, l.got)
		}
	}
	if missing+doubled > 0 {
		k.t.Errorf("of %d lines %d are missing, %d doubled without excuse", len(k.lines), missing, doubled)
	}
}

// TestTorture lets everything happen at once, many times. Rotated files get names that match, or not. Nothing is ever
// missing; a line comes twice only if the agent crashed before the position behind it was stored, or if the broker stored
// it and said that it did not.
func TestTorture(t *testing.T) {
	rounds := uint64(40)
	if testing.Short() {
		rounds = 10
	}
	for seed := range rounds {
		ok := t.Run(fmt.Sprint(seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				k := newTorture(t, seed)
				for range 150 {
					k.step()
				}
				k.check()
			})
		})
		if !ok {
			return
		}
	}
}
