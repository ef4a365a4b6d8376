package protocol_test

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/metaq-go/metaq/protocol"
)

// scenario vectors of protocol.md 15.4 as far as they concern framing: want are the requests that are executed, end is
// ErrSyntax where the connection closes and errDry where the broker waits for more.
var scenario = []struct {
	name string
	sent string
	want []string
	end  error
}{
	{"S1", "version 1\r\n", []string{"version opaque=1"}, errDry},
	{"S2", "version\r\n", []string{"version opaque=2147483647"}, errDry},
	{"S3", "version -2147483648\r\n", []string{"version opaque=-2147483648"}, errDry},
	{"S4", "version 1\x20\x20\x20\r\n", []string{"version opaque=1"}, errDry},
	{"S5, strict", "v 9\r\n", nil, protocol.ErrSyntax},
	{"S6", "version 7 8 9\r\n", []string{"version opaque=7"}, errDry},
	{"S7", "version\x20\x207\r\n", nil, protocol.ErrSyntax},
	{"S8", "version 2147483648\r\n", nil, protocol.ErrSyntax},
	{"S9", "VERSION 1\r\n", nil, protocol.ErrSyntax},
	{"S10", "\r\n", nil, protocol.ErrSyntax},
	{"S11", "\x20version 1\r\n", nil, protocol.ErrSyntax},
	{"S12", "help\r\n", nil, protocol.ErrSyntax},
	{"S13", "just for test\r\n", nil, protocol.ErrSyntax},
	{"S14", "version 1\n", nil, errDry},
	{"S15", "quit\r\n", []string{"quit"}, errDry},
	{
		"S16", "version 1\r\nversion 2\r\nquit\r\nversion 3\r\n",
		[]string{"version opaque=1", "version opaque=2", "quit", "version opaque=3"},
		errDry,
	},
	{"S17", "version 1\r\nnonsense\r\nversion 2\r\n", []string{"version opaque=1"}, protocol.ErrSyntax},
	{
		"S18", "get test g 0 0 1024 1\r\n",
		[]string{`get topic="test" group="g" maxsize=1024 opaque=1`},
		errDry,
	},
	{"S20", "offset test g 0 0 1\r\n", []string{`offset topic="test" group="g" opaque=1`}, errDry},
	{"S21", "get test\r\n", nil, protocol.ErrSyntax},
	{
		"S22", "put test 1 5 0 99\r\nhello",
		[]string{`put topic="test" partition=1 checksum=-1 old opaque=99 body="hello"`},
		errDry,
	},
	{
		"S23", "put test 1 5 0 907060870 100\r\nhello",
		[]string{`put topic="test" partition=1 checksum=907060870 opaque=100 body="hello"`},
		errDry,
	},
	{
		"S25", "put test 1 5 0 100 0\r\nhello",
		[]string{`put topic="test" partition=1 checksum=100 body="hello"`},
		errDry,
	},
	{"S27", "put test 1 0 0 0 103\r\n", []string{`put topic="test" partition=1 opaque=103`}, errDry},
	{
		"S29", "put test -2 5 0 907060870 105\r\nhello",
		[]string{`put topic="test" partition=-2 checksum=907060870 opaque=105 body="hello"`},
		errDry,
	},
	{
		"S32", "put test 1 5 0 TX:s:1 108\r\nhello",
		[]string{`put topic="test" partition=1 checksum=-1 old txkey="TX:s:1" opaque=108 body="hello"`},
		errDry,
	},
	{
		"S33", "put test 1 5 0 907060870 XID:1:0a:0b:q 109\r\nhello",
		[]string{`put topic="test" partition=1 checksum=907060870 txkey="XID:1:0a:0b:q" opaque=109 body="hello"`},
		errDry,
	},
	{"S34", "put test 1 5 0 bogus 110\r\nhello", nil, protocol.ErrSyntax},
	{"S35", "put test 1 5 0\r\nhello", nil, protocol.ErrSyntax},
	{"S36", "put test x 5 0 1 2\r\n", nil, errDry},
	{"S36, but for a byte", "put test x 5 0 1 2\r\nhell", nil, errDry},
	{"S37", "put test x 5 0 1 2\r\nhello", nil, protocol.ErrSyntax},
	{"S38", "put test 1 x 0 1 2\r\n", nil, protocol.ErrSyntax},
	{"S39", "put test 1 -5 0 1 2\r\n", nil, protocol.ErrSyntax},
	{"S40", "put test 1 5 2147483648 907060870 2\r\nhello", nil, protocol.ErrSyntax},
	{"S47", "get test g 1 0 -1 7\r\n", []string{`get topic="test" group="g" partition=1 maxsize=-1 opaque=7`}, errDry},
	{
		"S50", "get test g 1 9223372036854775807 1024 10\r\n",
		[]string{`get topic="test" group="g" partition=1 offset=9223372036854775807 maxsize=1024 opaque=10`},
		errDry,
	},
	{
		"S51", "get test g 1 -5 1024 11\r\n",
		[]string{`get topic="test" group="g" partition=1 offset=-5 maxsize=1024 opaque=11`},
		errDry,
	},
	{"S52", "get test\x20\x20g 1 0 100 12\r\n", nil, protocol.ErrSyntax},
	{
		"S53", "get test g 1 0 25 13 14 15\r\n",
		[]string{`get topic="test" group="g" partition=1 maxsize=25 opaque=13`},
		errDry,
	},
	{"S54", "get test g 1 0 100\r\n", nil, protocol.ErrSyntax},
	{"S60", "result 200 5 1\r\nhelloversion 3\r\n", []string{"version opaque=3"}, errDry},
	{"S61", "value 5 1\r\nhelloversion 3\r\n", []string{"version opaque=3"}, errDry},
	{"S62", "stats help 9\r\n", []string{`stats item="help" opaque=9`}, errDry},
	{"S66", "statsx 3\r\n", nil, protocol.ErrSyntax},
}

