package protocol_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"hash/crc32"
	"io"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/metaq-go/metaq/protocol"
)

// requestSeeds are all the streams of requests that the tables of this package know.
func requestSeeds() (seeds []string) {
	for _, v := range requestVectors {
		seeds = append(seeds, v.bytes)
	}
	for _, v := range scenario {
		seeds = append(seeds, v.sent)
	}
	for _, v := range lines {
		if len(v.sent) < 1000 {
			seeds = append(seeds, v.sent)
		}
	}
	for _, v := range extensionLines {
		seeds = append(seeds, v.sent)
	}
	for _, v := range numbers {
		seeds = append(seeds, "offset t g 0 "+v.text+" 1\r\n")
	}
	return append(seeds, "put t 0 17000000 0 -1 1\r\n", "append t 0 100000000 1 1\r\n")
}

// sameEnd reports whether two streams ended for the same reason.
func sameEnd(a, b error) bool {
	for _, end := range []error{errDry, protocol.ErrSyntax, protocol.ErrLineTooLong, protocol.ErrBodyTooLong} {
		if errors.Is(a, end) || errors.Is(b, end) {
			return errors.Is(a, end) && errors.Is(b, end)
		}
	}
	return errors.Is(a, b)
}

// pieces makes sizes of pieces out of any bytes.
func pieces(b []byte) []int {
	sizes := []int{1 + len(b)}
	for _, c := range b {
		sizes = append(sizes, 1+int(c)%67)
	}
	return sizes
}

// FuzzRequest: any bytes are decoded as the reference decodes them, whatever pieces they come in; and what was decoded is
// encoded to something that decodes to the same.
func FuzzRequest(f *testing.F) {
	for _, s := range requestSeeds() {
		f.Add([]byte(s), []byte{0})
		f.Add([]byte("version 1\r\n"+s+"quit\r\n"), []byte{3, 1, 40})
	}
	f.Fuzz(func(t *testing.T, data, cuts []byte) {
		want, wantEnd := reference(string(data))
		got, end := requests(sent(string(data)), protocol.Limits{Line: 1 << 20})
		if !slices.Equal(got, want) || !sameEnd(end, wantEnd) {
			t.Fatalf("%q\n got %q, %v\nwant %q, %v", data, got, end, want, wantEnd)
		}
		for _, lim := range []protocol.Limits{{Line: 1 << 20}, {Line: 30, Body: 20, Skip: 40}} {
			whole, wholeEnd := requests(sent(string(data)), lim)
			cut, cutEnd := requests(&chunked{data: data, sizes: pieces(cuts), end: errDry}, lim)
			if !slices.Equal(whole, cut) || !sameEnd(wholeEnd, cutEnd) {
				t.Fatalf("%q\nin pieces %q, %v\nwhole %q, %v", data, cut, cutEnd, whole, wholeEnd)
			}
		}
		rd := protocol.NewReader(sent(string(data)), protocol.Limits{})
		var q protocol.Request
		for rd.Request(&q) == nil {
			if q.TooLong > 0 {
				continue // its body is gone
			}
			again, end := requests(sent(string(q.AppendTo(nil))), protocol.Limits{Line: 1 << 20})
			if len(again) != 1 || again[0] != words(&q) || !errors.Is(end, errDry) {
				t.Fatalf("%s encoded and decoded is %q, %v", words(&q), again, end)
			}
		}
	})
}

// FuzzResponse: any bytes give the same responses whatever pieces they come in and however they are taken, and those are
// encoded to something that decodes to the same.
func FuzzResponse(f *testing.F) {
	for _, s := range []string{
		"result 404 9 99\r\nnot found", "result 404 0 99\r\n", "result 200 5 -2147483648\r\n1 2 3", "value 5 99\r\nhello",
		"result 200 1 1 \r\nxvalue 0 2 3\r\nresult 503 3 5\r\n\xe7\xba\xbf", "value -1 1\r\n", "value 99999999999 1\r\n",
		"result 200 24 99\r\n-5468930815054315520 1 0", "\r\n", "version 1\r\n", "value 17000000 1\r\n", "result 200  1 1\r\nx",
		"result 200 37 1\r\n1.4.6.2 metaq/0.1.0 id=0 ext=append,x",
	} {
		f.Add([]byte(s), []byte{0})
		f.Add([]byte("value 1 7\r\nx"+s), []byte{7, 2, 1})
	}
	f.Fuzz(func(t *testing.T, data, cuts []byte) {
		want, wantEnd := responses(sent(string(data)), protocol.Limits{})
		for _, ways := range [][]int{{1}, {2}, {0, 2, 1}} {
			rd := protocol.NewReader(&chunked{data: data, sizes: pieces(cuts), end: errDry}, protocol.Limits{})
			got, end := mixed(rd, ways)
			if !slices.Equal(got, want) || !sameEnd(end, wantEnd) {
				t.Fatalf("%q taken by %v\n got %q, %v\nwant %q, %v", data, ways, got, end, want, wantEnd)
			}
		}
		rd := protocol.NewReader(bytes.NewReader(data), protocol.Limits{})
		var p protocol.Response
		for rd.Response(&p) == nil {
			again, end := responses(bytes.NewReader(p.AppendTo(nil)), protocol.Limits{})
			if len(again) != 1 || again[0] != responseWords(&p) || !errors.Is(end, io.EOF) {
				t.Fatalf("%s encoded and decoded is %q, %v", responseWords(&p), again, end)
			}
			texts(t, string(p.Body))
		}
	})
}

