package protocol

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math"
)

// fields walks over the fields of a line. A field that is missing or is not what was asked for makes the line bad and
// reads as zero, so that a parser asks for all it wants and looks at bad once.
type fields struct {
	line []byte // without trailing spaces: trailing empty fields do not count (protocol.md 2.3)
	pos  int    // where the next field starts; beyond the line after the last one
	bad  bool
}

func fieldsOf(line []byte) fields {
	for len(line) > 0 && line[len(line)-1] == ' ' {
		line = line[:len(line)-1]
	}
	return fields{line: line[:len(line):len(line)]}
}

// more reports whether there is another field.
func (f *fields) more() bool { return f.pos < len(f.line) }

// left counts the fields that are left.
func (f *fields) left() int {
	if !f.more() {
		return 0
	}
	return bytes.Count(f.line[f.pos:], []byte{' '}) + 1
}

// number reports whether the next field begins like a number, which tells a checksum from a transaction key.
func (f *fields) number() bool {
	if !f.more() {
		return false
	}
	c := f.line[f.pos]
	return c == '-' || c >= '0' && c <= '9'
}

// err returns ErrSyntax if the line is bad. It names the verb only: other fields are not for everybody who reads a log.
func (f *fields) err() error {
	if !f.bad {
		return nil
	}
	f.pos = 0
	n := f.left()
	return fmt.Errorf("%w: %.20q with %d fields", ErrSyntax, f.word(), n)
}

// word takes the next field, which may be empty.
func (f *fields) word() []byte {
	if !f.more() {
		f.bad = true
		return nil
	}
	start, end := f.pos, f.pos
	for end < len(f.line) && f.line[end] != ' ' {
		end++
	}
	f.pos = end + 1
	return f.line[start:end:end]
}

// name takes a topic or group. Empty ones come from a double space, which shifts the fields.
func (f *fields) name() []byte {
	w := f.word()
	f.bad = f.bad || len(w) == 0
	return w
}

// int32 takes one of the numbers that are 32 bits wide on the wire: all but offsets and message ids.
func (f *fields) int32() int32 {
	n := f.int64()
	if n != int64(int32(n)) {
		f.bad = true
	}
	return int32(n)
}

// int64 takes a number as [parseInt] reads it.
func (f *fields) int64() int64 {
	line, i := f.line, f.pos
	neg := false
	if i < len(line) && (line[i] == '-' || line[i] == '+') {
		neg = line[i] == '-'
		i++
	}
	start, n := i, uint64(0)
	if len(line)-i >= 8 {
		if v, ok := eightDigits(binary.LittleEndian.Uint64(line[i:])); ok {
			n = uint64(v)
			i += 8
		}
	}
	for ; i < len(line); i++ {
		d := line[i] - '0'
		if d > 9 {
			break
		}
		n = n*10 + uint64(d)
	}
	// What is no number, or has more digits than are sure to fit into n, is left to parseInt.
	if i == start || i-start > 19 || n > math.MaxInt64 || i < len(line) && line[i] != ' ' {
		n, ok := parseInt(f.word())
		f.bad = f.bad || !ok
		return n
	}
	f.pos = i + 1
	if neg {
		return -int64(n)
	}
	return int64(n)
}

// eightDigits reads eight digits at once, the first of them in the lowest byte; ok is false if one of them is none.
func eightDigits(w uint64) (n uint32, ok bool) {
	const zeros = 0x3030303030303030
	if w&(w+0x0606060606060606)&0xf0f0f0f0f0f0f0f0 != zeros {
		return 0, false
	}
	w -= zeros
	w = w*10 + w>>8                                         // pairs, in every second byte
	w = w&0x00ff00ff00ff00ff*100 + w>>16&0x00ff00ff00ff00ff // fours
	return uint32(w&0xffff)*10000 + uint32(w>>32&0xffff), true
}

// parseInt reads a decimal number as the original does: an optional sign, then digits; leading zeros are fine. ok is
// false for anything else and for what does not fit into an int64.
func parseInt(b []byte) (n int64, ok bool) {
	neg := false
	if len(b) > 0 && (b[0] == '-' || b[0] == '+') {
		neg, b = b[0] == '-', b[1:]
	}
	if len(b) == 0 {
		return 0, false
	}
	var u uint64
	for _, c := range b {
		d := c - '0'
		if d > 9 || u > (math.MaxUint64-9)/10 {
			return 0, false
		}
		u = u*10 + uint64(d)
	}
	if neg {
		return -int64(u), u <= 1<<63
	}
	return int64(u), u <= math.MaxInt64
}

// parseInt32 is parseInt for what has to fit into an int32.
func parseInt32(b []byte) (int32, bool) {
	n, ok := parseInt(b)
	return int32(n), ok && n >= math.MinInt32 && n <= math.MaxInt32
}
