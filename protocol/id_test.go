package protocol_test

import (
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/metaq-go/metaq/protocol"
)

// TestIDs are the examples of storage.md 10.
func TestIDs(t *testing.T) {
	for _, v := range []struct {
		milli       int64
		broker, seq int
		id          int64
	}{
		{1303895660503, 0, 0, 0},
		{1303895660503, 3, 7, 12295},
		{1400000000000, 1, 5, 403090815569629189},
		{1700000000000, 1023, 4095, 1661382015573819391},
		{86400000, 0, 0, -5468572396564774912},
		{86400000, 7, 1, -5468572396564746239},
	} {
		if got := protocol.MakeID(v.milli, v.broker, v.seq); got != v.id {
			t.Errorf("MakeID(%d, %d, %d) = %d, want %d", v.milli, v.broker, v.seq, got, v.id)
		}
		if got := protocol.IDTime(v.id).UnixMilli(); got != v.milli {
			t.Errorf("time of %d is %d, want %d", v.id, got, v.milli)
		}
		if got := protocol.IDBroker(v.id); got != v.broker {
			t.Errorf("broker of %d is %d, want %d", v.id, got, v.broker)
		}
	}
	if got, want := protocol.IDTime(0), time.Date(2011, 4, 27, 9, 14, 20, 503e6, time.UTC); !got.Equal(want) {
		t.Errorf("id 0 is of %s, want %s", got, want)
	}
}

func TestNextID(t *testing.T) {
	for _, v := range []struct{ id, next int64 }{
		{protocol.MakeID(1400000000000, 1, 5), protocol.MakeID(1400000000000, 1, 6)},
		{protocol.MakeID(1400000000000, 1, 4094), protocol.MakeID(1400000000000, 1, 4095)},
		{protocol.MakeID(1400000000000, 1, 4095), protocol.MakeID(1400000000001, 1, 0)}, // over the border of a millisecond
		{protocol.MakeID(1400000000000, 1023, 4095), protocol.MakeID(1400000000001, 1023, 0)},
		{protocol.MakeID(86400000, 7, 4095), protocol.MakeID(86400001, 7, 0)}, // negative
		{-1, protocol.MakeID(protocol.IDEpoch, 1023, 0)},                      // from before the epoch into it
		{0, 1},
	} {
		if got := protocol.NextID(v.id); got != v.next {
			t.Errorf("NextID(%d) = %d, want %d", v.id, got, v.next)
		}
	}
	// MakeID takes sequence and broker modulo their width: neither runs into its neighbour.
	if got, want := protocol.MakeID(protocol.IDEpoch, 0, 4096), int64(0); got != want {
		t.Errorf("sequence 4096 gives %d, want %d", got, want)
	}
	if got, want := protocol.MakeID(protocol.IDEpoch, 1024, 0), int64(0); got != want {
		t.Errorf("broker 1024 gives %d, want %d", got, want)
	}
}

// anyID is an id of any broker at any time that both MetaQ and metaq can give: 1000 years about the epoch.
func anyID(t *rapid.T) int64 {
	const years = 1000 * 365 * 24 * 3600 * 1000
	return protocol.MakeID(
		protocol.IDEpoch+rapid.Int64Range(-years, years).Draw(t, "milli"),
		rapid.IntRange(0, protocol.MaxBrokerID).Draw(t, "broker"),
		rapid.OneOf(rapid.IntRange(0, 4095), rapid.IntRange(4090, 4095)).Draw(t, "seq"),
	)
}

// TestIDAfter: n steps at once are n steps.
func TestIDAfter(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		first := anyID(t)
		n := rapid.OneOf(rapid.IntRange(0, 10), rapid.IntRange(0, 20000)).Draw(t, "n")
		id := first
		for range n {
			next := protocol.NextID(id)
			if next <= id {
				t.Fatalf("NextID(%d) = %d is not after it", id, next)
			}
			id = next
		}
		if got := protocol.IDAfter(first, n); got != id {
			t.Fatalf("IDAfter(%d, %d) = %d, %d steps of NextID give %d", first, n, got, n, id)
		}
		if got := protocol.IDBroker(id); got != protocol.IDBroker(first) {
			t.Fatalf("broker changed from %d to %d", protocol.IDBroker(first), got)
		}
		if got := protocol.IDAfter(id, -n); got != first {
			t.Fatalf("IDAfter(%d, %d) = %d, want %d: back to where it came from", id, -n, got, first)
		}
	})
}

// TestIDParts: what goes into an id comes out of it.
func TestIDParts(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		milli := rapid.Int64Range(0, 1<<41).Draw(t, "milli")
		broker := rapid.IntRange(0, protocol.MaxBrokerID).Draw(t, "broker")
		id := protocol.MakeID(milli, broker, rapid.IntRange(0, 4095).Draw(t, "seq"))
		if got := protocol.IDTime(id).UnixMilli(); got != milli {
			t.Fatalf("time of %d is %d, want %d", id, got, milli)
		}
		if got := protocol.IDBroker(id); got != broker {
			t.Fatalf("broker of %d is %d, want %d", id, got, broker)
		}
	})
}
