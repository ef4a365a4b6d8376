package protocol

import (
	"bytes"
	"errors"
	"fmt"
	"io"
)

// Limits bound what a peer can make a Reader hold in memory. Zero values mean the defaults.
type Limits struct {
	// Line is the longest line, without its CRLF: default 64 KiB. A longer one is ErrLineTooLong.
	Line int
	// Body is the longest body that is read: default 16 MiB. The body of a longer put or append, up to Skip, is read past,
	// so that the broker can refuse it by name; a longer body of a response is ErrBodyTooLong.
	Body int
	// Skip is the longest body that is read past: default 64 MiB. Anything longer is ErrBodyTooLong.
	Skip int
}

func (l Limits) withDefaults() Limits {
	if l.Line <= 0 {
		l.Line = 64 << 10
	}
	if l.Body <= 0 {
		l.Body = 16 << 20
	}
	if l.Skip <= 0 {
		l.Skip = 64 << 20
	}
	l.Skip = max(l.Skip, l.Body)
	return l
}

// Errors of a Reader. After any of them the stream has lost its frame: the connection is to be closed, a server sends
// nothing more (protocol.md 2.3).
var (
	ErrSyntax      = errors.New("protocol: bad line")
	ErrLineTooLong = errors.New("protocol: line too long")
	ErrBodyTooLong = errors.New("protocol: body too long")
)

const (
	minBuffer    = 16 << 10
	readBuffer   = 256 << 10 // as far as a buffer grows to read ahead
	keepBuffer   = 2 << 20   // a buffer made bigger than this by a large body is given back
	keepMessages = 16        // after so many that did not need it

	maxEmptyReads = 100 // in a row, before a source that gives neither bytes nor an error is given up
)

// Reader decodes what arrives on one connection. It reads ahead as much as the source gives at once and calls the
// source only when what it holds is no complete message: a source that wants to know when the input runs dry does so in
// its Read. Not safe for concurrent use.
type Reader struct {
	src    io.Reader
	lim    Limits
	buf    []byte // buf[r:w] was read from src and not yet handed out
	r, w   int
	small  int  // messages since the last one that needed a big buffer
	greedy bool // the last read filled the buffer: the next one may as well ask for more
}

// NewReader returns a Reader of src. It allocates its buffer at the first call that needs it.
func NewReader(src io.Reader, lim Limits) *Reader {
	return &Reader{src: src, lim: lim.withDefaults()}
}

// Buffered returns the number of bytes read from the source and not yet decoded.
func (rd *Reader) Buffered() int { return rd.w - rd.r }

// Request reads the next request into q, body included. It returns io.EOF at a clean end of the stream,
// io.ErrUnexpectedEOF at an end inside a message, ErrSyntax, ErrLineTooLong or ErrBodyTooLong for what no client may
// send, and the source's errors. Lines that are responses are read past with their bodies, as the original does.
func (rd *Reader) Request(q *Request) error {
	for {
		n, err := rd.line()
		if err != nil {
			return err
		}
		f := fieldsOf(rd.buf[rd.r : rd.r+n])
		*q = Request{Verb: verbOf(f.word())}
		switch q.Verb {
		case VerbPut, VerbAppend:
			return rd.requestWithBody(q, n, &f)
		case VerbResult, VerbValue:
			if err := rd.skipResponse(n); err != nil {
				return err
			}
		default:
			rd.r += n + 2
			return parseRequest(q, &f)
		}
	}
}

// requestWithBody waits for the body before it judges any field but the length, as the original does: a bad line is
// noticed with the last byte of its body (protocol.md 2.3).
func (rd *Reader) requestWithBody(q *Request, n int, f *fields) error {
	size, ok := parseHead(q, f)
	if !ok {
		f.bad = true
		return f.err()
	}
	if int(size) > rd.lim.Body {
		return rd.requestTooLong(q, n, f, int(size))
	}
	end := n + 2 + int(size)
	if rd.w-rd.r < end {
		if err := rd.fill(end); err != nil {
			return noEOF(err)
		}
		*f = fieldsOf(rd.buf[rd.r : rd.r+n]) // fill may have moved the line
		f.word()
		parseHead(q, f)
	}
	q.Body = rd.buf[rd.r+n+2 : rd.r+end : rd.r+end]
	rd.r += end
	return parseRequest(q, f)
}

func (rd *Reader) requestTooLong(q *Request, n int, f *fields, size int) error {
	if size > rd.lim.Skip {
		return fmt.Errorf("%w: %s of %d bytes", ErrBodyTooLong, q.Verb, size)
	}
	if err := parseRequest(q, f); err != nil {
		return err
	}
	q.TooLong = int32(size)
	q.Topic, q.TxKey = bytes.Clone(q.Topic), bytes.Clone(q.TxKey) // skip overwrites the line
	rd.r += n + 2
	return rd.skip(size)
}

// skipResponse reads past a response whose line has n bytes.
func (rd *Reader) skipResponse(n int) error {
	var p Response
	f := fieldsOf(rd.buf[rd.r : rd.r+n])
	size, err := parseResponse(&p, &f)
	if err != nil {
		return err
	}
	rd.r += n + 2
	return rd.skip(int(size))
}

