package tail4go

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nxadm/tail"
)

// The tests in this file hold what github.com/nxadm/tail does, and why the agent follows files by a reader of its own:
// docs/decisions/0001-follow-files.md. If one of them fails after an update of the library, the decision may be looked at again.

// libraryTail follows a file with the library, by polling: its goroutines then belong to the bubble.
func libraryTail(t *testing.T, name string, cfg tail.Config) (lines func() []tail.Line) {
	t.Helper()
	cfg.Follow, cfg.Poll, cfg.MustExist, cfg.Logger = true, true, true, tail.DiscardingLogger
	l, err := tail.TailFile(name, cfg)
	if err != nil {
		t.Fatal(err)
	}
	var got []tail.Line
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for line := range l.Lines {
			got = append(got, *line)
		}
	}()
	t.Cleanup(func() {
		if err := l.Stop(); err != nil {
			t.Error(err)
		}
		<-ended
		wait(time.Second) // the library's poller sleeps once more
	})
	return func() []tail.Line {
		synctest.Wait()
		return got
	}
}

func texts(lines []tail.Line) []string {
	var s []string
	for _, l := range lines {
		s = append(s, l.Text)
	}
	return s
}

// TestLibraryLosesEndOfRenamedFile: what was written between the library's last look and the rename is never read.
func TestLibraryLosesEndOfRenamedFile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, "app.log")
		b.write("app.log", "one\n")
		lines := libraryTail(t, b.path("app.log"), tail.Config{ReOpen: true, CompleteLines: true})
		wait(1100 * time.Millisecond) // between two looks
		b.write("app.log", "lost\n")
		b.rename("app.log", "app.log.1")
		b.write("app.log", "three\n")
		wait(time.Second)
		b.write("app.log.1", "lost as well: the writer still has the old file\n")
		wait(time.Minute)
		wantLines(t, texts(lines()), "one", "three")
	})
}

// TestLibraryStopsAtRename: without opening anew it ends as soon as the name is gone, whatever is still written.
func TestLibraryStopsAtRename(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, "app.log")
		b.write("app.log", "one\n")
		lines := libraryTail(t, b.path("app.log"), tail.Config{CompleteLines: true})
		wait(1100 * time.Millisecond) // between two looks
		b.write("app.log", "lost\n")
		b.rename("app.log", "app.log.1")
		wait(time.Minute)
		wantLines(t, texts(lines()), "one")
	})
}

// TestLibraryByHandle gives the library the name that Linux has for an open handle, so that rotation is all ours. Then it
// does read on. But the last line without its end can't be had in a whole: either it never comes, or halves come as lines.
func TestLibraryByHandle(t *testing.T) {
	for complete, want := range map[bool][]string{
		true:  {"one", "two", "three"},
		false: {"one", "tw", "o", "three", "unfinished"},
	} {
		t.Run(fmt.Sprintf("CompleteLines %v", complete), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := newBench(t, "app.log")
				b.write("app.log", "one\ntw")
				h, err := os.Open(b.path("app.log"))
				if err != nil {
					t.Fatal(err)
				}
				defer h.Close()
				name := fmt.Sprintf("/proc/self/fd/%d", h.Fd())
				if _, err := os.Stat(name); err != nil {
					t.Skip("handles have no names here: ", err)
				}
				lines := libraryTail(t, name, tail.Config{CompleteLines: complete})
				wait(time.Second)
				b.rename("app.log", "app.log.1")
				b.write("app.log.1", "o\n")
				wait(time.Second)
				b.write("app.log.1", "three\nunfinished")
				wait(time.Second)
				b.remove("app.log.1")
				wait(time.Minute)
				wantLines(t, texts(lines()), want...)
			})
		})
	}
}

// TestLibraryPositions: positions are those behind a line, and all pieces of a long line have the same.
func TestLibraryPositions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, "app.log")
		b.write("app.log", "one\n"+strings.Repeat("x", 2500)+"\nthree\n")
		lines := libraryTail(t, b.path("app.log"), tail.Config{CompleteLines: true, MaxLineSize: 1000})
		wait(time.Second)
		var got []int64
		for _, l := range lines() {
			got = append(got, l.SeekInfo.Offset)
		}
		if want := fmt.Sprint([]int64{4, 2505, 2505, 2505, 2511}); fmt.Sprint(got) != want {
			t.Errorf("positions are %v, want %v", got, want)
		}
	})
}

// TestLibraryKeepsEndlessLine: MaxLineSize does not bound what is held of a line that does not end.
func TestLibraryKeepsEndlessLine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, "app.log")
		const megabyte = 1 << 20
		b.write("app.log", strings.Repeat("x", 4*megabyte))
		lines := libraryTail(t, b.path("app.log"), tail.Config{CompleteLines: true, MaxLineSize: 1000})
		wait(time.Second)
		if n := len(lines()); n != 0 {
			t.Errorf("got %d lines of 1000 bytes before the line's end, want none: it is held in memory", n)
		}
		b.write("app.log", "\n")
		wait(time.Second)
		if n, want := len(lines()), (4*megabyte+999)/1000; n != want {
			t.Errorf("got %d lines, want %d", n, want)
		}
	})
}

// TestLibraryEndsProcess: when the file's folder can't be read for a moment, the library ends the process.
func TestLibraryEndsProcess(t *testing.T) {
	if os.Getuid() == 0 {
		runAsNobody(t)
		return
	}
	const child = "TAIL4GO_TEST_LIBRARY_FOLDER"
	if dir := os.Getenv(child); dir != "" {
		synctest.Test(t, func(t *testing.T) { followUnreadable(t, dir) })
		return
	}
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "a.log"), []byte("one\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(os.Args[0], "-test.run", "^"+t.Name()+"$", "-test.timeout", "20s")
	cmd.Env = append(os.Environ(), child+"="+dir)
	out, err := cmd.CombinedOutput()
	if chmodErr := os.Chmod(dir, 0o755); chmodErr != nil {
		t.Error(chmodErr)
	}
	var exit *exec.ExitError
	if !errors.As(err, &exit) || exit.ExitCode() != 1 || !bytes.Contains(out, []byte("FATAL")) {
		t.Errorf("the process ended with %v, want status 1 by the library:\n%s", err, out)
	}
}

// followUnreadable takes the permission for a folder away while the library waits for a file in it to grow.
func followUnreadable(t *testing.T, dir string) {
	l, err := tail.TailFile(filepath.Join(dir, "a.log"), tail.Config{Follow: true, Poll: true, MustExist: true})
	if err != nil {
		t.Fatal(err)
	}
	if line := <-l.Lines; line.Text != "one" {
		t.Fatalf("got %q", line.Text)
	}
	synctest.Wait()
	if err := os.Chmod(dir, 0); err != nil {
		t.Fatal(err)
	}
	<-l.Lines
	t.Fatal("the process lives on")
}