func TestScenario(t *testing.T) {
	for _, v := range scenario {
		t.Run(v.name, func(t *testing.T) {
			got, err := requests(sent(v.sent), protocol.Limits{})
			wantWords(t, got, v.want)
			wantErr(t, err, v.end)
		})
	}
}

// lines are the rules of protocol.md 2.2 to 2.5 that the vectors leave out.
var lines = []struct {
	name string
	sent string
	want []string
	end  error
}{
	{"lone LF is part of a field", "stats a\nb 1\r\n", []string{`stats item="a\nb" opaque=1`}, errDry},
	{"lone CR is part of a field", "stats a\rb 1\r\n", []string{`stats item="a\rb" opaque=1`}, errDry},
	{"CR CR LF: the first CR is part of the line", "version 1\r\r\n", nil, protocol.ErrSyntax},
	{"LF CR ends nothing", "version 1\n\r", nil, errDry},
	{"LF LF CR LF", "stats \n\n\r\n", []string{`stats item="\n\n" opaque=2147483647`}, errDry},
	{"only LF", "\n\n\n\n", nil, errDry},
	{"LF alone before CRLF", "\n\r\n", nil, protocol.ErrSyntax},
	{"tab separates nothing", "version\t1\r\n", nil, protocol.ErrSyntax},
	{"NUL is an ordinary byte", "stats \x00 1\r\n", []string{`stats item="\x00" opaque=1`}, errDry},
	{"only spaces", "   \r\n", nil, protocol.ErrSyntax},
	{"empty line behind a body (2.9)", "put t 0 1 0 1\r\nx\r\nversion 1\r\n", []string{
		`put topic="t" checksum=-1 old opaque=1 body="x"`,
	}, protocol.ErrSyntax},
	{"CRLF in a body is not looked at", "put t 0 4 0 1\r\n\r\n\r\nversion 1\r\n", []string{
		`put topic="t" checksum=-1 old opaque=1 body="\r\n\r\n"`, "version opaque=1",
	}, errDry},
	{"trailing spaces of put", "put t 0 1 0 -1 1  \r\nx", []string{`put topic="t" checksum=-1 opaque=1 body="x"`}, errDry},
	{"double space before a checksum", "put t 0 1 0  -1 1\r\nx", nil, protocol.ErrSyntax},
	{"double space in place of a checksum", "put t 0 1 0  1\r\nx", nil, protocol.ErrSyntax},
	{"9 fields of put", "put t 0 1 0 -1 TX:s:1 1 1\r\nx", nil, protocol.ErrSyntax},
	{"40 fields of put", "put t 0 1 0" + strings.Repeat(" 1", 35) + "\r\nx", nil, protocol.ErrSyntax},
	{"checksum with a plus is taken for a key", "put t 0 1 0 +1 1\r\nx", nil, protocol.ErrSyntax},
	{"checksum with a plus before a key", "put t 0 1 0 +1 TX:s:1 1\r\nx", []string{
		`put topic="t" checksum=1 txkey="TX:s:1" opaque=1 body="x"`,
	}, errDry},
	{"opaque with a plus behind a checksum", "put t 0 1 0 -1 +5\r\nx", []string{
		`put topic="t" checksum=-1 opaque=5 body="x"`,
	}, errDry},
	{"opaque with a plus, 6 fields", "put t 0 1 0 +5\r\nx", []string{`put topic="t" checksum=-1 old opaque=5 body="x"`}, errDry},
	{"a number in place of a key", "put t 0 1 0 -1 5 7\r\nx", nil, protocol.ErrSyntax},
	{"checksum of 33 bits", "put t 0 1 0 2147483648 1\r\nx", nil, protocol.ErrSyntax},
	{"length cut off", "put t 0\r\n", nil, protocol.ErrSyntax},
	{"length of 33 bits", "put t 0 2147483648 0 -1 1\r\n", nil, protocol.ErrSyntax},
	{"length with a plus and zeros", "put t 0 +001 0 -1 1\r\nx", []string{`put topic="t" checksum=-1 opaque=1 body="x"`}, errDry},
	{"length -0", "put t 0 -0 0 -1 1\r\n", []string{`put topic="t" checksum=-1 opaque=1`}, errDry},
	{"only a length is enough to wait", "put t 0 5\r\nhell", nil, errDry},
	{"only a length, and its body", "put t 0 5\r\nhello", nil, protocol.ErrSyntax},
	{"null as the key of a put", "put t 0 1 0 -1 null 1\r\nx", []string{
		`put topic="t" checksum=-1 txkey="null" opaque=1 body="x"`,
	}, errDry},
	{"extra fields of offset", "offset t g 0 0 1 2 3\r\n", []string{`offset topic="t" group="g" opaque=1`}, errDry},
	{"offset with 5 fields", "offset t g 0 0\r\n", nil, protocol.ErrSyntax},
	{"extra fields of stats", "stats a 1 2 x\r\n", []string{`stats item="a" opaque=1`}, errDry},
	{"stats of an item named 5", "stats 5\r\n", []string{`stats item="5" opaque=2147483647`}, errDry},
	{"stats, no item, opaque", "stats  7\r\n", []string{"stats opaque=7"}, errDry},
	{"stats, no item, spaces", "stats  \r\n", []string{"stats opaque=2147483647"}, errDry},
	{"stats, opaque no number", "stats a b\r\n", nil, protocol.ErrSyntax},
	{"extra fields of quit", "quit now\r\n", []string{"quit"}, errDry},
	{"extra fields of a get, 30 of them", "get t g 0 1 2 3" + strings.Repeat(" 9", 30) + "\r\n", []string{
		`get topic="t" group="g" offset=1 maxsize=2 opaque=3`,
	}, errDry},
	{"a get of 12 fields keeps its opaque", "get t g 0 1 2 3 4 5 6 7 8\r\n", []string{
		`get topic="t" group="g" offset=1 maxsize=2 opaque=3`,
	}, errDry},
	{"words that begin like verbs", "getx t g 0 0 1 1\r\n", nil, protocol.ErrSyntax},
	{"names of what is no verb", "none\r\n", nil, protocol.ErrSyntax},
	{"extra fields of an unsolicited value", "value 3 1 2 3\r\nabcquit\r\n", []string{"quit"}, errDry},
	{"unsolicited result cut off", "result 200 3 1\r\nab", nil, errDry},
	{"unsolicited result, negative length", "result 200 -3 1\r\n", nil, protocol.ErrSyntax},
	{"unsolicited result, 3 fields", "result 200 3\r\nabc", nil, protocol.ErrSyntax},
	{"many unsolicited ones", strings.Repeat("result 200 1 1\r\nx", 9999) + "quit\r\n", []string{"quit"}, errDry},
	{"names in UTF-8", "get 主题 组 0 0 1 1\r\n", []string{`get topic="主题" group="组" maxsize=1 opaque=1`}, errDry},
}

