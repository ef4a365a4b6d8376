package file

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"
)

const blockSize = 256 << 10

// block is whole lines of a file. Their texts share its memory, so that a line costs no allocation.
type block struct {
	file string
	at   int64 // offset of text
	text string
	err  error // instead of lines: reading is over
}

// cut takes the first line off.
func (b *block) cut() Line {
	text, _, found := strings.Cut(b.text, "\n")
	line := Line{File: b.file, Offset: b.at, Text: text}
	taken := len(text)
	if found {
		taken++
	}
	b.at += int64(taken)
	b.text = b.text[taken:]
	return line
}

// blockReader cuts what it reads behind line feeds.
type blockReader struct {
	name string
	max  int // bytes of a line
	emit func(block) error

	at   int64  // offset of buf
	buf  []byte // read and not emitted
	seen int    // bytes of buf that hold no line feed
}

func (b *blockReader) read(r io.Reader) error {
	b.buf = make([]byte, 0, blockSize)
	for {
		if len(b.buf) == cap(b.buf) { // one line fills it
			b.buf = append(make([]byte, 0, 2*cap(b.buf)), b.buf...)
		}
		n, err := r.Read(b.buf[len(b.buf):cap(b.buf)])
		b.buf = b.buf[:len(b.buf)+n]
		if cutErr := b.lines(); cutErr != nil {
			return cutErr
		}
		switch {
		case errors.Is(err, io.EOF):
			return b.send(len(b.buf))
		case err != nil:
			return fmt.Errorf("read %s at byte %d: %w", b.name, b.at+int64(len(b.buf)), err)
		}
	}
}

// lines emits the whole lines of buf.
func (b *blockReader) lines() error {
	if last := bytes.LastIndexByte(b.buf[b.seen:], '\n'); last >= 0 {
		if err := b.send(b.seen + last + 1); err != nil {
			return err
		}
	}
	b.seen = len(b.buf)
	if b.seen > b.max {
		return tooLong(b.name, b.at, b.max)
	}
	return nil
}

func tooLong(name string, at int64, limit int) error {
	return fmt.Errorf("read %s at byte %d: more than %d bytes: %w", name, at, limit, ErrLineTooLong)
}

// send emits the first n bytes of buf.
func (b *blockReader) send(n int) error {
	if n == 0 {
		return nil
	}
	if err := b.emit(block{file: b.name, at: b.at, text: string(b.buf[:n])}); err != nil {
		return err
	}
	b.at += int64(n)
	b.buf = append(b.buf[:0], b.buf[n:]...)
	b.seen = 0
	return nil
}
