package store

import (
	"sync/atomic"
	"time"

	"github.com/metaq-go/metaq/protocol"
)

// ids gives out message ids: wall-clock milliseconds and a sequence, never twice and never backwards, also when the
// clock steps back or more than 4096 ids a millisecond are asked for (it then runs ahead of the clock).
type ids struct {
	broker int
	last   atomic.Int64 // (Unix ms - IDEpoch) << 12 | sequence
}

const idSeqBits = 12

// reserve takes n consecutive ids (in the sense of protocol.NextID) and returns the first.
func (g *ids) reserve(n int) int64 {
	now := (time.Now().UnixMilli() - protocol.IDEpoch) << idSeqBits
	for {
		last := g.last.Load()
		first := max(last+1, now)
		if g.last.CompareAndSwap(last, first+int64(n)-1) {
			return protocol.MakeID(first>>idSeqBits+protocol.IDEpoch, g.broker, int(first&(1<<idSeqBits-1)))
		}
	}
}

// idSanity is how far ahead of the clock an id found in a log may be to be believed.
const idSanity = 365 * 24 * time.Hour

// above makes all later ids greater than id, one found in a log. It reports false, and changes nothing, for an id from
// so far in the future that it can't have been made by a clock.
func (g *ids) above(id int64) bool {
	t := protocol.IDTime(id)
	if t.After(time.Now().Add(idSanity)) {
		return false
	}
	seen := (t.UnixMilli()-protocol.IDEpoch)<<idSeqBits | id&(1<<idSeqBits-1)
	if protocol.IDBroker(id) != g.broker { // the folder was another broker's: its ids of that millisecond may be greater than ours
		seen |= 1<<idSeqBits - 1
	}
	for {
		last := g.last.Load()
		if seen <= last || g.last.CompareAndSwap(last, seen) {
			return true
		}
	}
}
