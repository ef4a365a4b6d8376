package protocol_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"math"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/metaq-go/metaq/protocol"
)

// rawRecord builds a record from its fields alone, right or wrong.
func rawRecord(length, checksum int32, id int64, flag int32, body []byte) []byte {
	r := binary.BigEndian.AppendUint32(nil, uint32(length))
	r = binary.BigEndian.AppendUint32(r, uint32(checksum))
	r = binary.BigEndian.AppendUint64(r, uint64(id))
	r = binary.BigEndian.AppendUint32(r, uint32(flag))
	return append(r, body...)
}

func TestDecodeRecord(t *testing.T) {
	whole := rawRecord(5, 907060870, 1, 0, bs("hello"))
	for n := range whole {
		if _, err := protocol.DecodeRecord(whole[:n]); !errors.Is(err, protocol.ErrShort) {
			t.Errorf("record cut after %d bytes: got error %v, want %v", n, err, protocol.ErrShort)
		}
	}
	for name, v := range map[string]struct {
		buf  []byte
		want error
	}{
		"length -1":            {rawRecord(-1, 0, 1, 0, bs("hello")), protocol.ErrMalformed},
		"length -20":           {rawRecord(-20, 0, 1, 0, nil), protocol.ErrMalformed},
		"smallest length":      {rawRecord(math.MinInt32, 0, 1, 0, nil), protocol.ErrMalformed},
		"largest length":       {rawRecord(math.MaxInt32, 0, 1, 0, bs("hello")), protocol.ErrShort},
		"checksum not checked": {rawRecord(5, 1, 1, 0, bs("hello")), nil},
	} {
		if _, err := protocol.DecodeRecord(v.buf); !errors.Is(err, v.want) {
			t.Errorf("%s: got error %v, want %v", name, err, v.want)
		}
	}
	r := protocol.Record{Checksum: 907060870, Body: bs("hellp")}
	wantErr(t, r.Verify(), protocol.ErrChecksum)
	r = protocol.Record{Checksum: math.MinInt32 | 907060870, Body: bs("hello")} // top bit set
	wantErr(t, r.Verify(), protocol.ErrChecksum)
}

// TestDecodedCapacity: who appends to a decoded slice does not write into what follows it.
func TestDecodedCapacity(t *testing.T) {
	buf := protocol.AppendMessage(nil, 1, bs("attr"), bs("payload"))
	buf = protocol.AppendMessage(buf, 2, nil, bs("next"))
	before := bytes.Clone(buf)
	first, _ := protocol.DecodeRecord(buf)
	_ = append(first.Body, "xxxxxxxx"...)
	for _, r := range protocol.Records(buf) {
		attr, payload, err := r.Content()
		if err != nil {
			t.Fatal(err)
		}
		_ = append(r.Body, "xxxxxxxx"...)
		_ = append(attr, "xxxxxxxx"...)
		_ = append(payload, "xxxxxxxx"...)
	}
	if !bytes.Equal(buf, before) {
		t.Errorf("buffer is now %q, want %q", buf, before)
	}
}

func TestSplitBody(t *testing.T) {
	for name, v := range map[string]struct {
		flag          int32
		body          string
		attr, payload []byte
		bad           bool
	}{
		"no attribute":             {0, "\x00\x00\x00\x01ab", nil, bs("\x00\x00\x00\x01ab"), false},
		"other bits mean nothing":  {-2, "abc", nil, bs("abc"), false},
		"attribute":                {1, "\x00\x00\x00\x01ab", bs("a"), bs("b"), false},
		"attribute and other bits": {-1, "\x00\x00\x00\x01ab", bs("a"), bs("b"), false},
		"empty attribute":          {1, "\x00\x00\x00\x00ab", bs(""), bs("ab"), false},
		"both empty":               {1, "\x00\x00\x00\x00", bs(""), bs(""), false},
		"no payload":               {1, "\x00\x00\x00\x02ab", bs("ab"), bs(""), false},
		"attribute one too long":   {1, "\x00\x00\x00\x03ab", nil, nil, true},
		"attribute much too long":  {1, "\x7f\xff\xff\xffab", nil, nil, true},
		"negative":                 {1, "\xff\xff\xff\xffab", nil, nil, true},
		"smallest":                 {1, "\x80\x00\x00\x00ab", nil, nil, true},
		"three bytes":              {1, "\x00\x00\x00", nil, nil, true},
		"nothing":                  {1, "", nil, nil, true},
	} {
		r := protocol.Record{Flag: v.flag, Body: bs(v.body)}
		if v.bad {
			_, _, err := r.Content()
			if !errors.Is(err, protocol.ErrMalformed) {
				t.Errorf("%s: got error %v, want %v", name, err, protocol.ErrMalformed)
			}
			continue
		}
		wantContent(t, &r, v.attr, v.payload)
	}
}

