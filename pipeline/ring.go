package pipeline

import (
	"context"
	"math/bits"
	"sync/atomic"
)

// anchor ties a tuple anywhere in the topology to the source tuple it came from: the slot that counts what is left to do for
// it, and its ring. It also carries the key the tuple is ordered by, which is 0 in Unordered mode. All in one word,
// because every hop moves it from core to core.
type anchor uint64

const (
	keyBits  = 24
	slotBits = 24 // maxMaxPending
	ringBits = 16
)

func newAnchor(ring uint16, slot uint32) anchor { return anchor(ring)<<slotBits | anchor(slot) }

func (a anchor) slot() uint32 { return uint32(a) & (1<<slotBits - 1) }
func (a anchor) ring() uint16 { return uint16(a >> slotBits) }
func (a anchor) key() uint32  { return uint32(a >> (slotBits + ringBits)) }

func (a anchor) withKey(key uint32) anchor {
	return a&(1<<(slotBits+ringBits)-1) | anchor(key)<<(slotBits+ringBits)
}

// ring is the window of one spout task: a slot for every source tuple that is not done, MaxPending at most, counted from the
// lowest. The spout's goroutine hands out slots; any task completes them.
//
// Each slot counts tokens. A source tuple starts with one; a stage that makes k tuples of one takes k-1 more before it sends
// the first, and gives one back if it makes none; a sink gives one back for each tuple it has stored. Who gives back the last one
// answers the spout. A tuple that passes through a stage one to one touches its slot not at all.
//
// What the spout writes and what the tasks write lies apart: the cost of a slot is the cache lines that two cores take from
// each other.
type ring struct {
	states  []state // written by tasks
	acks    []Ack
	origins []Origin // read on failures only
	limit   uint64
	bits    int // there are 1<<bits slots
	id      uint16

	head, tail  uint64       // the spout's; tail ≤ head ≤ tail+limit
	handed, low atomic.Int64 // head and tail for Stats
	wanted      atomic.Int64 // the slot whose completion must wake the spout; -1: none
	wake        chan struct{}
}

// state is what the tasks know of a slot. tokens is 1 whenever the slot is free, so that taking it costs no atomic write;
// done counts the tuples the slot has seen the end of.
type state struct {
	tokens atomic.Int32
	done   atomic.Uint32
}

func newRing(id uint16, maxPending int) *ring {
	log := bits.Len(uint(maxPending - 1))
	n := 1 << log
	r := &ring{
		states: make([]state, n), acks: make([]Ack, n), origins: make([]Origin, n),
		limit: uint64(maxPending), bits: log, id: id, wake: make(chan struct{}, 1),
	}
	r.wanted.Store(-1)
	for i := range r.states {
		r.states[i].tokens.Store(1)
	}
	return r
}

func (r *ring) index(seq uint64) uint32 { return uint32(seq & uint64(len(r.states)-1)) }

// over tells whether tuple seq, which has been handed out, is done.
func (r *ring) over(seq uint64) bool {
	return int32(r.states[r.index(seq)].done.Load()-uint32(seq>>r.bits)) > 0 // behind seq the slot may have had others
}

// pending counts the tuples that are handed out and not done, for Stats.
func (r *ring) pending() (n int64) {
	head := uint64(r.handed.Load())
	for seq := uint64(r.low.Load()); seq < head; seq++ {
		if !r.over(seq) {
			n++
		}
	}
	return n
}

// enter takes slots for source tuples, one token each, and returns the number of the first. The caller has made sure of room.
func enter[M any](r *ring, in []Tuple[M]) (first uint64) {
	first = r.head
	acks, origins := r.acks, r.origins
	for i := range in {
		t, at := &in[i], r.index(first+uint64(i))
		acks[at] = t.Ack
		origins[at] = t.Origin
	}
	r.head += uint64(len(in))
	r.handed.Store(int64(r.head))
	return first
}

// take adds n tokens; the caller holds one.
func (r *ring) take(slot uint32, n int) { r.states[slot].tokens.Add(int32(n)) }

// release gives n tokens back. With the last one the source tuple is done.
func (r *ring) release(slot uint32, n int) {
	s := &r.states[slot]
	if !s.give(s.tokens.Load(), int32(n)) {
		return
	}
	r.acks[slot].Done(nil)
	s.done.Store(s.done.Load() + 1) // from here on the slot is the spout's
	if r.wanted.Load() == int64(slot) {
		select {
		case r.wake <- struct{}{}:
		default:
		}
	}
}

// give gives n tokens back and tells whether they were the last; seen is a count read just before.
func (s *state) give(seen, n int32) bool {
	switch {
	case seen != n:
		if s.tokens.Add(-n) != 0 {
			return false
		}
		s.tokens.Store(1) // for the next tuple
	case n != 1: // all that are left are the caller's, so nobody else can change the count
		s.tokens.Store(1)
	}
	return true
}

// free passes what is done and returns how many slots can be handed out.
func (r *ring) free() int {
	for r.tail < r.head && r.over(r.tail) {
		r.tail++
	}
	r.low.Store(int64(r.tail))
	return int(r.limit - (r.head - r.tail))
}

// wait returns when a fair part of the window is free, or stop ended. Whatever is in flight is completed without new
// tuples (see run.starved), so waiting for more than one slot cannot wait for ever.
func (r *ring) wait(stop context.Context) {
	need := int(min(r.limit, max(1, r.limit/4), spoutBatch))
	for {
		free := r.free()
		if free >= need {
			return
		}
		// Best is to hear of the tuple whose end frees all that is needed; if it ended early, of the lowest.
		seq := r.tail + uint64(need-free) - 1
		if r.over(seq) {
			seq = r.tail
		}
		r.wanted.Store(int64(r.index(seq)))
		if !r.over(seq) {
			select {
			case <-r.wake:
			case <-stop.Done():
				r.wanted.Store(-1)
				return
			}
		}
		r.wanted.Store(-1)
	}
}

// abandon answers with err for every tuple that is not done and returns how many those were and the first one's origin. All tasks have ended.
func (r *ring) abandon(err error) (n int, first Origin) {
	for ; r.tail < r.head; r.tail++ {
		if r.over(r.tail) {
			continue
		}
		i := r.index(r.tail)
		if n == 0 {
			first = r.origins[i]
		}
		n++
		r.acks[i].Done(err)
	}
	r.low.Store(int64(r.tail))
	return n, first
}
