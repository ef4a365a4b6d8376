// Package test holds tests of metaq from outside: the documents' commands and programs here, whole-process scripts beside
// it.
package test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"
)

// A document's fenced blocks are run as follows.
//
//	```sh   every line: "make X" must be a target of the Makefile, everything else is run by bash, in a folder of its own
//	```go   a whole program: built and run; the comment before it says how
//
// A comment directly before a block tells what else to do:
//
//	<!-- test: skip: REASON -->           not run
//	<!-- test: before: COMMAND -->        with a broker running, COMMAND is run first
//	<!-- test: input: COMMAND -->         … while the program runs
//	<!-- test: want: REGEXP -->           the output must match; a program that has not ended is interrupted then
//
// Default ports are replaced by free ones, so that nothing else on the machine is disturbed.
type block struct {
	file, lang, text string
	line             int
	notes            map[string]string
}

var fence = regexp.MustCompile("(?m)^```([a-z]*)[^\n]*\n")

func TestDocuments(t *testing.T) {
	root := filepath.Dir(mustGetwd(t))
	bin := build(t, root)
	var files []string
	for _, pattern := range []string{"*.md", "docs/*.md", "docs/*/*.md", "examples/*/*.md"} {
		m, err := filepath.Glob(filepath.Join(root, pattern))
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, m...)
	}
	ran := 0
	for _, file := range files {
		for _, b := range readBlocks(t, file) {
			if _, skip := b.notes["skip"]; skip || b.lang != "sh" && b.lang != "go" {
				continue
			}
			ran++
			name, _ := filepath.Rel(root, file)
			t.Run(fmt.Sprintf("%s:%d", name, b.line), func(t *testing.T) { newStage(t, root, bin).run(b) })
		}
	}
	if ran < 5 {
		t.Errorf("only %d blocks were run: does the test still find them?", ran)
	}
}

func readBlocks(t *testing.T, file string) (blocks []block) {
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	text := string(data)
	for pos := 0; ; {
		at := fence.FindStringSubmatchIndex(text[pos:])
		if at == nil {
			return blocks
		}
		start := pos + at[1]
		end := strings.Index(text[start:], "\n```")
		if end < 0 {
			t.Fatalf("%s: a block does not end", file)
		}
		b := block{file: file, lang: text[pos+at[2] : pos+at[3]], text: text[start : start+end+1], notes: map[string]string{}}
		b.line = strings.Count(text[:start], "\n")
		lines := strings.Split(strings.TrimRight(text[:pos+at[0]], "\n"), "\n")
		for i := len(lines) - 1; i >= 0; i-- {
			note, ok := strings.CutPrefix(lines[i], "<!-- test: ")
			if !ok {
				break
			}
			key, value, _ := strings.Cut(strings.TrimSuffix(note, " -->"), ": ")
			b.notes[key] = value
		}
		blocks = append(blocks, b)
		pos = start + end + len("\n```")
	}
}

// stage is a folder and an environment in which a block runs.
type stage struct {
	*testing.T
	root, dir string
	metaq     string // the command with replaced ports
	server    string
	env       []string
}

func newStage(t *testing.T, root, bin string) *stage {
	port, http := freePort(t), freePort(t)
	s := &stage{T: t, root: root, dir: t.TempDir(), server: "meta://127.0.0.1:" + port}
	// "metaq local" listens on free ports instead of the default ones.
	wrapper := fmt.Sprintf("#!/bin/sh\nif [ \"$1\" = local ]; then\n\tshift\n"+
		"\tset -- local --listen 127.0.0.1:%s --http 127.0.0.1:%s \"$@\"\nfi\nexec %s \"$@\"\n", port, http, bin)
	path := t.TempDir()
	s.metaq = filepath.Join(path, "metaq")
	if err := os.WriteFile(s.metaq, []byte(wrapper), 0o755); err != nil {
		t.Fatal(err)
	}
	s.env = append(os.Environ(), "PATH="+path+":"+os.Getenv("PATH"), "METAQ_SERVER="+s.server, "HOME="+t.TempDir(),
		"XDG_STATE_HOME=", "GOFLAGS=-mod=mod", "GOCACHE="+goEnv(t, "GOCACHE"), "GOMODCACHE="+goEnv(t, "GOMODCACHE"), "GOPATH="+goEnv(t, "GOPATH"))
	return s
}

func (s *stage) run(b block) {
	if b.lang == "sh" {
		s.shell(b)
		return
	}
	s.program(b)
}