func TestRecordSize(t *testing.T) {
	for _, v := range []struct {
		buf  string
		size int
		ok   bool
	}{
		{"", 0, false},
		{"\x00\x00\x00", 0, false},
		{"\x00\x00\x00\x05", 25, true},
		{"\x00\x00\x00\x00 and more", 20, true},
		{"\x7f\xff\xff\xff", math.MaxInt32 + 20, true},
		{"\xff\xff\xff\xff", 0, false},
		{"\x80\x00\x00\x00", 0, false},
	} {
		size, ok := protocol.RecordSize([]byte(v.buf))
		if ok != v.ok || ok && size != v.size {
			t.Errorf("RecordSize(%q) = %d, %t, want %d, %t", v.buf, size, ok, v.size, v.ok)
		}
	}
}

// TestRecords: a get cuts by bytes, so any number of whole records is followed by a piece of one.
func TestRecords(t *testing.T) {
	var buf []byte
	starts := []int{}
	for i := range 5 {
		starts = append(starts, len(buf))
		buf = protocol.AppendMessage(buf, int64(i), nil, repeat(i*7))
	}
	for n := range len(buf) + 1 {
		i, end := 0, 0
		for pos, r := range protocol.Records(buf[:n]) {
			if pos != starts[i] || r.ID != int64(i) || !bytes.Equal(r.Body, repeat(i*7)) {
				t.Fatalf("record %d of %d bytes: got position %d, %+v", i, n, pos, r)
			}
			i++
			end = pos + r.Size()
		}
		if end > n || i < len(starts) && n >= starts[i]+20+i*7 {
			t.Fatalf("got %d records out of the first %d bytes", i, n)
		}
	}
	for range protocol.Records(buf) {
		break // must not go on: a yield after false panics
	}
	bad := append(buf[:starts[2]:starts[2]], rawRecord(-20, 0, 0, 0, nil)...)
	n := 0
	for range protocol.Records(bad) {
		n++
	}
	if n != 2 {
		t.Errorf("got %d records before a malformed one, want 2", n)
	}
}

func TestCheckRecords(t *testing.T) {
	hello := rawRecord(5, 907060870, 9, 0, bs("hello"))
	wrong := rawRecord(5, 907060871, 9, 0, bs("hello"))
	attr := protocol.AppendMessage(nil, 9, bs("k"), bs("v"))
	badAttr := protocol.AppendRecord(nil, 9, protocol.FlagAttr, bs("\x00\x00\x00\x09k"))
	two := append(bytes.Clone(hello), hello...)
	for name, v := range map[string]struct {
		buf   []byte
		count int
		want  error
	}{
		"one":                     {hello, 1, nil},
		"two":                     {two, 2, nil},
		"attribute":               {attr, 1, nil},
		"empty body":              {rawRecord(0, 0, 9, 0, nil), 1, nil},
		"any flag":                {rawRecord(5, 907060870, 9, -2, bs("hello")), 1, nil},
		"none":                    {nil, 0, protocol.ErrMalformed},
		"none, one announced":     {nil, 1, protocol.ErrMalformed},
		"one, none announced":     {hello, 0, protocol.ErrMalformed},
		"two, one announced":      {two, 1, protocol.ErrMalformed},
		"two, three announced":    {two, 3, protocol.ErrMalformed},
		"negative count":          {nil, -1, protocol.ErrMalformed},
		"checksum":                {wrong, 1, protocol.ErrChecksum},
		"second checksum":         {append(bytes.Clone(hello), wrong...), 2, protocol.ErrChecksum},
		"top bit of a checksum":   {rawRecord(5, math.MinInt32|907060870, 9, 0, bs("hello")), 1, protocol.ErrChecksum},
		"no checksum given":       {rawRecord(5, -1, 9, 0, bs("hello")), 1, protocol.ErrChecksum},
		"cut off":                 {two[:len(two)-1], 2, protocol.ErrShort},
		"cut off in the header":   {two[:len(hello)+19], 2, protocol.ErrShort},
		"a byte too many":         {append(bytes.Clone(two), 0), 2, protocol.ErrShort},
		"negative length":         {append(bytes.Clone(hello), rawRecord(-20, 0, 0, 0, nil)...), 2, protocol.ErrMalformed},
		"attribute does not fit":  {badAttr, 1, protocol.ErrMalformed},
		"length beyond the end":   {rawRecord(math.MaxInt32, 0, 0, 0, nil), 1, protocol.ErrShort},
		"zeros behind one record": {append(bytes.Clone(hello), make([]byte, 19)...), 1, protocol.ErrShort},
	} {
		before := bytes.Clone(v.buf)
		err := protocol.CheckRecords(v.buf, v.count)
		if !errors.Is(err, v.want) || v.want != nil && err.Error() == v.want.Error() {
			t.Errorf("%s: got error %v, want %v with what was checked", name, err, v.want)
		}
		if !bytes.Equal(v.buf, before) {
			t.Errorf("%s: CheckRecords changed its input", name)
		}
	}
	for where, bad := range map[string][]byte{
		"record 0 at byte 0":  wrong,
		"record 1 at byte 25": append(bytes.Clone(hello), wrong...),
		"record 2 at byte 50": append(bytes.Clone(two), hello[:24]...),
		"record 0 at byte 0:": hello[:19],
	} {
		if err := protocol.CheckRecords(bad, 2); !strings.Contains(err.Error(), where) {
			t.Errorf("error %q does not say which record is bad, want %q", err, where)
		}
	}
}

