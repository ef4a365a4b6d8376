package pipeline

import (
	"sync"
	"sync/atomic"
)

// Tracker remembers which of the tuples a spout has handed out are done, and from that the position that may be committed.
// A spout keeps one for each partition: positions are added in order, done in any order, and [Tracker.Low] never passes a
// tuple that isn't done. The zero Tracker is ready; Start gives it a position.
//
//	t.Start(committed)
//	dst[i].Ack = t.Add(next)       // next: where reading would go on behind this tuple
//	store(t.Low())                 // now and then, and in Close
//
// Start and Add are called by one goroutine, the spout's; Low and Pending by any; Done, through the Ack, by any. Nothing is
// locked or allocated per tuple. Memory grows with the distance between the lowest tuple not done and the
// newest one, which Config.MaxPending bounds.
//
// A tuple done with an error is not passed: Low stays before it until Start is called again.
type Tracker struct {
	mu    sync.Mutex // held by Low, Pending and Start, and by Add once per chunk
	low   int64
	first *trackChunk // holds the lowest tuple not done, or where it will be
	off   int         // its place in first
	count int         // chunks from first to last
	spare *trackChunk // chunks to use again, linked

	last *trackChunk // Add's
}

const chunkTuples = 1024

// trackChunk is a run of tuples. It is the Acker of its tuples, so that an Ack from before a Start can't touch later ones.
type trackChunk struct {
	next  [chunkTuples]int64 // positions behind the tuples
	done  [chunkTuples / 64]atomic.Uint64
	added atomic.Int64 // next[:added] is valid
	link  *trackChunk  // guarded by Tracker.mu
}

// Start forgets everything and makes pos the committable position: at open, and when a partition is taken again. Acks of
// tuples added before have no effect any more.
func (t *Tracker) Start(pos int64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.low, t.off, t.count = pos, 0, 0
	t.first, t.last, t.spare = nil, nil, nil
}

// Add notes the next tuple, where next is the position behind it, from which reading would go on; it returns the tuple's Ack.
func (t *Tracker) Add(next int64) Ack {
	c := t.last
	if c == nil || c.added.Load() == chunkTuples {
		c = t.grow()
	}
	i := c.added.Load()
	c.next[i] = next
	c.added.Store(i + 1)
	return Ack{To: c, Seq: uint64(i)}
}

func (t *Tracker) grow() *trackChunk {
	t.mu.Lock()
	defer t.mu.Unlock()
	c := t.spare
	if c == nil {
		c = new(trackChunk)
	} else {
		t.spare, c.link = c.link, nil
	}
	if t.last == nil {
		t.first = c
	} else {
		t.last.link = c
	}
	t.last = c
	t.count++
	return c
}

// Done implements Acker.
func (c *trackChunk) Done(seq uint64, err error) {
	if err == nil {
		c.done[seq/64].Or(1 << (seq % 64))
	}
}

// Low returns the position behind the longest prefix of tuples that are all done: what may be committed.
func (t *Tracker) Low() int64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.advance()
	return t.low
}

// Pending returns how many tuples were added and are not passed by Low.
func (t *Tracker) Pending() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.advance()
	if t.last == nil {
		return 0
	}
	return (t.count-1)*chunkTuples - t.off + int(t.last.added.Load())
}

func (t *Tracker) advance() {
	for c := t.first; c != nil; c = t.first {
		n := int(c.added.Load())
		for t.off < n && c.done[t.off/64].Load()&(1<<(t.off%64)) != 0 {
			t.low = c.next[t.off]
			t.off++
		}
		if t.off < chunkTuples || c.link == nil {
			return
		}
		t.first, t.off = c.link, 0
		t.count--
		// Every tuple of c has had its only Done, so nobody holds an Ack of it any more.
		for i := range c.done {
			c.done[i].Store(0)
		}
		c.added.Store(0)
		t.spare, c.link = c, t.spare
	}
}