// shell runs a block of commands.
func (s *stage) shell(b block) {
	var script strings.Builder
	commands := 0
	for _, l := range strings.Split(b.text, "\n") {
		if f := strings.Fields(l); len(f) > 1 && f[0] == "make" {
			if out, err := exec.Command("make", "-n", "-C", s.root, f[1]).CombinedOutput(); err != nil {
				s.Errorf("%s: %v\n%s", l, err, out)
			}
			continue
		} else if len(f) > 0 {
			commands++
		}
		script.WriteString(l + "\n")
	}
	if commands == 0 {
		return
	}
	out, err := s.command(time.Minute, script.String())
	if err != nil {
		s.Fatalf("%v\n%s", err, out)
	}
	s.match(b, out)
}

func (s *stage) match(b block, out []byte) {
	if want, ok := b.notes["want"]; ok && !regexp.MustCompile(want).Match(out) {
		s.Errorf("output does not match %q:\n%s", want, out)
	}
}

// command runs a script, up to its first failure, and ends what it left in the background.
func (s *stage) command(limit time.Duration, script string) ([]byte, error) {
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	cmd := s.start(ctx, "bash", "-c", "set -e\ntrap 'kill $(jobs -p) 2>/dev/null || true' EXIT\n"+script)
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	err := cmd.Start()
	if err == nil {
		err = cmd.Wait()
		_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
	}
	if ctx.Err() != nil {
		err = errors.Join(err, ctx.Err())
	}
	return out.Bytes(), err
}

// start prepares a command in a process group of its own.
func (s *stage) start(ctx context.Context, name string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir, cmd.Env = s.dir, s.env
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.WaitDelay = 5 * time.Second
	return cmd
}

// program builds and runs a block that is a program, as a reader would: in a module of its own.
func (s *stage) program(b block) {
	s.write("main.go", b.text)
	s.write("go.mod", "module example\n\ngo 1.26\n\nrequire github.com/metaq-go/metaq v0.0.0\n\nreplace github.com/metaq-go/metaq => "+s.root+"\n")
	sums, err := os.ReadFile(filepath.Join(s.root, "go.sum"))
	if err != nil {
		s.Fatal(err)
	}
	s.write("go.sum", string(sums))
	if out, err := s.command(5*time.Minute, "go mod tidy && go build -o program ."); err != nil {
		s.Fatalf("build: %v\n%s", err, out)
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	stop := s.startBroker(ctx)
	defer stop()
	s.side(b, "before")
	program := s.start(ctx, filepath.Join(s.dir, "program"))
	out := newMatcher(b.notes["want"])
	program.Stdout, program.Stderr = out, out
	if err := program.Start(); err != nil {
		s.Fatal(err)
	}
	s.side(b, "input")
	s.await(ctx, out)
	s.interrupt(program, out)
}

// startBroker runs metaq local until the function it returns is called.
func (s *stage) startBroker(ctx context.Context) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	broker := s.start(ctx, s.metaq, "local", "--data", filepath.Join(s.dir, "data"))
	ready := newMatcher("ready listen=")
	broker.Stdout, broker.Stderr = ready, os.Stderr
	if err := broker.Start(); err != nil {
		s.Fatal(err)
	}
	s.await(ctx, ready)
	return func() {
		cancel()
		_ = broker.Wait() // killed
	}
}

// interrupt stops a program as Ctrl-C would; it must end well.
func (s *stage) interrupt(program *exec.Cmd, out *matcher) {
	if err := program.Process.Signal(os.Interrupt); err != nil && !errors.Is(err, os.ErrProcessDone) {
		s.Fatal(err)
	}
	if err := program.Wait(); err != nil {
		s.Errorf("program: %v\n%s", err, out)
	}
}

func (s *stage) side(b block, key string) {
	if script, ok := b.notes[key]; ok {
		if out, err := s.command(30*time.Second, script); err != nil {
			s.Fatalf("%s: %v\n%s", script, err, out)
		}
	}
}

func (s *stage) await(ctx context.Context, m *matcher) {
	select {
	case <-m.matched:
	case <-ctx.Done():
		s.Fatalf("no %q in the output:\n%s", m.want, m)
	}
}

func (s *stage) write(name, text string) {
	if err := os.WriteFile(filepath.Join(s.dir, name), []byte(text), 0o644); err != nil {
		s.Fatal(err)
	}
}

func build(t *testing.T, root string) string {
	bin := filepath.Join(t.TempDir(), "metaq")
	cmd := exec.Command("go", "build", "-o", bin, "./cmd/metaq")
	cmd.Dir = root
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("build: %v\n%s", err, out)
	}
	return bin
}

func freePort(t *testing.T) string {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	_, port, _ := net.SplitHostPort(l.Addr().String())
	return port
}

func goEnv(t *testing.T, name string) string {
	out, err := exec.Command("go", "env", name).Output()
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(string(out))
}

func mustGetwd(t *testing.T) string {
	dir, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	return dir
}
