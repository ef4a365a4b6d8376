package vfs_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"pgregory.net/rapid"

	"github.com/metaq-go/metaq/internal/vfs"
)

// TestMemIsTheOSTwin makes the same random calls on both file systems and wants the same answers.
func TestMemIsTheOSTwin(t *testing.T) {
	base := t.TempDir()
	runs := 0
	rapid.Check(t, func(t *rapid.T) {
		runs++
		dir := filepath.Join(base, fmt.Sprint(runs))
		tw := &twins{fss: [2]vfs.FS{vfs.OS(), vfs.NewMem()}, dir: dir}
		for _, fsys := range tw.fss {
			if err := fsys.MkdirAll(dir, 0o755); err != nil {
				t.Fatal(err)
			}
		}
		defer tw.close()
		t.Repeat(map[string]func(*rapid.T){
			"OpenFile": tw.openFile,
			"file":     tw.useFile,
			"file2":    tw.useFile, // twice as often
			"names":    tw.useNames,
			"lock":     tw.lock,
		})
		if got, want := tree(t, tw.fss[1], dir), tree(t, tw.fss[0], dir); got != want {
			t.Fatalf("in the end mem has:\n%sos has:\n%s", got, want)
		}
	})
}

type twins struct {
	fss   [2]vfs.FS // os, mem
	dir   string
	files [][2]vfs.File
	locks [][2]io.Closer
}

// both makes a call on each file system and compares what they say.
func (tw *twins) both(t *rapid.T, what string, call func(i int) (any, error)) bool {
	got0, err0 := call(0)
	got1, err1 := call(1)
	if errorClass(err0) != errorClass(err1) || fmt.Sprint(got0) != fmt.Sprint(got1) {
		t.Fatalf("%s:\nos:  %.200q %v\nmem: %.200q %v", what, fmt.Sprint(got0), err0, fmt.Sprint(got1), err1)
	}
	return err0 == nil
}

// errorClass returns what a caller may ask of an error.
func errorClass(err error) string {
	var errno syscall.Errno
	for _, known := range []error{nil, fs.ErrClosed, vfs.ErrLocked, io.EOF} {
		if errors.Is(err, known) {
			return fmt.Sprint(known)
		}
	}
	if errors.As(err, &errno) {
		return errno.Error()
	}
	return "other"
}

var someNames = rapid.SampledFrom([]string{"a", "b", "d", "d/a", "d/b", "d/e", "d/e/a", "d/e/f", "c", "a/b"})

func (tw *twins) name(t *rapid.T, label string) string {
	return filepath.Join(tw.dir, someNames.Draw(t, label))
}

func (tw *twins) openFile(t *rapid.T) {
	name := tw.name(t, "name")
	flag := rapid.SampledFrom([]int{os.O_RDONLY, os.O_RDWR, os.O_RDWR, os.O_WRONLY}).Draw(t, "access")
	for _, f := range []int{os.O_CREATE, os.O_CREATE, os.O_EXCL, os.O_TRUNC} {
		if rapid.Bool().Draw(t, "flag") {
			flag |= f
		}
	}
	var pair [2]vfs.File
	if tw.both(t, fmt.Sprintf("OpenFile(%s, %#x)", name, flag), func(i int) (_ any, err error) {
		pair[i], err = tw.fss[i].OpenFile(name, flag, 0o644)
		return nil, err
	}) {
		tw.files = append(tw.files, pair)
	}
}

