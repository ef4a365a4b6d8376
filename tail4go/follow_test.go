package tail4go

import (
	"context"
	"errors"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/metaq-go/metaq/client"
)

func TestConfigErrors(t *testing.T) {
	good := Config{StateDir: "/s", Inputs: []Input{{Topic: "t", Patterns: []string{"/a"}}}}
	for want, change := range map[string]func(*Config){
		"no StateDir":              func(c *Config) { c.StateDir = "" },
		"no Inputs":                func(c *Config) { c.Inputs = nil },
		"no Topic":                 func(c *Config) { c.Inputs[0].Topic = "" },
		"no Patterns":              func(c *Config) { c.Inputs[0].Patterns = nil },
		"is malformed":             func(c *Config) { c.Inputs[0].Patterns = []string{"/a["} },
		`"/b{" is malformed`:       func(c *Config) { c.Inputs[0].Exclude = []string{"/b{"} },
		"nor a regular":            func(c *Config) { c.Inputs[0].Key = "(" },
		"unknown Start":            func(c *Config) { c.Inputs[0].Start = 7 },
		"MaxLine is 3":             func(c *Config) { c.MaxLine = 3 },
		"negative":                 func(c *Config) { c.Idle = -1 },
		`two inputs are named "t"`: func(c *Config) { c.Inputs = append(c.Inputs, c.Inputs[0]) },
	} {
		cfg := good
		cfg.Inputs = []Input{good.Inputs[0]}
		change(&cfg)
		if _, err := Open(cfg, newRecorder(nil)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want an error with %q", err, want)
		}
	}
}

func TestUnfinishedLine(t *testing.T) {
	t.Run("is held back", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			b := newBench(t, "app.log")
			b.write("app.log", "one\ntw")
			r := newRecorder(nil)
			b.start(r)
			wait(time.Hour)
			wantLines(t, r.lines(), "one")
			b.write("app.log", "o\n")
			wait(2 * time.Second)
			wantLines(t, r.lines(), "one", "two")
		})
	})
	t.Run("is sent after PartialAfter", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			b := newBench(t, "app.log")
			b.cfg.PartialAfter = time.Minute
			b.write("app.log", "one\ntw")
			r := newRecorder(nil)
			b.start(r)
			wait(59 * time.Second)
			wantLines(t, r.lines(), "one")
			wait(2 * time.Second)
			wantLines(t, r.lines(), "one", "tw")
			b.write("app.log", "o\nthree\n")
			wait(2 * time.Second)
			wantLines(t, r.lines(), "one", "two", "three")
			got := r.records()[2]
			if want := (Attr{Host: "h", Path: b.path("app.log"), Pos: 6, Part: 2}); got.Attr != want {
				t.Errorf("the rest has %+v, want %+v", got.Attr, want)
			}
		})
	})
	t.Run("is sent at the end with IdlePartial", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			b := newBench(t, "*.log")
			b.cfg.IdlePartial = true
			b.write("a.log", "one\ntwo")
			b.write("b.log", "three")
			r := newRecorder(func(*client.Message) outcome { return outcome{after: time.Second} })
			b.run(r)
			wantLines(t, r.lines(), "one", "two", "three")
			// What was sent is known: the next run goes on behind it.
			b.write("a.log", " and more\n")
			b.run(r)
			wantLines(t, r.lines(), "one", "two and more", "three")
		})
	})
	t.Run("is sent when the file is gone", func(t *testing.T) { // case C01
		for _, how := range []string{"renamed", "renamed to a name that matches", "deleted"} {
			t.Run(how, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					b := newBench(t, "app.log", "*.old")
					b.write("app.log", "a\nb")
					r := newRecorder(nil)
					b.start(r)
					wait(time.Minute)
					wantLines(t, r.lines(), "a")
					switch how {
					case "renamed":
						b.rename("app.log", "app.log.1")
					case "deleted":
						b.remove("app.log")
					default:
						b.rename("app.log", "app.old")
					}
					wait(2 * time.Second)
					wantLines(t, r.lines(), "a", "b")
				})
			})
		}
	})
}

func TestIdle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, "*.log")
		b.cfg.Idle = 10 * time.Second
		b.write("a.log", "one\n")
		r := newRecorder(func(*client.Message) outcome { return outcome{after: time.Minute} })
		start := time.Now()
		b.run(r)
		if took := time.Since(start); took < time.Minute || took > time.Minute+time.Second {
			t.Errorf("idle after %v, want a minute: the time of the acknowledgement", took)
		}
		s := b.agent.Stats()
		if s.Matched != 1 || s.Lines != 1 || s.Read != 4 || s.Acked != 4 || s.InFlight != 0 || s.Lag != 0 {
			t.Errorf("got %+v", s)
		}
		start = time.Now()
		go func() {
			wait(9 * time.Second)
			b.write("a.log", "two\n")
		}()
		r.judge = nil
		b.run(r)
		if took := time.Since(start); took < 19*time.Second || took > 21*time.Second {
			t.Errorf("idle after %v, want 19 s: something came after 9", took)
		}
		wantLines(t, r.lines(), "one", "two")
	})
}

