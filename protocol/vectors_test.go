package protocol_test

import (
	"bytes"
	"encoding/hex"
	"testing"

	"github.com/metaq-go/metaq/protocol"
)

// bs is short for a slice of bytes in tables.
func bs(s string) []byte { return []byte(s) }

// requestVectors are those of protocol.md 15.1 whose verbs this package speaks: both what an encoder must produce and
// what a decoder must accept.
var requestVectors = []struct {
	name  string
	bytes string
	q     protocol.Request
}{
	{"C1", "put test 1 5 0 907060870 99\r\nhello", protocol.Request{
		Verb: protocol.VerbPut, Topic: bs("test"), Partition: 1, Checksum: 907060870, Opaque: 99, Body: bs("hello"),
	}},
	{"C2", "put test 1 5 0 -1 0\r\nhello", protocol.Request{
		Verb: protocol.VerbPut, Topic: bs("test"), Partition: 1, Checksum: protocol.NoChecksum, Body: bs("hello"),
	}},
	{"C3", "put test 1 5 0 -1 TX:test:1 0\r\nhello", protocol.Request{
		Verb: protocol.VerbPut, Topic: bs("test"), Partition: 1, Checksum: -1, TxKey: bs("TX:test:1"), Body: bs("hello"),
	}},
	{"C4", "put test 1 5 0 907060870 TX:test:1 0\r\nhello", protocol.Request{
		Verb: protocol.VerbPut, Topic: bs("test"), Partition: 1, Checksum: 907060870, TxKey: bs("TX:test:1"), Body: bs("hello"),
	}},
	{"C5", "put test 1 5 0 907060870 XID:100:676c6f62616c31:6272616e636831:uq-host 7\r\nhello", protocol.Request{
		Verb: protocol.VerbPut, Topic: bs("test"), Partition: 1, Checksum: 907060870, Opaque: 7, Body: bs("hello"),
		TxKey: bs("XID:100:676c6f62616c31:6272616e636831:uq-host"),
	}},
	{"C6", "put test 1 0 0 -1 -2147483648\r\n", protocol.Request{
		Verb: protocol.VerbPut, Topic: bs("test"), Partition: 1, Checksum: -1, Opaque: -2147483648,
	}},
	{"C7", "put meta-test 0 0 0 0 -2147483645\r\n", protocol.Request{
		Verb: protocol.VerbPut, Topic: bs("meta-test"), Opaque: -2147483645,
	}},
	{"C8", "put test 1 24 1 2086354397 5\r\n\x00\x00\x00\x09attributehello world", protocol.Request{
		Verb: protocol.VerbPut, Topic: bs("test"), Partition: 1, Flag: 1, Checksum: 2086354397, Opaque: 5,
		Body: body("attribute", "hello world"),
	}},
	{"C9", "put test 1 5 1 419171859 5\r\n\x00\x00\x00\x00x", protocol.Request{
		Verb: protocol.VerbPut, Topic: bs("test"), Partition: 1, Flag: 1, Checksum: 419171859, Opaque: 5, Body: body("", "x"),
	}},
	{"C10", "put test 1 11 1 167909118 5\r\n\x00\x00\x00\x06\xe5\xb1\x9e\xe6\x80\xa7a", protocol.Request{
		Verb: protocol.VerbPut, Topic: bs("test"), Partition: 1, Flag: 1, Checksum: 167909118, Opaque: 5, Body: body("属性", "a"),
	}},
	{"C11", "put test 1 1 0 1756872259 5\r\na", protocol.Request{
		Verb: protocol.VerbPut, Topic: bs("test"), Partition: 1, Checksum: 1756872259, Opaque: 5, Body: bs("a"),
	}},
	{"C12", "put test 1 24 1 99\r\n\x00\x00\x00\x09attributehello world", protocol.Request{
		Verb: protocol.VerbPut, Topic: bs("test"), Partition: 1, Flag: 1, Old: true, Checksum: -1, Opaque: 99,
		Body: body("attribute", "hello world"),
	}},
	{"C13", "put test 1 13 1 99\r\n\x00\x00\x00\x03AAAhello1", protocol.Request{
		Verb: protocol.VerbPut, Topic: bs("test"), Partition: 1, Flag: 1, Old: true, Checksum: -1, Opaque: 99,
		Body: body("AAA", "hello1"),
	}},
	{"4.1 old transactional", "put test 1 5 0 TX:s:1 108\r\nhello", protocol.Request{
		Verb: protocol.VerbPut, Topic: bs("test"), Partition: 1, Old: true, Checksum: -1, TxKey: bs("TX:s:1"), Opaque: 108,
		Body: bs("hello"),
	}},
	{"C18", "get test boyan-group 1 1000 1048576 -3\r\n", protocol.Request{
		Verb: protocol.VerbGet, Topic: bs("test"), Group: bs("boyan-group"), Partition: 1, Offset: 1000, MaxSize: 1048576, Opaque: -3,
	}},
	{"C19", "get test g 0 9223372036854775807 1048576 1\r\n", protocol.Request{
		Verb: protocol.VerbGet, Topic: bs("test"), Group: bs("g"), Offset: protocol.MaxOffset, MaxSize: 1048576, Opaque: 1,
	}},
	{"C20", "offset test boyan-test 1 1000 -1\r\n", protocol.Request{
		Verb: protocol.VerbOffset, Topic: bs("test"), Group: bs("boyan-test"), Partition: 1, Offset: 1000, Opaque: -1,
	}},
	{"C21", "stats\x20\x20-1000\r\n", protocol.Request{Verb: protocol.VerbStats, Opaque: -1000}},
	{"C22", "stats topics -1000\r\n", protocol.Request{Verb: protocol.VerbStats, Item: bs("topics"), Opaque: -1000}},
	{"C23", "version 999\r\n", protocol.Request{Verb: protocol.VerbVersion, Opaque: 999}},
	{"C24", "quit\r\n", protocol.Request{Verb: protocol.VerbQuit}},
}

