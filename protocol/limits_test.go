package protocol_test

import (
	"bytes"
	"fmt"
	"io"
	"runtime"
	"strings"
	"testing"

	"github.com/metaq-go/metaq/protocol"
)

// TestLineLimit: a line of the limit is read, a longer one is refused as soon as that is known, however it arrives.
func TestLineLimit(t *testing.T) {
	for _, limit := range []int{0, 20, 1000, 100 << 10} {
		size := limit
		if limit == 0 {
			size = 64 << 10 // the default
		}
		for _, extra := range []int{-1, 0, 1, 2, 1000} {
			line := "stats " + string(repeat(size+extra-6))
			for _, chunk := range []int{1 << 20, 4096, size + 1, size + 2, 7} {
				src := &chunked{data: []byte(line + "\r\nquit\r\n"), sizes: []int{chunk}, end: errDry}
				got, err := requests(src, protocol.Limits{Line: limit})
				if extra > 0 {
					wantErr(t, err, protocol.ErrLineTooLong)
					wantWords(t, got, nil)
					continue
				}
				wantErr(t, err, errDry)
				wantWords(t, got, []string{fmt.Sprintf("stats item=%q opaque=2147483647", line[6:]), "quit"})
			}
			// Without its end: one byte too many is enough to know, if it can't be the CR.
			_, err := requests(sent(line), protocol.Limits{Line: limit})
			want := errDry
			if extra > 1 {
				want = protocol.ErrLineTooLong
			}
			wantErr(t, err, want)
		}
	}
	_, err := responses(sent("result 200 0 1 "+strings.Repeat("x", 64<<10)), protocol.Limits{})
	wantErr(t, err, protocol.ErrLineTooLong)
	_, err = requests(&endless{data: []byte("no end\n\r")}, protocol.Limits{})
	wantErr(t, err, protocol.ErrLineTooLong)
}

// TestBodyLimit: up to the limit a body is read; beyond it, it is read past and the request can still be refused by name;
// beyond the second limit there is no telling.
func TestBodyLimit(t *testing.T) {
	lim := protocol.Limits{Body: 1000, Skip: 100_000}
	for _, form := range []struct{ line, words string }{
		{"put t 7 %d 0 -1 TX:s:1 5\r\n", `put topic="t" partition=7 checksum=-1 txkey="TX:s:1" opaque=5`},
		{"append t 7 %d 3 5\r\n", `append topic="t" partition=7 count=3 opaque=5`},
	} {
		for _, chunk := range []int{1 << 20, 900, 7} {
			for _, size := range []int{999, 1000, 1001, 5000, 99_999, 100_000} {
				body := repeat(size)
				data := append([]byte(fmt.Sprintf(form.line, size)), body...)
				data = append(data, "version 6\r\n"...)
				want := form.words + fmt.Sprintf(" toolong=%d", size)
				if size <= 1000 {
					want = form.words + fmt.Sprintf(" body=%q", body)
				}
				got, err := requests(&chunked{data: data, sizes: []int{chunk}, end: errDry}, lim)
				wantErr(t, err, errDry)
				wantWords(t, got, []string{want, "version opaque=6"})

				got, err = requests(&chunked{data: data[:len(data)-12], sizes: []int{chunk}, end: io.EOF}, lim)
				wantErr(t, err, io.ErrUnexpectedEOF) // a byte of the body is missing
				wantWords(t, got, nil)
			}
		}
		for _, size := range []int{100_001, 1 << 30, 1<<31 - 1} {
			_, err := requests(sent(fmt.Sprintf(form.line, size)), lim)
			wantErr(t, err, protocol.ErrBodyTooLong)
		}
	}
	_, err := requests(sent("put t x 2000 0 1 2\r\n"), lim)
	wantErr(t, err, protocol.ErrSyntax) // a bad line that can't be refused by name
}

// TestDefaultBodyLimit: 16 MiB are read, 64 MiB are read past.
func TestDefaultBodyLimit(t *testing.T) {
	for size, want := range map[int]error{16 << 20: nil, 16<<20 + 1: nil, 64 << 20: nil, 64<<20 + 1: protocol.ErrBodyTooLong} {
		line := fmt.Sprintf("append t 0 %d 1 5\r\n", size)
		src := io.MultiReader(strings.NewReader(line), io.LimitReader(&endless{data: repeat(4096)}, int64(size)))
		rd := protocol.NewReader(src, protocol.Limits{})
		var q protocol.Request
		wantErr(t, rd.Request(&q), want)
		if want != nil {
			continue
		}
		if long := size > 16<<20; (q.TooLong != 0) != long || long != (len(q.Body) != size) {
			t.Errorf("body of %d bytes: got %d, TooLong %d", size, len(q.Body), q.TooLong)
		}
		wantErr(t, rd.Request(&q), io.EOF)
	}
}

// TestBodyBelowSkip: a Skip below Body, or none, is Body at least.
func TestBodyBelowSkip(t *testing.T) {
	got, err := requests(sent("put t 0 5 0 1\r\nhello"), protocol.Limits{Body: 10, Skip: 1})
	wantErr(t, err, errDry)
	wantWords(t, got, []string{`put topic="t" checksum=-1 old opaque=1 body="hello"`})
}

