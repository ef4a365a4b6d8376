package server_test

import (
	"fmt"
	"strings"
	"time"

	"pgregory.net/rapid"

	"github.com/metaq-go/metaq/protocol"
)

// wants returns a check of a code and a part of the text.
func wants(code protocol.Code, text string) func(*protocol.Response) error {
	return func(a *protocol.Response) error {
		if a.Code != code || !strings.Contains(string(a.Body), text) {
			return fmt.Errorf("want %d with %q", code, text)
		}
		return nil
	}
}

// draw makes up one request.
func (m *model) draw() *ask {
	rt, q := m.rt, &ask{opaque: m.next()}
	target := rapid.SampledFrom([]int32{0, 0, 1, 2, 3, -1, 4, -2}).Draw(rt, "partition")
	switch kind := rapid.SampledFrom([]string{"put", "put", "put", "append", "get", "get", "offset", "poll", "bad put", "bad append", "version"}).Draw(rt, "kind"); kind {
	case "put", "bad put":
		body := rapid.SliceOfN(rapid.Byte(), 0, 60).Draw(rt, "body")
		flag := rapid.SampledFrom([]int32{0, 2, -2}).Draw(rt, "flag")
		sum := rapid.SampledFrom([]int32{-1, protocol.Checksum(body)}).Draw(rt, "sum")
		if kind == "bad put" {
			sum = (protocol.Checksum(body) + 1) & 0x7fffffff
		}
		req := protocol.Request{
			Verb: protocol.VerbPut, Topic: []byte("t"), Partition: target, Flag: flag, Checksum: sum, Opaque: q.opaque, Body: body,
		}
		q.request = string(req.AppendTo(nil))
		q.check = m.checkPut(target, kind == "bad put", badSum, []int32{flag}, [][]byte{body})
	case "append", "bad append":
		var records []byte
		var flags []int32
		bodies := rapid.SliceOfN(rapid.SliceOfN(rapid.Byte(), 0, 40), 1, 12).Draw(rt, "bodies")
		for range bodies {
			flags = append(flags, 4)
		}
		for _, b := range bodies {
			records = protocol.AppendRecord(records, rapid.Int64().Draw(rt, "id"), 4, b)
		}
		if kind == "bad append" {
			records[rapid.SampledFrom([]int{0, 4, 5, 6, 7}).Draw(rt, "flip")] ^= 0x40
		}
		q.request = fmt.Sprintf("append t %d %d %d %d\r\n%s", target, len(records), len(bodies), q.opaque, records)
		q.check = m.checkPut(target, kind == "bad append", "record", flags, bodies)
	case "get", "offset", "poll":
		m.drawRead(q, kind, target)
	case "version":
		q.request, q.check = fmt.Sprintf("version %d\r\n", q.opaque), wants(200, "metaq/0")
	}
	return q
}

func (m *model) checkPut(target int32, bad bool, why string, flags []int32, bodies [][]byte) func(*protocol.Response) error {
	allClosed := m.isClosed(0) && m.isClosed(1) && m.isClosed(2) && m.isClosed(3)
	switch {
	case target < -1 || target > 3:
		return wants(500, "wrong partition")
	case m.isClosed(target) || target == -1 && allClosed:
		return wants(403, "has been closed")
	case bad:
		return wants(500, why)
	}
	return func(a *protocol.Response) error { return m.stored(a, target, flags, bodies) }
}

func (m *model) drawRead(q *ask, kind string, target int32) {
	end := 0
	if target >= 0 && target < 4 && m.partitions[target] != nil {
		end = len(m.partitions[target].data)
	}
	q.partition = target
	q.offset = rapid.OneOf(rapid.Just(int64(end)), rapid.Int64Range(0, int64(end)), rapid.Int64Range(-2, int64(end)+200),
		rapid.Just(int64(protocol.MaxOffset))).Draw(m.rt, "offset")
	q.size = rapid.SampledFrom([]int{1, 20, 100, 1000, 1 << 30, 0, -1}).Draw(m.rt, "size")
	switch kind {
	case "get":
		q.verb = protocol.VerbGet
		q.request = fmt.Sprintf("get t g %d %d %d %d\r\n", target, q.offset, q.size, q.opaque)
	case "poll":
		q.verb = protocol.VerbPoll
		wait := rapid.SampledFrom([]int{0, 1, 1000, 2000, 5000}).Draw(m.rt, "wait")
		if wait > 0 {
			q.deadline = time.Now().Add(time.Duration(wait) * time.Millisecond)
		}
		q.request = fmt.Sprintf("poll t g %d %d %d %d %d\r\n", target, q.offset, q.size, wait, q.opaque)
	case "offset":
		q.verb = protocol.VerbOffset
		q.request = fmt.Sprintf("offset t g %d %d %d\r\n", target, q.offset, q.opaque)
	}
	if m.isClosed(target) && kind != "offset" {
		q.verb, q.check = protocol.VerbVersion, wants(403, "has been closed")
	}
}