func TestRequestVectors(t *testing.T) {
	for _, v := range requestVectors {
		t.Run(v.name, func(t *testing.T) {
			if got := string(v.q.AppendTo(nil)); got != v.bytes {
				t.Errorf("encoded %q, want %q", got, v.bytes)
			}
			got, err := requests(sent(v.bytes), protocol.Limits{})
			wantWords(t, got, []string{words(&v.q)})
			wantErr(t, err, errDry)
		})
	}
}

// TestRequestsAppend: encoders append to what is there and leave it alone, and a stream of all vectors is decoded as
// each of them alone.
func TestRequestsAppend(t *testing.T) {
	stream, want := bs("prefix"), []string(nil)
	for _, v := range requestVectors {
		stream = v.q.AppendTo(stream)
		want = append(want, words(&v.q))
	}
	rest, ok := bytes.CutPrefix(stream, bs("prefix"))
	if !ok {
		t.Fatalf("encoders overwrote what was there: %.40q", stream)
	}
	got, err := requests(sent(string(rest)), protocol.Limits{})
	wantWords(t, got, want)
	wantErr(t, err, errDry)
}

// TestStrayBody: a request reused for a verb without a body does not break the frame with the old one.
func TestStrayBody(t *testing.T) {
	for _, verb := range []protocol.Verb{
		protocol.VerbGet, protocol.VerbPoll, protocol.VerbOffset, protocol.VerbVersion, protocol.VerbStats,
		protocol.VerbTopics, protocol.VerbQuit,
	} {
		q := protocol.Request{Verb: verb, Topic: bs("t"), Group: bs("g"), Item: bs("i"), Body: bs("left over")}
		if got := string(q.AppendTo(nil)); got[len(got)-2:] != "\r\n" {
			t.Errorf("%s: encoded %q, want nothing behind the line", verb, got)
		}
	}
}

