package protocol_test

import (
	"bytes"
	"io"
	"testing"

	"github.com/metaq-go/metaq/protocol"
)

// recordsOf returns records of bodies of n bytes, about size bytes of them.
func recordsOf(size, n int) (buf []byte, count int) {
	for len(buf)+protocol.HeaderSize+n <= size {
		buf = protocol.AppendMessage(buf, protocol.MakeID(1700000000000, 0, count), nil, repeat(n))
		count++
	}
	return buf, count
}

// coding is what both the benchmarks and the test that nothing is allocated run: step decodes or encodes one message of
// size bytes.
type coding struct {
	name string
	size int
	step func() error
}

// decoding reads one and the same message over and over, as many of them as come in one piece.
func decoding(name string, message []byte, step func(rd *protocol.Reader) error) coding {
	rd := protocol.NewReader(&endless{data: bytes.Repeat(message, 1+64<<10/len(message))}, protocol.Limits{})
	return coding{name, len(message), func() error { return step(rd) }}
}

func encoding(name string, step func(dst []byte) []byte) coding {
	buf := make([]byte, 0, 1<<20)
	return coding{name, len(step(buf)), func() error { buf = step(buf[:0]); return nil }}
}

func codings() []coding {
	// Names and numbers are as long as those of real clients: the opaque of one in Java starts at -2147483648.
	hundred := repeat(100)
	put := protocol.Request{
		Verb: protocol.VerbPut, Topic: bs("access"), Partition: 3, Checksum: protocol.Checksum(hundred), Opaque: -2147483000,
		Body: hundred,
	}
	get := protocol.Request{
		Verb: protocol.VerbGet, Topic: bs("access"), Group: bs("errors"), Partition: 3, Offset: 123456789012, MaxSize: 1 << 20,
	}
	appending := protocol.Request{Verb: protocol.VerbAppend, Topic: bs("access"), Partition: 3, Opaque: 77, Count: 2184}
	appending.Body, _ = recordsOf(256<<10, 100)
	inTx := put
	inTx.TxKey = bs("TX:192.0.2.2-1796103258905-1:17")
	value := protocol.Response{Verb: protocol.VerbValue, Opaque: 5, Body: appending.Body}
	var q protocol.Request
	var p protocol.Response
	request := func(rd *protocol.Reader) error { return rd.Request(&q) }
	response := func(rd *protocol.Reader) error { return rd.Response(&p) }
	stored := protocol.AppendStored(nil, -2147483000, 1661382015573819391, 3, 123456789012)
	body := make([]byte, len(value.Body))
	return []coding{
		decoding("decode/put", put.AppendTo(nil), request),
		decoding("decode/put-tx", inTx.AppendTo(nil), request),
		decoding("decode/get", get.AppendTo(nil), request),
		decoding("decode/append-256K", appending.AppendTo(nil), request),
		decoding("decode/result", stored, func(rd *protocol.Reader) error {
			if err := rd.Response(&p); err != nil {
				return err
			}
			if _, _, offset, ok := protocol.ParseStored(p.Body); !ok || offset != 123456789012 {
				return io.ErrUnexpectedEOF
			}
			return nil
		}),
		decoding("decode/value-256K", value.AppendTo(nil), response),
		decoding("decode/value-256K-into", value.AppendTo(nil), func(rd *protocol.Reader) error {
			n, err := rd.ResponseLine(&p)
			if err != nil {
				return err
			}
			return rd.ReadBody(body[:n])
		}),
		encoding("encode/put", put.AppendTo),
		encoding("encode/get", get.AppendTo),
		encoding("encode/append-256K", appending.AppendTo),
		encoding("encode/append-line", appending.AppendLine),
		encoding("encode/stored", func(dst []byte) []byte {
			return protocol.AppendStored(dst, -2147483000, 1661382015573819391, 3, 123456789012)
		}),
		encoding("encode/result", func(dst []byte) []byte {
			return protocol.AppendResult(dst, protocol.NotFound, 5, "Could not find message at position 139")
		}),
		encoding("encode/value-line", func(dst []byte) []byte { return protocol.AppendValueLine(dst, 1<<20, 5) }),
		encoding("encode/message", func(dst []byte) []byte {
			return protocol.AppendMessage(dst, 1661382015573819391, bs("a"), hundred)
		}),
	}
}

func BenchmarkCoding(b *testing.B) {
	for _, c := range codings() {
		b.Run(c.name, func(b *testing.B) {
			b.ReportAllocs()
			b.SetBytes(int64(c.size))
			for b.Loop() {
				if err := c.step(); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// TestNoAllocations: decoding and encoding allocate nothing per message, once buffers have the size they need.
func TestNoAllocations(t *testing.T) {
	for _, c := range codings() {
		for range 100 { // the buffer grows with what it reads
			wantErr(t, c.step(), nil)
		}
		var err error
		if n := testing.AllocsPerRun(1000, func() { err = c.step() }); n != 0 || err != nil {
			t.Errorf("%s: %v allocations a message, error %v, want none", c.name, n, err)
		}
	}
	buf, count := recordsOf(256<<10, 100)
	if n := testing.AllocsPerRun(10, func() {
		if protocol.CheckRecords(buf, count) != nil || protocol.StampIDs(buf, 5) != count {
			count = -1
		}
		for pos, r := range protocol.Records(buf) {
			if r.Verify() != nil || pos < 0 {
				count = -1
			}
		}
	}); n != 0 || count < 0 {
		t.Errorf("%v allocations for %d records, want none", n, count)
	}
}

func BenchmarkRecords(b *testing.B) {
	for _, size := range []struct {
		name string
		n    int
	}{{"100B", 100}, {"1kB", 1000}, {"64kB", 64 << 10}} {
		buf, count := recordsOf(1<<20, size.n)
		run := func(name string, step func() int) {
			b.Run(name+"/"+size.name, func(b *testing.B) {
				b.ReportAllocs()
				b.SetBytes(int64(len(buf)))
				for b.Loop() {
					if got := step(); got != count {
						b.Fatalf("got %d records, want %d", got, count)
					}
				}
				b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(count), "ns/record")
			})
		}
		run("iterate", func() (n int) {
			for range protocol.Records(buf) {
				n++
			}
			return n
		})
		run("verify", func() (n int) {
			for _, r := range protocol.Records(buf) {
				if r.Verify() == nil {
					n++
				}
			}
			return n
		})
		run("check", func() int {
			if err := protocol.CheckRecords(buf, count); err != nil {
				b.Fatal(err)
			}
			return count
		})
		run("stamp", func() int { return protocol.StampIDs(buf, 5) })
	}
}