func (tw *twins) useFile(t *rapid.T) {
	if len(tw.files) == 0 {
		t.Skip("none open")
	}
	pair := rapid.SampledFrom(tw.files).Draw(t, "file")
	const page = 4 << 10
	offsets := rapid.OneOf(rapid.Int64Range(0, 100), rapid.Int64Range(page-20, page+20), rapid.Int64Range(0, 4*page))
	off, n := offsets.Draw(t, "off"), offsets.Draw(t, "n")
	switch kind := rapid.SampledFrom([]string{"read", "write", "write", "truncate", "size", "sync", "preallocate", "close"}).Draw(t, "op"); kind {
	case "read":
		tw.both(t, fmt.Sprintf("ReadAt(%d bytes, %d)", n+1, off), func(i int) (any, error) {
			b := make([]byte, n+1)
			n, err := pair[i].ReadAt(b, off)
			return b[:n], err
		})
	case "write":
		b := bytes.Repeat([]byte{byte(rapid.IntRange('a', 'z').Draw(t, "byte"))}, int(n)+1)
		tw.both(t, fmt.Sprintf("WriteAt(%d bytes, %d)", len(b), off), func(i int) (any, error) { return pair[i].WriteAt(b, off) })
	case "truncate":
		tw.both(t, fmt.Sprintf("Truncate(%d)", off), func(i int) (any, error) { return nil, pair[i].Truncate(off) })
	case "size":
		tw.both(t, "Size", func(i int) (any, error) { return pair[i].Size() })
	case "sync":
		tw.both(t, "Datasync", func(i int) (any, error) { return nil, pair[i].Datasync() })
	case "preallocate":
		err := pair[0].Preallocate(off, n)
		if !errors.Is(err, errors.ErrUnsupported) {
			tw.both(t, fmt.Sprintf("Preallocate(%d, %d)", off, n), func(i int) (any, error) { return nil, pair[i].Preallocate(off, n) })
		}
	case "close":
		if rapid.IntRange(0, 3).Draw(t, "really") == 0 {
			tw.both(t, "Close", func(i int) (any, error) { return nil, pair[i].Close() })
		}
	}
}

func (tw *twins) useNames(t *rapid.T) {
	name := tw.name(t, "name")
	switch kind := rapid.SampledFrom([]string{"rename", "rename", "remove", "mkdir", "mkdir", "readdir", "stat", "syncdir"}).Draw(t, "op"); kind {
	case "rename":
		to := tw.name(t, "to")
		tw.both(t, fmt.Sprintf("Rename(%s, %s)", name, to), func(i int) (any, error) { return nil, tw.fss[i].Rename(name, to) })
	case "remove":
		tw.both(t, fmt.Sprintf("Remove(%s)", name), func(i int) (any, error) { return nil, tw.fss[i].Remove(name) })
	case "mkdir":
		tw.both(t, fmt.Sprintf("MkdirAll(%s)", name), func(i int) (any, error) { return nil, tw.fss[i].MkdirAll(name, 0o755) })
	case "readdir":
		tw.both(t, fmt.Sprintf("ReadDir(%s)", name), func(i int) (any, error) {
			entries, err := tw.fss[i].ReadDir(name)
			return entries, err
		})
	case "stat":
		tw.both(t, fmt.Sprintf("Stat(%s)", name), func(i int) (any, error) {
			info, err := tw.fss[i].Stat(name)
			if err != nil || info.IsDir() {
				return nil, err
			}
			return fmt.Sprint(info.Name(), info.Size(), info.Mode()), nil
		})
	case "syncdir":
		if info, err := tw.fss[0].Stat(name); err == nil && info.IsDir() {
			tw.both(t, fmt.Sprintf("SyncDir(%s)", name), func(i int) (any, error) { return nil, tw.fss[i].SyncDir(name) })
		}
	}
}

func (tw *twins) lock(t *rapid.T) {
	if len(tw.locks) > 0 && rapid.Bool().Draw(t, "unlock") {
		pair := rapid.SampledFrom(tw.locks).Draw(t, "lock")
		tw.both(t, "unlock", func(i int) (any, error) { return nil, pair[i].Close() })
		return
	}
	name := tw.name(t, "name")
	var pair [2]io.Closer
	if tw.both(t, fmt.Sprintf("Lock(%s)", name), func(i int) (_ any, err error) {
		pair[i], err = tw.fss[i].Lock(name)
		return nil, err
	}) {
		tw.locks = append(tw.locks, pair)
	}
}

func (tw *twins) close() {
	for _, pair := range tw.files {
		pair[0].Close()
	}
	for _, pair := range tw.locks {
		pair[0].Close()
	}
	os.RemoveAll(tw.dir)
}

// tree returns names, kinds and contents below dir as text.
func tree(t interface{ Fatal(args ...any) }, fsys vfs.FS, dir string) string {
	var b strings.Builder
	var walk func(dir, indent string)
	walk = func(dir, indent string) {
		entries, err := fsys.ReadDir(dir)
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range entries {
			name := filepath.Join(dir, e.Name())
			if e.IsDir() {
				fmt.Fprintf(&b, "%s%s/\n", indent, e.Name())
				walk(name, indent+"  ")
				continue
			}
			content, err := vfs.ReadFile(fsys, name)
			if err != nil {
				t.Fatal(err)
			}
			fmt.Fprintf(&b, "%s%s %q\n", indent, e.Name(), content)
		}
	}
	walk(dir, "")
	return b.String()
}
