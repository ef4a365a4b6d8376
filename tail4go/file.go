package tail4go

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"sync/atomic"
	"syscall"
	"time"
)

// file is one file that is followed. It keeps its open handle, its path and its key whatever happens to its name.
type file struct {
	seq  uint64 // files of an input in the order in which they were found
	path string // its name when it was found first
	key  []byte
	attr attrText
	win  *window

	watch   watch        // belongs to the input's scanner
	reading              // belongs to the input's reader
	sight                // guarded by input.mu
	sent    atomic.Int64 // reading.pos.at, for others
	stirred atomic.Bool  // a scan saw that the file has changed
}

// reading is how far a file has been read.
type reading struct {
	prev    *file // has to be over before this one begins; nil: nothing to wait for
	pos     position
	scanned int64 // bytes behind pos that were seen to hold no line end
	grew    time.Time
	due     time.Time // when to look again
	retry   retry
	quiet   bool // at its end, and nothing is to be done before it grows

	unreadable bool // the last try to read it failed
}

// sight is what is known of a file's place in the file system.
type sight struct {
	handle *os.File // nil: closed, or taken over by the file's next life after it was cut off
	id     fileID
	born   int64
	links  uint64
	now    string    // the name under which it was seen last
	first  int64     // where it was begun with
	seen   uint64    // the scan that saw it last
	left   time.Time // when its first name was found to be another file's, or nobody's; zero: it has it
	ended  bool      // it lost its name and was read to its end; the reader alone sets it after the file is followed
	size   int64
	head   digest
	tail   digest   // of the bytes before saved
	saved  position // as last stored
}

// over reports whether every line of a file is acknowledged and none is to come: what follows it may begin.
func (f *file) over() bool { return f.ended && f.win.mark() == f.pos }

// measure asks how long the file is, and how many names it has.
func (f *file) measure() (size int64, links uint64, err error) {
	fi, err := f.handle.Stat()
	if err != nil {
		return 0, 0, fmt.Errorf("%w: %w", errRead, err)
	}
	_, links = identify(fi)
	return fi.Size(), links, nil
}

// entry returns what is to be stored; input.mu is held.
func (f *file) entry(input string) entry {
	mark := f.win.mark()
	if mark != f.saved || f.tail.N == 0 && mark.at > 0 {
		// Without it the file is told by its first bytes alone.
		f.tail, _ = tailDigest(f.handle, mark.at)
		f.saved = mark
	}
	return entry{
		Input: input, Dev: f.id.dev, Ino: f.id.ino, Born: f.born, Seq: f.seq, Path: escaped(f.path), Now: escaped(f.now),
		Pos: mark.at, Part: mark.part, Size: f.size, Head: f.head, Tail: f.tail, Done: f.ended,
	}
}

// openRegular opens a file for reading; anything but a regular file is errNotRegular.
func openRegular(path string) (*os.File, os.FileInfo, error) {
	h, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, nil, err
	}
	fi, err := h.Stat()
	if err == nil && !fi.Mode().IsRegular() {
		err = errNotRegular
	}
	if err != nil {
		return nil, nil, errors.Join(err, h.Close())
	}
	return h, fi, nil
}

var errNotRegular = errors.New("not a regular file")

// lastLine returns the position behind the last line end among the first size bytes of a file; size if there is none within
// most bytes.
func lastLine(r io.ReaderAt, size int64, most int) (int64, error) {
	buf := make([]byte, 64<<10)
	for end := size; end > 0 && size-end <= int64(most); {
		n := min(end, int64(len(buf)))
		got, err := r.ReadAt(buf[:n], end-n)
		if err != nil && !errors.Is(err, io.EOF) {
			return 0, fmt.Errorf("look for the last line: %w", err)
		}
		if i := bytes.LastIndexByte(buf[:got], '\n'); i >= 0 {
			return end - n + int64(i) + 1, nil
		}
		end -= n
		if end == 0 {
			return 0, nil
		}
	}
	return size, nil
}