func TestResponseVectors(t *testing.T) {
	for _, v := range []struct {
		name  string
		bytes string
		p     protocol.Response
	}{
		{"C30", "result 404 9 99\r\nnot found", protocol.Response{
			Verb: protocol.VerbResult, Code: protocol.NotFound, Opaque: 99, Body: bs("not found"),
		}},
		{"C31", "result 404 0 99\r\n", protocol.Response{Verb: protocol.VerbResult, Code: 404, Opaque: 99}},
		{"C32", "result 200 5 -2147483648\r\n1 2 3", protocol.Response{
			Verb: protocol.VerbResult, Code: protocol.OK, Opaque: -2147483648, Body: bs("1 2 3"),
		}},
		{"C33", "result 503 15 5\r\n\xe7\xba\xbf\xe7\xa8\x8b\xe6\xb1\xa0\xe7\xb9\x81\xe5\xbf\x99", protocol.Response{
			Verb: protocol.VerbResult, Code: protocol.Unavailable, Opaque: 5, Body: bs("线程池繁忙"),
		}},
		{"C34", "value 5 99\r\nhello", protocol.Response{
			Verb: protocol.VerbValue, Code: protocol.OK, Opaque: 99, Body: bs("hello"),
		}},
	} {
		t.Run(v.name, func(t *testing.T) {
			if got := string(v.p.AppendTo(nil)); got != v.bytes {
				t.Errorf("encoded %q, want %q", got, v.bytes)
			}
			got, err := responses(sent(v.bytes), protocol.Limits{})
			wantWords(t, got, []string{responseWords(&v.p)})
			wantErr(t, err, errDry)
		})
	}
}

// TestRecordVectors are the message buffers of protocol.md 15.2. The checksums are those of the Java broker.
func TestRecordVectors(t *testing.T) {
	for _, v := range []struct {
		name          string
		attr, payload []byte
		id            int64
		flag          int32
		hex           string
		size          int
	}{
		{"B1", nil, bs("hello"), 10000, 0, "000000053610a68600000000000027100000000068656c6c6f", 25},
		{
			"B2", bs("attribute"), bs("hello world"), 1, 1,
			"000000187c5b3ddd0000000000000001000000010000000961747472696275746568656c6c6f20776f726c64", 44,
		},
		{"B3", nil, nil, -1, 0, "0000000000000000ffffffffffffffff00000000", 20},
		{"B4", nil, bs("hello"), -5468930815054315520, -1, "000000053610a686b41a74663b800000ffffffff68656c6c6f", 25},
		{"B5", bs(""), bs("x"), 2, 1, "0000000518fc0e130000000000000002000000010000000078", 25},
		{"B6", bs("属性"), bs("a"), 3, 1, "0000000b0a0216fe00000000000000030000000100000006e5b19ee680a761", 31},
		{"B7", nil, bs("a"), 4, 0, "0000000168b7be4300000000000000040000000061", 21},
	} {
		t.Run(v.name, func(t *testing.T) {
			want, err := hex.DecodeString(v.hex)
			if err != nil {
				t.Fatal(err)
			}
			body, flag := protocol.AppendBody(nil, v.attr, v.payload)
			if v.flag >= 0 && flag != v.flag {
				t.Errorf("flag of the body is %d, want %d", flag, v.flag)
			}
			if got := protocol.AppendRecord(nil, v.id, v.flag, body); !bytes.Equal(got, want) || len(got) != v.size {
				t.Errorf("AppendRecord gave %x, want %x", got, want)
			}
			if v.flag >= 0 {
				if got := protocol.AppendMessage(bs("x"), v.id, v.attr, v.payload); !bytes.Equal(got[1:], want) || got[0] != 'x' {
					t.Errorf("AppendMessage gave %x, want %x behind an x", got, want)
				}
			}
			r, err := protocol.DecodeRecord(append(want, "behind it"...))
			if err != nil || r.ID != v.id || r.Flag != v.flag || !bytes.Equal(r.Body, body) || r.Size() != v.size {
				t.Errorf("decoded %+v, %v, want id %d, flag %d, body %q", r, err, v.id, v.flag, body)
			}
			wantErr(t, r.Verify(), nil)
			if v.flag >= 0 {
				wantContent(t, &r, v.attr, v.payload)
			}
		})
	}
}