func TestLines(t *testing.T) {
	for _, v := range lines {
		t.Run(v.name, func(t *testing.T) {
			got, err := requests(sent(v.sent), protocol.Limits{})
			wantWords(t, got, v.want)
			wantErr(t, err, v.end)
		})
	}
}

// none stands for a number that a field does not hold.
const none = 99

// numbers are tried in a field of 32 and in one of 64 bits (protocol.md 2.3, step 6).
var numbers = []struct {
	text       string
	n32, n64   int64
	ok32, ok64 bool
}{
	{"0", 0, 0, true, true},
	{"-0", 0, 0, true, true},
	{"+0", 0, 0, true, true},
	{"+7", 7, 7, true, true},
	{"007", 7, 7, true, true},
	{"-007", -7, -7, true, true},
	{"00000000000000000000000000000000000000000000000012", 12, 12, true, true},
	{"2147483647", 2147483647, 2147483647, true, true},
	{"2147483648", none, 2147483648, false, true},
	{"-2147483648", -2147483648, -2147483648, true, true},
	{"-2147483649", none, -2147483649, false, true},
	{"4294967296", none, 4294967296, false, true},
	{"9223372036854775807", none, 9223372036854775807, false, true},
	{"9223372036854775808", none, none, false, false},
	{"-9223372036854775808", none, -9223372036854775808, false, true},
	{"-9223372036854775809", none, none, false, false},
	{"18446744073709551615", none, none, false, false},
	{"18446744073709551616", none, none, false, false},
	{"18446744073709551623", none, none, false, false},
	{"99999999999999999999999999", none, none, false, false},
	{"-", none, none, false, false},
	{"+", none, none, false, false},
	{"--1", none, none, false, false},
	{"+-1", none, none, false, false},
	{"1-", none, none, false, false},
	{"1.0", none, none, false, false},
	{"0x10", none, none, false, false},
	{"1e3", none, none, false, false},
	{"1_000", none, none, false, false},
	{"1,000", none, none, false, false},
	{"\t1", none, none, false, false},
	{"1\n", none, none, false, false},
	{"１", none, none, false, false}, // a full-width digit
	{"/", none, none, false, false},
	{":", none, none, false, false},
	{"\x10", none, none, false, false}, // 0x10 + '0' wraps to no digit
	{"x", none, none, false, false},
}