// ResponseLine reads the line of the next response into p and returns the length of its body, which the caller must
// take with Body or ReadBody before anything else. Errors are those of Request; a line that is no response is ErrSyntax.
func (rd *Reader) ResponseLine(p *Response) (length int, err error) {
	n, err := rd.line()
	if err != nil {
		return 0, err
	}
	f := fieldsOf(rd.buf[rd.r : rd.r+n])
	size, err := parseResponse(p, &f)
	if err != nil {
		return 0, err
	}
	if int(size) > rd.lim.Body {
		return 0, fmt.Errorf("%w: %s of %d bytes", ErrBodyTooLong, p.Verb, size)
	}
	rd.r += n + 2
	return int(size), nil
}

// ReadBody fills dst with the body that ResponseLine announced; what is not buffered yet goes from the source straight
// into dst.
func (rd *Reader) ReadBody(dst []byte) error {
	n := copy(dst, rd.buf[rd.r:rd.w])
	rd.r += n
	if n == len(dst) {
		return nil
	}
	_, err := io.ReadFull(rd.src, dst[n:])
	return noEOF(err)
}

// Body returns the body of n bytes that ResponseLine announced. It aliases the reader's buffer until the next call.
func (rd *Reader) Body(n int) ([]byte, error) {
	if err := rd.fill(n); err != nil {
		return nil, noEOF(err)
	}
	body := rd.buf[rd.r : rd.r+n : rd.r+n]
	rd.r += n
	return body, nil
}

// Response reads the next response into p, whose body aliases the reader's buffer until the next call.
func (rd *Reader) Response(p *Response) error {
	n, err := rd.ResponseLine(p)
	if err != nil {
		return err
	}
	p.Body, err = rd.Body(n)
	return err
}

// line makes sure that the buffer starts with a whole line and returns its length without CRLF. Only the pair CRLF ends
// a line; a lone CR or LF is an ordinary byte of it (protocol.md 2.3).
func (rd *Reader) line() (n int, err error) {
	rd.settle()
	for seen := 0; ; {
		b := rd.buf[rd.r:rd.w]
		for {
			i := bytes.IndexByte(b[seen:], '\n')
			if i < 0 {
				break
			}
			seen += i + 1
			if seen < 2 || b[seen-2] != '\r' {
				continue
			}
			if n = seen - 2; n > rd.lim.Line {
				return 0, ErrLineTooLong
			}
			return n, nil
		}
		seen = len(b)
		if seen > rd.lim.Line+1 {
			return 0, ErrLineTooLong
		}
		if err := rd.fill(len(b) + 1); err != nil {
			if len(b) > 0 {
				err = noEOF(err)
			}
			return 0, err
		}
	}
}

// settle prepares the buffer for the next message: an empty one starts over, and one that was made big for a message
// long ago is given back.
func (rd *Reader) settle() {
	if rd.r < rd.w {
		return
	}
	rd.r, rd.w = 0, 0
	if len(rd.buf) > keepBuffer {
		if rd.small++; rd.small > keepMessages {
			rd.buf, rd.small = nil, 0
		}
	}
}

// fill reads until at least need bytes are buffered. The buffer grows with what arrives, not with what was announced: a
// peer has to send bytes to make us hold memory.
func (rd *Reader) fill(need int) error {
	for empty := 0; rd.w-rd.r < need; empty++ {
		rd.room(need)
		n, err := rd.src.Read(rd.buf[rd.w:])
		if n > 0 {
			empty = 0
		} else if err == nil && empty == maxEmptyReads {
			err = io.ErrNoProgress
		}
		rd.w += n
		rd.greedy = rd.w == len(rd.buf)
		if rd.w-rd.r >= need {
			return nil
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// room makes space behind w: by moving what is there to the front, by a bigger buffer when that is full.
func (rd *Reader) room(need int) {
	have := rd.w - rd.r
	size := len(rd.buf)
	switch {
	case size == 0:
		size = minBuffer
	case have == size:
		size = min(2*size, max(need, size+minBuffer))
	case rd.greedy && size < readBuffer:
		size *= 2
	}
	if need > keepBuffer {
		rd.small = 0
	}
	rd.greedy = false
	if size > len(rd.buf) {
		buf := make([]byte, size)
		copy(buf, rd.buf[rd.r:rd.w])
		rd.buf = buf
	} else if rd.r > 0 && (rd.w == size || rd.r+need > size) {
		copy(rd.buf, rd.buf[rd.r:rd.w])
	} else {
		return
	}
	rd.r, rd.w = 0, have
}

// skip reads past n bytes.
func (rd *Reader) skip(n int) error {
	for {
		k := min(n, rd.w-rd.r)
		rd.r += k
		if n -= k; n == 0 {
			return nil
		}
		rd.r, rd.w = 0, 0
		if err := rd.fill(1); err != nil {
			return noEOF(err)
		}
	}
}

// noEOF makes the end of the stream an error where a message is not complete.
func noEOF(err error) error {
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}