// TestResponseLimit: a client refuses a body beyond its limit before it reads it; what a server reads past has no limit.
func TestResponseLimit(t *testing.T) {
	lim := protocol.Limits{Body: 10, Skip: 20}
	for _, line := range []string{"value %d 1\r\n", "result 200 %d 1\r\n"} {
		got, err := responses(sent(fmt.Sprintf(line, 10)+"0123456789"), lim)
		wantErr(t, err, errDry)
		if len(got) != 1 {
			t.Errorf("got %d responses, want 1", len(got))
		}
		_, err = responses(sent(fmt.Sprintf(line, 11)), lim)
		wantErr(t, err, protocol.ErrBodyTooLong)
		words, err := requests(sent(fmt.Sprintf(line, 1000)+string(repeat(1000))+"quit\r\n"), lim)
		wantErr(t, err, errDry)
		wantWords(t, words, []string{"quit"})
	}
}

// meter gives what a peer sent, notes how much room it was offered, and measures the heap when the input runs dry.
type meter struct {
	data  []byte
	room  int // the most that was offered at once
	inUse uint64
}

func (m *meter) Read(p []byte) (int, error) {
	m.room = max(m.room, len(p))
	if len(m.data) == 0 {
		runtime.GC()
		var s runtime.MemStats
		runtime.ReadMemStats(&s)
		m.inUse = s.HeapAlloc
		return 0, errDry
	}
	n := copy(p, m.data)
	m.data = m.data[n:]
	return n, nil
}

// roomy notes how much room its source is offered at once.
type roomy struct {
	src  io.Reader
	room int
}

func (r *roomy) Read(p []byte) (int, error) {
	r.room = max(r.room, len(p))
	return r.src.Read(p)
}

// TestReadAhead: who sends as much as we take is read in bigger pieces, up to a limit; who sends little costs little.
func TestReadAhead(t *testing.T) {
	line := []byte("version 1\r\n")
	for name, v := range map[string]struct {
		src      io.Reader
		from, to int
	}{
		"flood":   {&endless{data: bytes.Repeat(line, 100_000)}, 256 << 10, 256 << 10},
		"trickle": {&chunked{data: bytes.Repeat(line, 300_000), sizes: []int{len(line)}}, 16 << 10, 16 << 10},
	} {
		src := &roomy{src: v.src}
		rd := protocol.NewReader(src, protocol.Limits{})
		var q protocol.Request
		for range 300_000 {
			if err := rd.Request(&q); err != nil {
				t.Fatal(err)
			}
		}
		if src.room < v.from || src.room > v.to {
			t.Errorf("%s: %d bytes asked for at once, want %d to %d", name, src.room, v.from, v.to)
		}
	}
}

// TestMemoryGrowsWithArrival: a peer that announces much and sends little makes us hold little.
func TestMemoryGrowsWithArrival(t *testing.T) {
	for _, line := range []string{
		"put t 0 16777216 0 1\r\n", "append t 0 16777216 5 1\r\n", "put t 0 67108864 0 1\r\n",
		"value 2000000000 1\r\n", "result 200 2000000000 1\r\n",
	} {
		for _, size := range []int{0, 100, 10_000, 100_000, 1 << 20, 5 << 20} {
			src := &meter{data: append([]byte(line), repeat(size)...)}
			var before runtime.MemStats
			runtime.GC()
			runtime.ReadMemStats(&before)
			rd := protocol.NewReader(src, protocol.Limits{})
			var q protocol.Request
			wantErr(t, rd.Request(&q), errDry)
			held := int64(src.inUse) - int64(before.HeapAlloc)
			runtime.KeepAlive(rd)
			if limit := int64(max(2*size, 512<<10) + 64<<10); held > limit {
				t.Errorf("%q and %d bytes: %d bytes held, want at most %d", line, size, held, limit)
			}
		}
	}
}

// TestBufferGivenBack: a buffer made big for one body is not kept for ever, and one that stays in use is.
func TestBufferGivenBack(t *testing.T) {
	small := []byte("version 1\r\n")
	big := append([]byte("append t 0 10000000 1 1\r\n"), repeat(10_000_000)...)
	src := &meter{data: big}
	rd := protocol.NewReader(src, protocol.Limits{})
	var q protocol.Request
	wantErr(t, rd.Request(&q), nil)
	next := func(data []byte) (room int) {
		t.Helper()
		src.data, src.room = data, 0
		wantErr(t, rd.Request(&q), nil)
		return src.room
	}
	if room := next(small); room < 10_000_000 {
		t.Errorf("room for %d bytes right behind a big body, want the buffer to be still there", room)
	}
	after := 1
	for ; after < 1000; after++ {
		if next(small) <= 256<<10 {
			break
		}
	}
	if after > 20 {
		t.Errorf("the buffer was still there after %d small requests", after)
	}
	next(big)
	for range 10 {
		for range 10 {
			next(small)
		}
		next(big)
	}
	if room := next(small); room < 10_000_000 {
		t.Errorf("room for %d bytes, want the buffer to stay while it is needed now and then", room)
	}
}