func TestNumbers(t *testing.T) {
	for _, v := range numbers {
		check := func(line, format string, n int64, ok bool) {
			t.Helper()
			got, err := requests(sent(line), protocol.Limits{})
			if !ok {
				wantErr(t, err, protocol.ErrSyntax)
				wantWords(t, got, nil)
				return
			}
			want := strings.ReplaceAll(fmt.Sprintf(format, n), " opaque=0", "")
			wantWords(t, got, []string{strings.ReplaceAll(want, " offset=0", "")})
		}
		check("version "+v.text+"\r\n", "version opaque=%d", v.n32, v.ok32)
		check("offset t g 0 "+v.text+" 1\r\n", `offset topic="t" group="g" offset=%d opaque=1`, v.n64, v.ok64)
		if n, ok := protocol.ParseOffset([]byte(v.text)); ok != v.ok64 || ok && n != v.n64 {
			t.Errorf("ParseOffset(%q) = %d, %t, want %d, %t", v.text, n, ok, v.n64, v.ok64)
		}
	}
}

// TestSyntaxErrorText: the error says what was sent, but not all of it.
func TestSyntaxErrorText(t *testing.T) {
	for line, want := range map[string]string{
		"put secret x 0 0 1 2\r\n":                 `protocol: bad line: "put" with 7 fields`,
		"GET / HTTP/1.1\r\n":                       `protocol: bad line: "GET" with 3 fields`,
		strings.Repeat("very long ", 999) + "\r\n": `protocol: bad line: "very" with 1998 fields`,
		strings.Repeat("long", 99) + "\r\n":        `protocol: bad line: "longlonglonglonglong" with 1 fields`,
		" \r\n":                                    `protocol: bad line: "" with 0 fields`,
	} {
		if _, err := requests(sent(line), protocol.Limits{}); err == nil || err.Error() != want {
			t.Errorf("got error %q, want %q", err, want)
		}
	}
}

