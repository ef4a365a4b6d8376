package tail4go

import (
	"math/bits"
	"sync"
	"sync/atomic"

	"github.com/metaq-go/metaq/client"
)

// blockLines is how many lines share a block, and with it a callback.
const blockLines = 1024

// window remembers the lines of one file that were sent and what became of them: its low mark is the position behind the
// longest run of lines that are all acknowledged.
//
// One goroutine, the file's reader, adds lines and asks about failures; any may ask for the low mark; senders answer from
// wherever they like. Adding a line and its answer take no lock and allocate nothing. A line that isn't answered yet is
// never read from here by others than the reader, so the answer alone makes a line's end visible to them.
type window struct {
	failed atomic.Int32 // lines whose last answer was an error
	fail   func(error)  // called with each such error, by the sender

	mu   sync.Mutex // guards what follows, and parts of the blocks
	head *block     // holds the first line above low; nil: nothing is remembered
	off  int        // its place in head
	low  position

	tail *block // the reader's, as n is
	n    int    // lines in tail

	pool *blockPool
}

// position is a place in a file where reading may go on.
type position struct {
	at   int64
	part int // pieces of the line at this place that were sent already; 0: a line begins here
}

// block is a run of lines.
type block struct {
	w      *window
	done   [blockLines / 64]atomic.Uint64 // acknowledged
	failed [blockLines / 64]atomic.Uint64 // answered with an error, and not sent again since
	start  position
	ends   [blockLines]int64
	parts  map[int]int // part of the position behind a line, where it isn't 0
	answer func(client.Result, error)
	next   *block
}

// blockPool keeps some blocks that are not used for those windows that need one: what windows cost is then bounded by what
// is on its way, not by the number of files.
type blockPool struct {
	mu   sync.Mutex
	free []*block
}

const keepBlocks = 256 // 2 MiB

func (p *blockPool) get(w *window, start position) *block {
	p.mu.Lock()
	defer p.mu.Unlock()
	n := len(p.free)
	if n == 0 {
		b := &block{w: w, start: start}
		b.answer = b.answered
		return b
	}
	b := p.free[n-1]
	p.free = p.free[:n-1]
	b.w, b.start = w, start
	return b
}

// put takes a block whose lines have all been acknowledged: no callback of them is to come.
func (p *blockPool) put(b *block) {
	for i := range b.done {
		b.done[i].Store(0)
	}
	clear(b.parts)
	b.next = nil
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.free) < keepBlocks {
		p.free = append(p.free, b)
	}
}

func newWindow(start position, pool *blockPool, fail func(error)) *window {
	return &window{fail: fail, low: start, n: blockLines, pool: pool}
}

// answered is the callback of all lines of a block. The mark of what became of the line is its last act: from then on the
// block may be used for something else.
func (b *block) answered(res client.Result, err error) {
	bit := uint64(1) << (res.Tag % 64)
	if err == nil {
		b.done[res.Tag/64].Or(bit)
		return
	}
	b.w.failed.Add(1)
	b.w.fail(err)
	b.failed[res.Tag/64].Or(bit)
}

// add notes a line that is about to be sent, by the position behind it, and returns its tag and callback.
func (w *window) add(end position) (tag int64, answer func(client.Result, error)) {
	if w.n == blockLines {
		w.grow()
	}
	b, i := w.tail, w.n
	b.ends[i] = end.at
	if end.part > 0 {
		w.mu.Lock()
		if b.parts == nil {
			b.parts = make(map[int]int)
		}
		b.parts[i] = end.part
		w.mu.Unlock()
	}
	w.n++
	return int64(i), b.answer
}

// undo takes back the line added last, which was not sent.
func (w *window) undo() {
	w.n--
	w.mu.Lock()
	delete(w.tail.parts, w.n)
	w.mu.Unlock()
}

// skip passes bytes that need no record.
func (w *window) skip(end position) {
	tag, answer := w.add(end)
	answer(client.Result{Tag: tag}, nil)
}

func (w *window) grow() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.advance()
	if w.tail == nil {
		w.tail = w.pool.get(w, w.low)
		w.head, w.off, w.n = w.tail, 0, 0
		return
	}
	b := w.pool.get(w, w.tail.end(blockLines-1))
	w.tail.next = b
	w.tail, w.n = b, 0
	w.advance()
}

// rest gives back the memory of a window all of whose lines are acknowledged. Only the reader may call it.
func (w *window) rest() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.advance(); w.tail != nil && w.head == w.tail && w.off == w.n {
		w.pool.put(w.tail)
		w.head, w.tail, w.n = nil, nil, blockLines
	}
}

// end returns the position behind line i; window.mu is held.
func (b *block) end(i int) position {
	if i < 0 {
		return b.start
	}
	return position{b.ends[i], b.parts[i]}
}

// mark returns the low mark.
func (w *window) mark() position {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.advance()
	return w.low
}

func (w *window) advance() {
	from := w.off
	for w.head != nil {
		b := w.head
		for w.off < blockLines {
			word := b.done[w.off/64].Load() >> (w.off % 64)
			run := min(bits.TrailingZeros64(^word), 64-w.off%64)
			if run == 0 {
				break
			}
			w.off += run
		}
		if w.off > from {
			w.low = b.end(w.off - 1)
		}
		if w.off < blockLines || b.next == nil {
			return
		}
		w.head, w.off, from = b.next, 0, 0
		w.pool.put(b)
	}
}

// failure is a line that has to be sent again, from one position to the next.
type failure struct {
	block    *block
	tag      int
	from, to position
}

// failures returns the oldest lines that failed, at most most of them, and whether answers of others are to come. Only the
// reader may ask.
func (w *window) failures(most int) (list []failure, unanswered bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.advance()
	i := w.off
	for b := w.head; b != nil; b, i = b.next, 0 {
		n := blockLines
		if b == w.tail {
			n = w.n
		}
		for ; i < n; i++ {
			word, bit := i/64, uint64(1)<<(i%64)
			switch {
			case b.failed[word].Load()&bit == 0:
				unanswered = unanswered || b.done[word].Load()&bit == 0
			case len(list) < most:
				list = append(list, failure{block: b, tag: i, from: b.end(i - 1), to: b.end(i)})
			}
		}
	}
	return list, unanswered
}

// retry makes the line one that is on its way, to be sent with the callback that is returned.
func (f failure) retry() func(client.Result, error) {
	f.block.failed[f.tag/64].And(^(uint64(1) << (f.tag % 64)))
	f.block.w.failed.Add(-1)
	return f.block.answer
}

// refused takes a retry back: the sender didn't take the line.
func (f failure) refused() {
	f.block.failed[f.tag/64].Or(uint64(1) << (f.tag % 64))
	f.block.w.failed.Add(1)
}

// giveUp passes a line that can't be sent any more.
func (f failure) giveUp() {
	f.retry()(client.Result{Tag: int64(f.tag)}, nil)
}
