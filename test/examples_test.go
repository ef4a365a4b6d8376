package test

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// TestExamples runs every example as a reader would. A new folder in examples needs an entry here.
func TestExamples(t *testing.T) {
	root := filepath.Dir(mustGetwd(t))
	bin := build(t, root)
	tests := map[string]struct {
		args  string // DIR stands for a folder of its own
		input string // a script, run once the program has started
		stdin string
		want  string // the program is interrupted, and must end well, when its output matches
		check func(t *testing.T, dir string)
	}{
		"quickstart": {stdin: "hello\nworld\n", want: `(?s)sent to 0-0 .*received "hello" .*sent to 0-0 .*received "world"`},
		"broadcast": {
			args: "-instances 2", input: "echo colour=blue | metaq put config",
			want: `(?s)(instance [01]: colour is now "blue".*){2}`,
		},
		"tail-to-parquet": {
			args: "-dir DIR/work DIR/*.log", input: "for i in 1 2 3; do echo line $i >> app.log; done", want: "following",
			check: func(t *testing.T, dir string) { checkParquet(t, dir) },
		},
	}
	folders, err := filepath.Glob(filepath.Join(root, "examples", "*", "main.go"))
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range folders {
		name := filepath.Base(filepath.Dir(f))
		tt, ok := tests[name]
		if !ok {
			t.Errorf("example %s is not run by this test", name)
			continue
		}
		t.Run(name, func(t *testing.T) {
			s := newStage(t, root, bin)
			program := filepath.Join(s.dir, "program")
			cmd := exec.Command("go", "build", "-o", program, "./examples/"+name)
			cmd.Dir = root
			if out, err := cmd.CombinedOutput(); err != nil {
				t.Fatalf("build: %v\n%s", err, out)
			}
			ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
			defer cancel()
			stop := s.startBroker(ctx)
			defer stop()
			args := strings.Fields(strings.ReplaceAll(tt.args, "DIR", s.dir))
			if name != "tail-to-parquet" {
				args = append(args, "-server", s.server)
			}
			p := s.start(ctx, program, args...)
			p.Stdin = strings.NewReader(tt.stdin)
			out := newMatcher(tt.want)
			p.Stdout, p.Stderr = out, out
			if err := p.Start(); err != nil {
				t.Fatal(err)
			}
			if tt.input != "" {
				if out, err := s.command(30*time.Second, tt.input); err != nil {
					t.Fatalf("%s: %v\n%s", tt.input, err, out)
				}
			}
			s.await(ctx, out)
			if tt.check != nil {
				tt.check(t, s.dir)
			}
			s.interrupt(p, out)
		})
	}
}

// checkParquet waits for the lines to come out as a Parquet file: the magic bytes at both ends, and what DuckDB reads.
func checkParquet(t *testing.T, dir string) {
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	late := time.After(30 * time.Second)
	for {
		names, err := filepath.Glob(filepath.Join(dir, "work", "parquet", "*.parquet"))
		if err != nil {
			t.Fatal(err)
		}
		if len(names) > 0 {
			data, err := os.ReadFile(names[0])
			if err != nil {
				t.Fatal(err)
			}
			if n := len(data); n < 8 || string(data[:4]) != "PAR1" || string(data[n-4:]) != "PAR1" {
				t.Errorf("%s is no Parquet file", names[0])
			}
			return
		}
		select {
		case <-tick.C:
		case <-late:
			t.Fatal("no Parquet file")
		}
	}
}