// TestEnds: the end of the stream is clean between messages only.
func TestEnds(t *testing.T) {
	whole := "put test 1 5 0 907060870 99\r\nhello"
	for n := range len(whole) + 1 {
		want := io.ErrUnexpectedEOF
		if n == 0 || n == len(whole) {
			want = io.EOF
		}
		if _, err := requests(strings.NewReader(whole[:n]), protocol.Limits{}); !errors.Is(err, want) {
			t.Errorf("stream cut after %d bytes ends with %v, want %v", n, err, want)
		}
	}
	whole = "result 200 5 -2147483648\r\n1 2 3"
	for n := range len(whole) + 1 {
		want := io.ErrUnexpectedEOF
		if n == 0 || n == len(whole) {
			want = io.EOF
		}
		if _, err := responses(strings.NewReader(whole[:n]), protocol.Limits{}); !errors.Is(err, want) {
			t.Errorf("stream cut after %d bytes ends with %v, want %v", n, err, want)
		}
		if _, err := requests(strings.NewReader(whole[:n]), protocol.Limits{}); !errors.Is(err, want) {
			t.Errorf("read past, stream cut after %d bytes ends with %v, want %v", n, err, want)
		}
	}
}

// extensionLines are those of metaq's own verbs; docs/protocol.md has their grammar.
var extensionLines = []struct {
	sent string
	want string // "" where the connection closes
}{
	{"append t 3 4 2 7\r\nabcd", `append topic="t" partition=3 count=2 opaque=7 body="abcd"`},
	{"append t -1 0 0 -7\r\n", `append topic="t" partition=-1 opaque=-7`},
	{"append t 3 4 -1 7\r\nabcd", ""},
	{"append t 3 4 2\r\nabcd", ""},
	{"append t 3 4 2 7 8\r\nabcd", ""},
	{"append t 3 -4 2 7\r\nabcd", ""},
	{"append t 3 4 2147483648 7\r\nabcd", ""},
	{"append  3 4 2 7\r\nabcd", ""},
	{"poll t g 1 5 100 2000 7\r\n", `poll topic="t" group="g" partition=1 offset=5 maxsize=100 wait=2000 opaque=7`},
	{"poll t g 1 5 100 -1 7 8 9\r\n", `poll topic="t" group="g" partition=1 offset=5 maxsize=100 wait=-1 opaque=7`},
	{"poll t g 1 5 100 7\r\n", ""},
	{"poll t g 1 5 100 2147483648 7\r\n", ""},
	{"topics\r\n", "topics opaque=2147483647"},
	{"topics  7\r\n", "topics opaque=7"},
	{"topics t\r\n", `topics topic="t" opaque=2147483647`},
	{"topics t 7 8\r\n", `topics topic="t" opaque=7`},
	{"topics t x\r\n", ""},
}

func TestExtensionLines(t *testing.T) {
	for _, v := range extensionLines {
		got, err := requests(sent(v.sent), protocol.Limits{})
		if v.want == "" {
			wantErr(t, err, protocol.ErrSyntax)
			wantWords(t, got, nil)
			continue
		}
		wantErr(t, err, errDry)
		wantWords(t, got, []string{v.want})
	}
}

// TestNoResponse: a client closes when the broker sends what is no response.
func TestNoResponse(t *testing.T) {
	for _, line := range []string{
		"version 1\r\n", "results 200 0 1\r\n", "result 200 0\r\n", "result 200\r\n", "result x 0 1\r\n", "result 200 -1 1\r\n",
		"result 200 x 1\r\n", "result 200 0 x\r\n", "result 200 0 2147483648\r\n", "value 1\r\nx", "value -1 1\r\n", "value x 1\r\n",
		"\r\n", " result 200 0 1\r\n", "result  200 0 1\r\n", "Result 200 0 1\r\n", "HTTP/1.1 400 Bad Request\r\n",
	} {
		got, err := responses(sent(line), protocol.Limits{})
		wantErr(t, err, protocol.ErrSyntax)
		wantWords(t, got, nil)
	}
	got, err := responses(sent("result 200 1 5  \r\nxvalue 1 6 7 8\r\nyresult 301 2 7 9\r\n10"), protocol.Limits{})
	wantErr(t, err, errDry)
	wantWords(t, got, []string{
		`result code=200 opaque=5 body="x"`, `value code=200 opaque=6 body="y"`, `result code=301 opaque=7 body="10"`,
	})
}
