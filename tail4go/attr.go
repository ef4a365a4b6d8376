package tail4go

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

// Attr is the attribute of a record: where its line was. As text it is a list of fields, a space between two:
//
//	host=web-1 path=/var/log/app.log pos=1234
//	host=web-1 path=/var/log/app.log pos=99 part=1+
//
// In host and path, the bytes that are controls, space, '%', '=' or no UTF-8 stand as %XX. Readers skip fields
// they don't know.
type Attr struct {
	Host string
	Path string // the name under which the file was found first; a rename doesn't change it
	Pos  int64  // of the payload's first byte in the file
	// Part counts the pieces of a line that came in several records, from 1; 0: the payload is a whole line.
	Part int
	// More: the line's end is not in this record. The next piece starts where this one ends; there is none if the line turned
	// out to be whole. As text it is a + behind the part.
	More bool
}

// String returns the attribute's text.
func (a Attr) String() string {
	return string(a.appendTail(appendAttrHead(nil, a.Host, a.Path)))
}

// appendAttrHead appends what the attributes of all lines of a file begin with.
func appendAttrHead(b []byte, host, path string) []byte {
	b = appendEscaped(append(b, "host="...), host)
	b = appendEscaped(append(b, " path="...), path)
	return append(b, " pos="...)
}

// appendTail appends what differs from line to line.
func (a Attr) appendTail(b []byte) []byte {
	return a.appendPart(strconv.AppendInt(b, a.Pos, 10))
}

func (a Attr) appendPart(b []byte) []byte {
	if a.Part > 0 {
		b = strconv.AppendInt(append(b, " part="...), int64(a.Part), 10)
		if a.More {
			b = append(b, '+')
		}
	}
	return b
}

// attrText makes the attributes of one file's lines, one after another, in one buffer. Positions mostly grow by the length of a
// line: adding that to the digits that are there takes a fifth of the time that writing them anew would.
type attrText struct {
	buf    []byte
	prefix int // buf[:prefix] is common to all lines
	digits int // buf[prefix:digits] are those of pos
	pos    int64
}

func newAttrText(host, path string) attrText {
	b := appendAttrHead(nil, host, path)
	n := len(b)
	b = slices.Grow(b, len("9223372036854775807 part=9223372036854775807+"))
	return attrText{buf: b, prefix: n, digits: n}
}

// of returns the text of an attribute with this file's host and path, valid until the next call.
func (t *attrText) of(a Attr) []byte {
	grows := a.Pos - t.pos
	if t.digits == t.prefix || grows < 0 || grows > 1<<20 || !addDecimal(t.buf[t.prefix:t.digits], uint64(grows)) {
		t.digits = len(strconv.AppendInt(t.buf[:t.prefix], a.Pos, 10))
	}
	t.pos = a.Pos
	return a.appendPart(t.buf[:t.digits])
}

// addDecimal adds n to a number in decimal digits, and reports whether it had enough of them.
func addDecimal(digits []byte, n uint64) bool {
	for i := len(digits) - 1; i >= 0 && n > 0; i-- {
		n += uint64(digits[i] - '0')
		digits[i] = '0' + byte(n%10)
		n /= 10
	}
	return n == 0
}

// ParseAttr reads the text of an attribute. Its error names the field that is missing or malformed.
func ParseAttr(text []byte) (Attr, error) {
	var a Attr
	seen := make(map[string]bool, 4)
	for field := range strings.FieldsSeq(string(text)) {
		name, value, _ := strings.Cut(field, "=")
		if err := a.set(name, value); err != nil {
			return Attr{}, fmt.Errorf("attribute %q: field %s: %w", text, name, err)
		}
		seen[name] = true
	}
	for _, name := range []string{"host", "path", "pos"} {
		if !seen[name] {
			return Attr{}, fmt.Errorf("attribute %q: no field %s", text, name)
		}
	}
	return a, nil
}

func (a *Attr) set(name, value string) (err error) {
	switch name {
	case "host":
		a.Host, err = unescape(value)
	case "path":
		a.Path, err = unescape(value)
	case "pos":
		var n uint64
		n, err = strconv.ParseUint(value, 10, 63)
		a.Pos = int64(n)
	case "part":
		value, a.More = strings.CutSuffix(value, "+")
		var n uint64
		n, err = strconv.ParseUint(value, 10, 31)
		a.Part = int(n)
		if err == nil && n == 0 {
			err = fmt.Errorf("parts count from 1")
		}
	}
	return err
}

const hexDigits = "0123456789ABCDEF"

func appendEscaped(b []byte, s string) []byte {
	for i := 0; i < len(s); {
		r, n := utf8.DecodeRuneInString(s[i:])
		// Every kind of space and control is taken, not only ASCII's: readers split the text at white space.
		if r == '%' || r == '=' || r == utf8.RuneError && n == 1 || r <= ' ' || r == 0x7f || n > 1 && !strconv.IsPrint(r) {
			for _, c := range []byte(s[i : i+n]) {
				b = append(b, '%', hexDigits[c>>4], hexDigits[c&15])
			}
		} else {
			b = append(b, s[i:i+n]...)
		}
		i += n
	}
	return b
}

func unescape(s string) (string, error) {
	if !strings.Contains(s, "%") {
		return s, nil
	}
	b := make([]byte, 0, len(s))
	for i := 0; i < len(s); i++ {
		if s[i] != '%' {
			b = append(b, s[i])
			continue
		}
		if i+2 >= len(s) {
			return "", fmt.Errorf("%q ends within an escape", s)
		}
		n, err := strconv.ParseUint(s[i+1:i+3], 16, 8)
		if err != nil {
			return "", fmt.Errorf("%q is no escape", s[i:i+3])
		}
		b = append(b, byte(n))
		i += 2
	}
	return string(b), nil
}
