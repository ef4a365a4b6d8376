package tail4go

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"unicode/utf8"

	"github.com/metaq-go/metaq/client"
)

// errRead means that an open file could not be read: it stays, and is tried again.
var errRead = errors.New("file can't be read")

const (
	chunkBytes = 64 << 10 // read at once
	turnBytes  = 1 << 20  // a file may send before the next one has its turn
	minLine    = 16       // of Config.MaxLine
)

// pump sends the complete lines of a file, up to a turn's worth of them. It reports whether there was anything new, and
// whether the end was reached.
//
// What is left over of a line is not kept but read again with its rest, so files cost no memory; only of a long unfinished
// line the part seen is remembered as its length.
func (in *input) pump(ctx context.Context, f *file) (grew, end bool, err error) {
	h := f.handle
	for budget := turnBytes; budget > 0; {
		from := f.scanned
		if from < chunkBytes/2 {
			from = 0
		}
		n, err := h.ReadAt(in.buf, f.pos.at+from)
		if err != nil && !errors.Is(err, io.EOF) {
			return grew, false, fmt.Errorf("%w: %w", errRead, err)
		}
		b := in.buf[:n]
		if from+int64(n) <= f.scanned {
			return grew, true, nil
		}
		grew = true
		in.settled.Store(nil)
		budget -= n
		if from > 0 {
			if f.scanned+int64(n) < int64(in.cfg.MaxLine)+2 && bytes.IndexByte(b, '\n') < 0 {
				f.scanned += int64(n)
				continue
			}
			if b, err = in.load(h, f.pos.at, int(f.scanned)+n); err != nil {
				return grew, false, err
			}
		}
		used, err := in.ship(ctx, f, b)
		if err != nil {
			f.scanned = 0 // lines that were not sent
			return grew, false, err
		}
		f.scanned = int64(len(b) - used)
	}
	return grew, false, nil
}

// keepLong is how big a buffer for long lines may be to be kept.
const keepLong = 4 << 20

// load reads n bytes, which may be more than a chunk; fewer if the file has become shorter.
func (in *input) load(h *os.File, from int64, n int) ([]byte, error) {
	b := in.buf
	if n > len(b) {
		if n > len(in.long) {
			in.long = make([]byte, n)
		}
		b = in.long
		if len(b) > keepLong {
			in.long = nil
		}
	}
	got, err := h.ReadAt(b[:n], from)
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("%w: %w", errRead, err)
	}
	return b[:got], nil
}

// ship sends the complete lines at the beginning of b, which is the file from its position on, and returns how many bytes
// they took. A line that is too long counts as complete as soon as a piece of it is.
func (in *input) ship(ctx context.Context, f *file, b []byte) (used int, err error) {
	lines := int64(0)
	for {
		payload, n, more := in.line(b[used:])
		if n == 0 {
			break
		}
		end := position{at: f.pos.at + int64(n)}
		if more {
			end.part = f.pos.part + 1
		}
		if err = in.send(ctx, f, payload, end); err != nil {
			break
		}
		used += n
		if lines++; lines == noteLines {
			in.shipped(f, lines)
			lines = 0
		}
	}
	in.shipped(f, lines)
	return used, err
}

// noteLines is after how many lines others learn of them: a send may wait for long.
const noteLines = 32

func (in *input) shipped(f *file, lines int64) {
	f.sent.Store(f.pos.at)
	in.count.lines.Add(lines)
}

// sendPartial sends what there is of an unfinished last line.
func (in *input) sendPartial(ctx context.Context, f *file) error {
	b, err := in.load(f.handle, f.pos.at, int(f.scanned))
	if err != nil {
		return err
	}
	for len(b) > 0 {
		n := len(b)
		if n > in.cfg.MaxLine {
			n = cut(b, in.cfg.MaxLine)
		}
		if err := in.send(ctx, f, b[:n], position{f.pos.at + int64(n), f.pos.part + 1}); err != nil {
			return err
		}
		in.shipped(f, 1)
		f.scanned -= int64(n)
		b = b[n:]
	}
	return nil
}

// line returns the payload of the first line in b and how many bytes of b it takes; 0 if it isn't complete. more: it is only
// a piece, because the line is too long.
func (in *input) line(b []byte) (payload []byte, n int, more bool) {
	most := in.cfg.MaxLine
	i := bytes.IndexByte(b[:min(len(b), most+2)], '\n')
	switch {
	case i >= 0 && i <= most, i == most+1 && b[most] == '\r' && !in.cfg.KeepCR:
		return in.trim(b[:i]), i + 1, false
	case len(b) >= most+2:
		n = cut(b, most)
		return b[:n], n, true
	}
	return nil, 0, false
}

// trim takes the CR off the end of a line.
func (in *input) trim(line []byte) []byte {
	if n := len(line); n > 0 && line[n-1] == '\r' && !in.cfg.KeepCR {
		return line[:n-1]
	}
	return line
}

// cut returns where to cut b so that no more than most bytes come before it: between two characters, if it is UTF-8.
func cut(b []byte, most int) int {
	for n := most; n > most-utf8.UTFMax; n-- {
		if utf8.RuneStart(b[n]) {
			return n
		}
	}
	return most
}

// send sends one record, the bytes of the file from its position to end.
func (in *input) send(ctx context.Context, f *file, payload []byte, end position) error {
	if len(payload) == 0 && end.part == 0 && f.pos.part > 0 {
		// The end of a line all of which was sent.
		f.win.skip(end)
		f.pos = end
		return nil
	}
	tag, answer := f.win.add(end)
	m := in.message(f, payload, f.pos, end, tag)
	if err := in.sender.SendAsync(ctx, m, answer); err != nil {
		f.win.undo()
		return fmt.Errorf("send a line of %s at %d: %w", f.path, f.pos.at, err)
	}
	f.pos = end
	return nil
}

// message returns the record of a line, valid until the next call.
func (in *input) message(f *file, payload []byte, from, end position, tag int64) *client.Message {
	a := Attr{Pos: from.at, More: end.part > 0}
	if a.More || from.part > 0 {
		a.Part = from.part + 1
	}
	m := &in.msg
	m.Topic = in.Topic
	m.Attr = f.attr.of(a)
	m.Payload = payload
	m.Tag = tag
	switch {
	case in.keyRE != nil:
		m.Key = in.keyOf(f, payload)
	case in.Key == KeyFile:
		m.Key = f.key
	}
	return m
}

// keyOf returns the key that a line carries, the file's if it has none.
func (in *input) keyOf(f *file, line []byte) []byte {
	found := in.keyRE.FindSubmatchIndex(line)
	switch {
	case found == nil:
		return f.key
	case len(found) >= 4 && found[2] >= 0:
		return line[found[2]:found[3]]
	}
	return line[found[0]:found[1]]
}