func TestIdleWithoutFiles(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, "nothing/*.log")
		b.run(newRecorder(nil))
		if s := b.agent.Stats(); s.Matched != 0 || len(s.Unreadable) != 1 {
			t.Errorf("got %+v, want a folder that can't be read", s)
		}
	})
}

func TestStartAtEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, "*.log")
		b.cfg.Inputs[0].Start = End
		b.write("a.log", "old\nhalf")
		r := newRecorder(nil)
		b.start(r)
		wait(time.Second)
		b.write("a.log", " new\n")
		b.write("b.log", "first of a later file\n")
		wait(time.Minute)
		wantLines(t, r.lines(), "half new", "first of a later file")
		if err := b.stop(); err != nil {
			t.Fatal(err)
		}
		// While the agent is away: one file goes on, one is replaced, one is new and comes too late to be followed.
		b.write("a.log", "away\n")
		b.rename("b.log", "b.log.1")
		b.write("b.log", "successor\n")
		b.write("c.log", "unknown\n")
		b.start(r)
		wait(time.Minute)
		wantLines(t, r.lines(), "half new", "first of a later file", "away", "successor")
	})
}

func TestKeys(t *testing.T) {
	for key, want := range map[string][]string{
		"":            {"file", "file", "file"},
		KeyNone:       {"", "", ""},
		`user=(\w+)`:  {"ann", "file", "bob"},
		`user=\w+`:    {"user=ann", "file", "user=bob"},
		`no(x)?thing`: {"file", "nothing", "file"},
	} {
		t.Run(key, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := newBench(t, "app.log")
				b.cfg.Inputs[0].Key = key
				b.write("app.log", "user=ann came\nnothing\nuser=bob left\n")
				r := newRecorder(nil)
				b.run(r)
				for i, m := range r.records() {
					want := want[i]
					if want == "file" {
						want = "h:" + b.path("app.log")
					}
					if m.key != want {
						t.Errorf("key of %q is %q, want %q", m.payload, m.key, want)
					}
				}
			})
		})
	}
}

func TestPatterns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, "**/*.log", "odd/"+QuotePattern("[1]{a}?*.txt"))
		b.cfg.Inputs[0].Exclude = []string{b.path("**/no*")}
		for _, dir := range []string{"x/y", "dir.log", "odd"} {
			if err := os.MkdirAll(b.path(dir), 0o755); err != nil {
				t.Fatal(err)
			}
		}
		b.write("a.log", "1\n")
		b.write("x/y/b.log", "2\n")
		b.write("x/no.log", "excluded\n")
		b.write("x/c.txt", "not matched\n")
		b.write("odd/[1]{a}?*.txt", "3\n")
		b.write("odd/1a.txt", "not quoted\n")
		if err := os.Symlink(b.path("a.log"), b.path("A-link.log")); err != nil {
			t.Fatal(err)
		}
		if err := os.Link(b.path("a.log"), b.path("hard.log")); err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink(b.path("nowhere"), b.path("dangling.log")); err != nil {
			t.Fatal(err)
		}
		r := newRecorder(nil)
		b.run(r)
		got := r.records()
		if len(got) != 3 {
			t.Fatalf("got %d records, want 3: %q", len(got), r.lines())
		}
		for _, m := range got {
			if m.payload == "1" && m.Path != b.path("a.log") {
				t.Errorf("path is %s, want the file's own", m.Path)
			}
		}
	})
}

func TestRelativePattern(t *testing.T) {
	dir := t.TempDir() + "/a[b]"
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	t.Chdir(dir)
	if err := os.WriteFile("x.log", []byte("1\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	r := newRecorder(nil)
	// The agent's own files match as well.
	agent, err := Open(Config{
		StateDir: "state/", Inputs: []Input{{Topic: "t", Patterns: []string{"./**"}}}, Idle: 1500 * time.Millisecond,
	}, r)
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(agent.Run(context.Background()), agent.Close()); err != nil {
		t.Fatal(err)
	}
	if got := r.records(); len(got) != 1 || got[0].Path != dir+"/x.log" {
		t.Errorf("got %+v", got)
	}
}

// TestBusyFileIsLookedAtOften checks the time from a line's write to its record.
func TestBusyFileIsLookedAtOften(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, "app.log")
		b.write("app.log", "begin\n")
		r := newRecorder(nil)
		b.start(r)
		wait(time.Second)
		const n = 1000
		late := 0
		for i := range n {
			b.write("app.log", "line\n")
			wait(5 * time.Millisecond)
			if len(r.records()) < i+1 {
				late++
			}
		}
		// The first ones wait for the pause to end that the file has earned by being quiet.
		if late > 60 {
			t.Errorf("%d of %d lines were not sent within 10 ms, want at most 60", late, n)
		}
	})
}

func TestRunTwice(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, "app.log")
		b.run(newRecorder(nil))
		if err := b.agent.Run(t.Context()); err == nil {
			t.Error("a second Run gave no error")
		}
	})
}