// texts reads the text of a response in every way there is and compares with a plain one.
func texts(t *testing.T, text string) {
	offset, ok := protocol.ParseOffset([]byte(text))
	if want, err := strconv.ParseInt(text, 10, 64); ok != (err == nil) || ok && offset != want {
		t.Fatalf("ParseOffset(%q) = %d, %t, want %d, %v", text, offset, ok, want, err)
	}
	id, partition, offset, ok := protocol.ParseStored([]byte(text))
	f, wantOK := strings.Split(strings.TrimRight(text, " "), " "), true
	wantID, wantPartition, wantOffset := num(f, 0, 64, &wantOK), num(f, 1, 32, &wantOK), num(f, 2, 64, &wantOK)
	wantOK = wantOK && len(f) == 3
	if ok != wantOK || ok && (id != wantID || int64(partition) != wantPartition || offset != wantOffset) {
		t.Fatalf("ParseStored(%q) = %d, %d, %d, %t", text, id, partition, offset, ok)
	}
	x := protocol.ParseExtensions(text)
	if x.BrokerID < -1 || x.BrokerID > protocol.MaxBrokerID {
		t.Fatalf("ParseExtensions(%q) gives broker %d", text, x.BrokerID)
	}
	if x.Version != "" && len(x.Verbs) > 0 {
		if again := protocol.ParseExtensions(x.String()); again.String() != x.String() {
			t.Fatalf("%q parsed and written is %q", x.String(), again.String())
		}
	}
}

// FuzzRecords: any bytes are taken apart as a plain walk over them does it, and put together again as they were.
func FuzzRecords(f *testing.F) {
	hello := protocol.AppendMessage(nil, 10000, nil, bs("hello"))
	attr := protocol.AppendMessage(hello, 1, bs("attribute"), bs("hello world"))
	for _, s := range [][]byte{
		nil, hello, attr, attr[:len(attr)-1], make([]byte, 60), bytes.Repeat([]byte{0xff}, 40),
		rawRecord(-20, 0, 0, 0, nil), rawRecord(1<<31-1, 0, 0, 1, bs("x")), rawRecord(5, 1, 0, 0, bs("hello")),
		protocol.AppendRecord(nil, 1, 1, bs("\x00\x00\x00\x09x")), append(hello, rawRecord(-1, 0, 0, 0, hello)...),
	} {
		f.Add(s, int64(4095))
	}
	f.Fuzz(func(t *testing.T, data []byte, first int64) {
		var again []byte
		n, good := 0, true
		for pos, r := range protocol.Records(data) {
			length := int(binary.BigEndian.Uint32(data[pos:]))
			if pos != len(again) || !bytes.Equal(r.Body, data[pos+20:pos+20+length]) || r.Size() != 20+length {
				t.Fatalf("record at %d, want %d: %+v", pos, len(again), r)
			}
			sum := crc32.ChecksumIEEE(r.Body) & 0x7fffffff
			if matches := sum == binary.BigEndian.Uint32(data[pos+4:]); matches != (r.Verify() == nil) {
				t.Fatalf("Verify says %v, checksum matches: %t", r.Verify(), matches)
			}
			a, p, err := r.Content()
			if err == nil {
				if body, flag := protocol.AppendBody(nil, a, p); !bytes.Equal(body, r.Body) || flag != r.Flag&1 {
					t.Fatalf("body %q with flag %d packed again is %q", r.Body, r.Flag, body)
				}
			}
			good = good && err == nil && r.Verify() == nil
			again = r.AppendTo(again)
			n++
		}
		if !bytes.Equal(again, data[:len(again)]) {
			t.Fatalf("put together again: %x, want %x", again, data)
		}
		rest := data[len(again):]
		if size, ok := protocol.RecordSize(rest); ok && size <= len(rest) {
			t.Fatalf("stopped before a whole record: %x", rest)
		}
		if _, err := protocol.DecodeRecord(rest); err == nil {
			t.Fatalf("stopped before a good record: %x", rest)
		}
		good = good && len(rest) == 0 && n > 0
		if err := protocol.CheckRecords(data, n); good != (err == nil) {
			t.Fatalf("CheckRecords says %v of %d records, good: %t", err, n, good)
		}
		stamped := bytes.Clone(data)
		if got := protocol.StampIDs(stamped, first); got != n {
			t.Fatalf("stamped %d records, want %d", got, n)
		}
		i := 0
		for pos, r := range protocol.Records(stamped) {
			if want := protocol.IDAfter(first, i); r.ID != want {
				t.Fatalf("record %d has id %d, want %d", i, r.ID, want)
			}
			copy(stamped[pos+8:pos+16], data[pos+8:pos+16])
			i++
		}
		if !bytes.Equal(stamped, data) {
			t.Fatalf("StampIDs changed more than ids")
		}
	})
}
