package store

import (
	"math"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/metaq-go/metaq/protocol"
)

// inBubble runs f at a time at which ids can be made, and which stands still.
func inBubble(t *testing.T, f func(t *testing.T)) {
	synctest.Test(t, func(t *testing.T) {
		time.Sleep(time.Until(time.UnixMilli(1_700_000_000_000)))
		f(t)
	})
}

func TestIDs(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		g := ids{broker: 1023}
		want := protocol.MakeID(1_700_000_000_000, 1023, 0)
		if got := g.reserve(1); got != want {
			t.Errorf("first id is %d, want %d", got, want)
		}
		if got := g.reserve(4095); got != want+1 {
			t.Errorf("id in the same millisecond is %d, want %d", got, want+1)
		}
		// The sequence is used up, and the clock stands: ids run ahead of it.
		if got, want := g.reserve(1), protocol.MakeID(1_700_000_000_001, 1023, 0); got != want {
			t.Errorf("id after a full millisecond is %d, want %d", got, want)
		}
		time.Sleep(time.Second)
		if got, want := g.reserve(1), protocol.MakeID(1_700_000_001_000, 1023, 0); got != want {
			t.Errorf("id a second later is %d, want %d", got, want)
		}
	})
}

// TestIDRuns: a run's ids are those that its receiver derives from the first one, and the next run follows, also where a
// run has more than a millisecond has ids.
func TestIDRuns(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		g := ids{broker: 7}
		after := int64(math.MinInt64)
		for i, n := range []int{1, 4095, 1, 4096, 4097, 3, 100_000, 1, 1, 8191} {
			first := g.reserve(n)
			if first <= after {
				t.Errorf("run %d: first id %d is not above %d", i, first, after)
			}
			if i > 0 && first != protocol.NextID(after) { // the clock stands
				t.Errorf("run %d: first id %d, want %d", i, first, protocol.NextID(after))
			}
			after = protocol.IDAfter(first, n-1)
			if protocol.IDBroker(after) != 7 || protocol.IDBroker(first) != 7 {
				t.Errorf("run %d: ids %d…%d are of another broker", i, first, after)
			}
		}
	})
}

// TestClockStepsBack: what was given out or found stays below what comes, wherever the clock goes.
func TestClockStepsBack(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		now := time.Now().UnixMilli()
		tests := []struct {
			name  string
			id    int64
			taken bool
		}{
			{"none", 0, true},
			{"of a Java broker", -5468572396564774912, true},
			{"smallest", math.MinInt64, true},
			{"an hour old", protocol.MakeID(now-3_600_000, 5, 77), true},
			{"an hour ahead", protocol.MakeID(now+3_600_000, 5, 77), true},
			{"last of its millisecond", protocol.MakeID(now+5, 1023, 4095), true},
			{"of a broker with a larger id", protocol.MakeID(now, 1023, 12), true},
			{"a year ahead", protocol.MakeID(now+365*24*3_600_000, 5, 77), true},
			{"beyond", protocol.MakeID(now+365*24*3_600_000+1, 5, 77), false},
			{"largest", math.MaxInt64, false},
		}
		for _, tt := range tests {
			g := ids{broker: 5}
			first := g.reserve(3)
			if got := g.above(tt.id); got != tt.taken {
				t.Errorf("%s: above(%d): got %t, want %t", tt.name, tt.id, got, tt.taken)
			}
			next := g.reserve(1)
			if next <= first+2 {
				t.Errorf("%s: id %d after %d", tt.name, next, first+2)
			}
			if tt.taken && next <= tt.id {
				t.Errorf("%s: id %d is not above %d", tt.name, next, tt.id)
			}
			if tt.taken && protocol.IDTime(next).Before(protocol.IDTime(tt.id)) {
				t.Errorf("%s: id %d is of a time before that of %d", tt.name, next, tt.id)
			}
			if !tt.taken && next != first+3 {
				t.Errorf("%s: id %d, want %d as if nothing was found", tt.name, next, first+3)
			}
		}
	})
}

func TestIDsConcurrent(t *testing.T) {
	g := ids{broker: 3}
	var (
		mu  sync.Mutex
		all []int64
		wg  sync.WaitGroup
	)
	for range 4 {
		wg.Go(func() {
			var mine []int64
			for i := range 2000 {
				n := i%5 + 1
				first := g.reserve(n)
				for k := range n {
					mine = append(mine, protocol.IDAfter(first, k))
				}
				if i%100 == 0 {
					g.above(first + 1)
				}
			}
			if !slices.IsSorted(mine) {
				t.Error("ids go backwards")
			}
			mu.Lock()
			all = append(all, mine...)
			mu.Unlock()
		})
	}
	wg.Wait()
	n := len(all)
	slices.Sort(all)
	if got := len(slices.Compact(all)); got != n {
		t.Errorf("%d different ids of %d", got, n)
	}
}