func wantContent(t *testing.T, r *protocol.Record, attr, payload []byte) {
	t.Helper()
	a, p, err := r.Content()
	if err != nil || !bytes.Equal(a, attr) || (a == nil) != (attr == nil) || !bytes.Equal(p, payload) {
		t.Errorf("content is %q %q %v, want %q %q", a, p, err, attr, payload)
	}
}

// TestChecksums are those of protocol.md 3.3.
func TestChecksums(t *testing.T) {
	for text, want := range map[string]int32{
		"": 0, "a": 1756872259, "hello": 907060870, "test": 1484750348, "123456789": 1274296614,
	} {
		if got := protocol.Checksum([]byte(text)); got != want {
			t.Errorf("checksum of %q is %d, want %d", text, got, want)
		}
	}
}

// TestTxKeys are the keys of protocol.md 15.3, and some more by the rules of 6.1.
func TestTxKeys(t *testing.T) {
	for key, want := range map[string]protocol.TxKind{
		"TX:sessionId:99": protocol.TxLocal, // K1
		"TX:s:-99":        protocol.TxLocal, // K2
		"XID:100:676c6f62616c31:6272616e636831:uq-host": protocol.TxXA,   // K3
		"XID:-1:01ab:ff00:XAMessageProducer-vm":         protocol.TxXA,   // K4
		"XID:1:::q":                                     protocol.TxXA,   // K5
		"XID:1:0A:0B:q":                                 protocol.TxXA,   // K6
		"XID:1:0a:0b:":                                  protocol.TxXA,   // K7
		"null":                                          protocol.TxNone, // K8
		"TX:a:b:1":                                      protocol.TxInvalid,
		"TX:s":                                          protocol.TxInvalid,
		"TX:s:x":                                        protocol.TxInvalid,
		"TX:s:3000000000":                               protocol.TxInvalid,
		"XID:1:0a:0b":                                   protocol.TxInvalid,
		"XID:1:zz:0b:q":                                 protocol.TxInvalid,
		"foo":                                           protocol.TxInvalid,

		"XID:1:0a1:0bf:q":                protocol.TxXA, // an odd last digit is ignored
		"XID:2147483647:0a:0b:属性":        protocol.TxXA,
		"XID:2147483648:0a:0b:q":         protocol.TxInvalid,
		"XID:1:0AFF:09af:q":              protocol.TxXA,
		"XID:1:0a:0G:q":                  protocol.TxInvalid,
		"XID:1:0a::0b:q":                 protocol.TxInvalid,
		"XID:1:0a:0b::":                  protocol.TxInvalid,
		"XID:1:0a:0b:q:r":                protocol.TxInvalid,
		"XID:1:0a:0g:q":                  protocol.TxInvalid,
		"XID::0a:0b:q":                   protocol.TxInvalid,
		"TX:192.0.2.2-1796103258905-1:1": protocol.TxLocal,
		"TX:s:":                          protocol.TxInvalid,
		"TX:s:1:":                        protocol.TxInvalid,
		"tx:s:1":                         protocol.TxInvalid,
		"TXs:1":                          protocol.TxInvalid,
		"xid:1:0a:0b:q":                  protocol.TxInvalid,
		"NULL":                           protocol.TxInvalid,
		"nullx":                          protocol.TxInvalid,
		"":                               protocol.TxInvalid,
		":::":                            protocol.TxInvalid,
	} {
		if got := protocol.TxKeyKind([]byte(key)); got != want {
			t.Errorf("%q is of kind %d, want %d", key, got, want)
		}
		if want == protocol.TxInvalid { // as key of a put it closes the connection, once the body is there
			_, err := requests(sent("put test 1 5 0 -1 "+key+" 1\r\nhello"), protocol.Limits{})
			wantErr(t, err, protocol.ErrSyntax)
		}
	}
}