// TestCheckRecordsNotices: no single changed byte outside the ids and flags gets through.
func TestCheckRecordsNotices(t *testing.T) {
	buf := protocol.AppendMessage(nil, 1, nil, bs("hello"))
	buf = protocol.AppendMessage(buf, 2, bs("key"), bs("value"))
	buf = protocol.AppendMessage(buf, 3, nil, nil)
	for _, first := range []int{0, 25, 57} {
		for pos := first; pos < min(first+32, len(buf)); pos++ {
			if pos >= first+8 && pos < first+20 {
				continue // id and flag: not covered by the checksum
			}
			for bit := range 8 {
				buf[pos] ^= 1 << bit
				if err := protocol.CheckRecords(buf, 3); err == nil {
					t.Errorf("byte %d, bit %d: change not noticed", pos, bit)
				}
				buf[pos] ^= 1 << bit
			}
		}
	}
	wantErr(t, protocol.CheckRecords(buf, 3), nil)
}

func TestStampIDs(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		bodies := rapid.SliceOfN(rapid.SliceOf(rapid.Byte()), 0, 20).Draw(t, "bodies")
		first := anyID(t)
		var buf, want []byte
		for i, body := range bodies {
			buf = protocol.AppendRecord(buf, -1, int32(i), body)
			want = protocol.AppendRecord(want, protocol.IDAfter(first, i), int32(i), body)
		}
		if n := protocol.StampIDs(buf, first); n != len(bodies) {
			t.Fatalf("StampIDs stamped %d records, want %d", n, len(bodies))
		}
		if !bytes.Equal(buf, want) {
			t.Fatalf("got %x, want %x", buf, want)
		}
	})
}

// TestStampIDsNotWhole: only whole records are stamped, and nothing else is written to.
func TestStampIDsNotWhole(t *testing.T) {
	hello := rawRecord(5, 907060870, 9, 0, bs("hello"))
	for name, rest := range map[string][]byte{
		"header cut off":  hello[:19],
		"body cut off":    hello[:24],
		"length -20":      rawRecord(-20, 0, 9, 0, nil),
		"length -100":     rawRecord(-100, 0, 9, 0, nil),
		"largest length":  rawRecord(math.MaxInt32, 0, 9, 0, nil),
		"smallest length": rawRecord(math.MinInt32, 0, 9, 0, nil),
	} {
		buf := append(bytes.Clone(hello), rest...)
		if n := protocol.StampIDs(buf, 77); n != 1 {
			t.Errorf("%s: stamped %d records, want 1", name, n)
		}
		if !bytes.Equal(buf[len(hello):], rest) {
			t.Errorf("%s: wrote into what is no whole record", name)
		}
	}
}

// TestBodies: what is packed comes out again, by every way of packing it.
func TestBodies(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		attr := rapid.SliceOf(rapid.Byte()).Draw(t, "attr")
		if rapid.Bool().Draw(t, "no attribute") {
			attr = nil
		}
		payload := rapid.SliceOf(rapid.Byte()).Draw(t, "payload")
		id := anyID(t)
		body, flag := protocol.AppendBody(nil, attr, payload)
		record := protocol.AppendRecord(nil, id, flag, body)
		if got := protocol.AppendMessage(nil, id, attr, payload); !bytes.Equal(got, record) {
			t.Fatalf("AppendMessage gave %x, AppendRecord %x", got, record)
		}
		r, err := protocol.DecodeRecord(record)
		if err != nil || r.Verify() != nil || r.ID != id {
			t.Fatalf("got %+v, %v", r, err)
		}
		a, p, err := r.Content()
		if err != nil || !bytes.Equal(a, attr) || (a == nil) != (attr == nil) || !bytes.Equal(p, payload) {
			t.Fatalf("content is %q %q %v, want %q %q", a, p, err, attr, payload)
		}
	})
}
