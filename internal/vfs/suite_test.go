package vfs_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"syscall"
	"testing"

	"github.com/metaq-go/metaq/internal/vfs"
)

// onBoth runs f on the real file system and on the one in memory, each with an empty folder.
func onBoth(t *testing.T, f func(t *testing.T, fsys vfs.FS, dir string)) {
	t.Run("os", func(t *testing.T) { f(t, vfs.OS(), t.TempDir()) })
	t.Run("mem", func(t *testing.T) {
		fsys := vfs.NewMem()
		check(t, fsys.MkdirAll("/some/dir", 0o755))
		f(t, fsys, "/some/dir")
	})
}

func check(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func wantErr(t testing.TB, what string, got, want error) {
	t.Helper()
	if !errors.Is(got, want) {
		t.Errorf("%s: got error %v, want %v", what, got, want)
	}
}

func open(t testing.TB, fsys vfs.FS, name string, flag int) vfs.File {
	t.Helper()
	f, err := fsys.OpenFile(name, flag, 0o644)
	check(t, err)
	t.Cleanup(func() { f.Close() })
	return f
}

func write(t testing.TB, f vfs.File, s string, off int64) {
	t.Helper()
	n, err := f.WriteAt([]byte(s), off)
	if err != nil || n != len(s) {
		t.Fatalf("WriteAt(%d bytes, %d) = %d, %v", len(s), off, n, err)
	}
}

func create(t testing.TB, fsys vfs.FS, name, content string) {
	t.Helper()
	f, err := fsys.OpenFile(name, os.O_RDWR|os.O_CREATE|os.O_TRUNC, 0o644)
	check(t, err)
	write(t, f, content, 0)
	check(t, f.Close())
}

func wantContent(t testing.TB, fsys vfs.FS, name, want string) {
	t.Helper()
	got, err := vfs.ReadFile(fsys, name)
	if err != nil || string(got) != want {
		t.Errorf("content of %s: got %.60q (%d bytes), %v, want %.60q (%d bytes)", name, got, len(got), err, want, len(want))
	}
}

func wantNames(t testing.TB, fsys vfs.FS, dir string, want ...string) {
	t.Helper()
	entries, err := fsys.ReadDir(dir)
	check(t, err)
	var got []string
	for _, e := range entries {
		got = append(got, e.Name())
	}
	if !slices.Equal(got, want) {
		t.Errorf("names in %s: got %q, want %q", dir, got, want)
	}
}

func TestOpenFlags(t *testing.T) {
	const (
		absent = "absent" // no such file
		file   = "file"   // holds "old"
		folder = "folder"
	)
	tests := []struct {
		what string
		name string
		flag int
		want error
		size int64 // after a successful open
	}{
		{"read absent", absent, os.O_RDONLY, fs.ErrNotExist, 0},
		{"write absent", absent, os.O_RDWR, fs.ErrNotExist, 0},
		{"create", absent, os.O_RDWR | os.O_CREATE, nil, 0},
		{"create to read", absent, os.O_RDONLY | os.O_CREATE, nil, 0},
		{"create exclusively", absent, os.O_RDWR | os.O_CREATE | os.O_EXCL, nil, 0},
		{"create in absent folder", "nowhere/x", os.O_RDWR | os.O_CREATE, fs.ErrNotExist, 0},
		{"create below a file", "file/x", os.O_RDWR | os.O_CREATE, syscall.ENOTDIR, 0},
		{"read below a file", "file/x", os.O_RDONLY, syscall.ENOTDIR, 0},
		{"no name", "", os.O_RDONLY, fs.ErrNotExist, 0},
		{"read", file, os.O_RDONLY, nil, 3},
		{"write", file, os.O_WRONLY, nil, 3},
		{"create what exists", file, os.O_RDWR | os.O_CREATE, nil, 3},
		{"create exclusively what exists", file, os.O_RDWR | os.O_CREATE | os.O_EXCL, fs.ErrExist, 0},
		{"truncate", file, os.O_RDWR | os.O_TRUNC, nil, 0},
		{"create and truncate what exists", file, os.O_RDWR | os.O_CREATE | os.O_TRUNC, nil, 0},
		{"folder to read", folder, os.O_RDONLY, syscall.EISDIR, 0},
		{"folder to write", folder, os.O_RDWR, syscall.EISDIR, 0},
		{"folder to create", folder, os.O_RDWR | os.O_CREATE, syscall.EISDIR, 0},
		{"append", file, os.O_WRONLY | os.O_APPEND, syscall.EINVAL, 0},
		{"exclusive without create", file, os.O_RDWR | os.O_EXCL, syscall.EINVAL, 0},
		{"truncate to read", file, os.O_RDONLY | os.O_TRUNC, syscall.EINVAL, 0},
		{"write-only and read-write", file, os.O_RDWR | os.O_WRONLY, syscall.EINVAL, 0},
	}
	for _, tt := range tests {
		t.Run(tt.what, func(t *testing.T) {
			onBoth(t, func(t *testing.T, fsys vfs.FS, dir string) {
				create(t, fsys, filepath.Join(dir, file), "old")
				check(t, fsys.MkdirAll(filepath.Join(dir, folder), 0o755))
				name := tt.name
				if name != "" {
					name = filepath.Join(dir, name)
				}
				f, err := fsys.OpenFile(name, tt.flag, 0o644)
				if !errors.Is(err, tt.want) {
					t.Fatalf("got error %v, want %v", err, tt.want)
				}
				if err != nil {
					var pathErr *fs.PathError
					if !errors.As(err, &pathErr) || pathErr.Path != name {
						t.Errorf("got error %#v, want a PathError of %s", err, name)
					}
					return
				}
				if got := f.Name(); got != name {
					t.Errorf("Name: got %s, want %s", got, name)
				}
				size, err := f.Size()
				if err != nil || size != tt.size {
					t.Errorf("size: got %d, %v, want %d", size, err, tt.size)
				}
				check(t, f.Close())
			})
		})
	}
}

func TestAccessMode(t *testing.T) {
	onBoth(t, func(t *testing.T, fsys vfs.FS, dir string) {
		name := filepath.Join(dir, "f")
		create(t, fsys, name, "content")
		b := make([]byte, 3)

		r := open(t, fsys, name, os.O_RDONLY)
		_, err := r.WriteAt(b, 0)
		wantErr(t, "write to a file opened for reading", err, syscall.EBADF)
		wantErr(t, "truncate it", r.Truncate(0), syscall.EINVAL)
		wantErr(t, "sync it", r.Sync(), nil)

		w := open(t, fsys, name, os.O_WRONLY)
		_, err = w.ReadAt(b, 0)
		wantErr(t, "read a file opened for writing", err, syscall.EBADF)
		write(t, w, "C", 0)
		wantContent(t, fsys, name, "Content")
	})
}

func TestReadAt(t *testing.T) {
	tests := []struct {
		len  int
		off  int64
		want string
		err  error
	}{
		{3, 0, "012", nil},
		{3, 7, "789", nil},
		{10, 0, "0123456789", nil},
		{11, 0, "0123456789", io.EOF},
		{5, 8, "89", io.EOF},
		{1, 10, "", io.EOF},
		{1, 1 << 40, "", io.EOF},
		{0, 5, "", nil},
	}
	onBoth(t, func(t *testing.T, fsys vfs.FS, dir string) {
		name := filepath.Join(dir, "f")
		create(t, fsys, name, "0123456789")
		f := open(t, fsys, name, os.O_RDONLY)
		for _, tt := range tests {
			b := bytes.Repeat([]byte{'x'}, tt.len)
			n, err := f.ReadAt(b, tt.off)
			if string(b[:n]) != tt.want || err != tt.err { //nolint:errorlint // io.ReaderAt promises io.EOF itself
				t.Errorf("ReadAt(%d bytes, %d) = %q, %v, want %q, %v", tt.len, tt.off, b[:n], err, tt.want, tt.err)
			}
		}
		if n, err := f.ReadAt(make([]byte, 3), -1); n != 0 || err == nil {
			t.Errorf("ReadAt a negative offset: got %d, %v, want an error", n, err)
		}
	})
}

func TestWriteAt(t *testing.T) {
	const page = 4 << 10 // Mem's; its edges are where it may go wrong
	zeros := func(n int) string { return string(make([]byte, n)) }
	long := string(bytes.Repeat([]byte("abcdefg"), page))
	tests := []struct {
		what string
		do   func(t *testing.T, f vfs.File)
		want string
	}{
		{"over", func(t *testing.T, f vfs.File) { write(t, f, "XY", 2) }, "01XY456789"},
		{"over the end", func(t *testing.T, f vfs.File) { write(t, f, "XYZ", 8) }, "01234567XYZ"},
		{"at the end", func(t *testing.T, f vfs.File) { write(t, f, "XYZ", 10) }, "0123456789XYZ"},
		{"past the end", func(t *testing.T, f vfs.File) { write(t, f, "XYZ", 12) }, "0123456789\x00\x00XYZ"},
		{"far past the end", func(t *testing.T, f vfs.File) { write(t, f, "X", 3*page) }, "0123456789" + zeros(3*page-10) + "X"},
		{"nothing past the end", func(t *testing.T, f vfs.File) { write(t, f, "", 100) }, "0123456789"},
		{"long", func(t *testing.T, f vfs.File) { write(t, f, long, 5) }, "01234" + long},
		{"up to a page's end", func(t *testing.T, f vfs.File) { write(t, f, long[:page-10], 10) }, "0123456789" + long[:page-10]},
		{"cut", func(t *testing.T, f vfs.File) { check(t, f.Truncate(4)) }, "0123"},
		{"cut to nothing", func(t *testing.T, f vfs.File) { check(t, f.Truncate(0)) }, ""},
		{"grow", func(t *testing.T, f vfs.File) { check(t, f.Truncate(12)) }, "0123456789\x00\x00"},
		{"grow far", func(t *testing.T, f vfs.File) { check(t, f.Truncate(2*page)) }, "0123456789" + zeros(2*page-10)},
		{"cut, then grow", func(t *testing.T, f vfs.File) {
			check(t, f.Truncate(4))
			check(t, f.Truncate(8))
		}, "0123\x00\x00\x00\x00"},
		{"cut, then write past the end", func(t *testing.T, f vfs.File) {
			check(t, f.Truncate(4))
			write(t, f, "X", 6)
		}, "0123\x00\x00X"},
		{"cut at a page, then grow", func(t *testing.T, f vfs.File) {
			write(t, f, long, 0)
			check(t, f.Truncate(page))
			check(t, f.Truncate(page+3))
		}, long[:page] + zeros(3)},
		{"cut inside a page, then grow past the next", func(t *testing.T, f vfs.File) {
			write(t, f, long, 0)
			check(t, f.Truncate(page+5))
			check(t, f.Truncate(3*page))
		}, long[:page+5] + zeros(2*page-5)},
	}
	for _, tt := range tests {
		t.Run(tt.what, func(t *testing.T) {
			onBoth(t, func(t *testing.T, fsys vfs.FS, dir string) {
				name := filepath.Join(dir, "f")
				create(t, fsys, name, "0123456789")
				f := open(t, fsys, name, os.O_RDWR)
				tt.do(t, f)
				wantContent(t, fsys, name, tt.want)
				for what, sync := range map[string]func() error{"Sync": f.Sync, "Datasync": f.Datasync} {
					wantErr(t, what, sync(), nil)
				}
				wantContent(t, fsys, name, tt.want)
			})
		})
	}
}

func TestBadPositions(t *testing.T) {
	onBoth(t, func(t *testing.T, fsys vfs.FS, dir string) {
		name := filepath.Join(dir, "f")
		create(t, fsys, name, "content")
		f := open(t, fsys, name, os.O_RDWR)
		if n, err := f.WriteAt([]byte("x"), -1); n != 0 || err == nil {
			t.Errorf("WriteAt a negative offset: got %d, %v, want an error", n, err)
		}
		wantErr(t, "truncate to a negative size", f.Truncate(-1), syscall.EINVAL)
		wantErr(t, "preallocate from a negative offset", f.Preallocate(-1, 10), syscall.EINVAL)
		wantErr(t, "preallocate nothing", f.Preallocate(0, 0), syscall.EINVAL)
		const end = 1<<63 - 1
		_, err := f.WriteAt([]byte("xy"), end-1)
		if !errors.Is(err, syscall.EFBIG) && !errors.Is(err, syscall.EINVAL) {
			t.Errorf("WriteAt near the largest offset: got error %v, want EFBIG or EINVAL", err)
		}
		wantErr(t, "truncate to the largest size", f.Truncate(end), syscall.EFBIG)
		wantContent(t, fsys, name, "content")
	})
}

func TestPreallocateKeepsTheSize(t *testing.T) {
	onBoth(t, func(t *testing.T, fsys vfs.FS, dir string) {
		name := filepath.Join(dir, "f")
		create(t, fsys, name, "content")
		f := open(t, fsys, name, os.O_RDWR)
		if err := f.Preallocate(7, 1<<20); errors.Is(err, errors.ErrUnsupported) {
			t.Skip(err)
		} else if err != nil {
			t.Fatal(err)
		}
		wantContent(t, fsys, name, "content")
		write(t, f, "!", 7)
		wantContent(t, fsys, name, "content!")
		check(t, f.Truncate(8))
		wantContent(t, fsys, name, "content!")
	})
}

func TestClosedFile(t *testing.T) {
	onBoth(t, func(t *testing.T, fsys vfs.FS, dir string) {
		name := filepath.Join(dir, "f")
		f, err := fsys.OpenFile(name, os.O_RDWR|os.O_CREATE, 0o644)
		check(t, err)
		write(t, f, "content", 0)
		check(t, f.Close())
		b := make([]byte, 3)
		calls := map[string]func() error{
			"ReadAt":      func() error { _, err := f.ReadAt(b, 0); return err },
			"WriteAt":     func() error { _, err := f.WriteAt(b, 0); return err },
			"Size":        func() error { _, err := f.Size(); return err },
			"Truncate":    func() error { return f.Truncate(1) },
			"Sync":        f.Sync,
			"Datasync":    f.Datasync,
			"Preallocate": func() error { return f.Preallocate(0, 1) },
			"Close":       f.Close,
		}
		for what, call := range calls {
			wantErr(t, what, call(), fs.ErrClosed)
		}
		if f.Name() != name {
			t.Errorf("Name: got %s, want %s", f.Name(), name)
		}
		wantContent(t, fsys, name, "content")
	})
}

// TestConcurrentUse lets writers, readers and a lister meet; the race detector looks on.
func TestConcurrentUse(t *testing.T) {
	onBoth(t, func(t *testing.T, fsys vfs.FS, dir string) {
		const writers, records, size = 4, 100, 1000
		shared := open(t, fsys, filepath.Join(dir, "shared"), os.O_RDWR|os.O_CREATE)
		var wg sync.WaitGroup
		for w := range writers {
			wg.Go(func() {
				own, err := fsys.OpenFile(filepath.Join(dir, fmt.Sprint("own", w)), os.O_RDWR|os.O_CREATE, 0o644)
				if err != nil {
					t.Error(err)
					return
				}
				defer own.Close()
				record := bytes.Repeat([]byte{byte('a' + w)}, size)
				for i := range records {
					_, err1 := own.WriteAt(record, int64(i)*size)
					_, err2 := shared.WriteAt(record, int64(i*writers+w)*size)
					_, err3 := own.ReadAt(make([]byte, size), int64(i)*size)
					_, err4 := shared.ReadAt(make([]byte, size), int64(i*writers+w)*size)
					_, err5 := fsys.ReadDir(dir)
					if err := errors.Join(err1, err2, err3, err4, err5, own.Datasync()); err != nil {
						t.Error(err)
						return
					}
				}
			})
		}
		wg.Wait()
		var want []byte
		for i := range writers * records {
			want = append(want, bytes.Repeat([]byte{byte('a' + i%writers)}, size)...)
		}
		wantContent(t, fsys, filepath.Join(dir, "shared"), string(want))
		for w := range writers {
			wantContent(t, fsys, filepath.Join(dir, fmt.Sprint("own", w)), string(bytes.Repeat([]byte{byte('a' + w)}, records*size)))
		}
	})
}
