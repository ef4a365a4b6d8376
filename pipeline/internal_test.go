package pipeline

import (
	"errors"
	"fmt"
	"testing"
	"time"
)

// The task of a key must stay the same for ever: saved state is found by it.
func TestHashIsStable(t *testing.T) {
	for s, want := range map[string]uint32{
		"": 0xb98b14, "a": 0x17cb6a, "access/0-3": 0x983f7, "a key that is longer than eight bytes": 0x439162,
	} {
		if got := hashString(s); got != want {
			t.Errorf("hash of %q is %#x, want %#x", s, got, want)
		}
	}
	if got, want := hashNumber(42), uint32(0x85097f); got != want {
		t.Errorf("hash of 42 is %#x, want %#x", got, want)
	}
}

func TestHashSpreadsEvenly(t *testing.T) {
	for _, tasks := range []int{2, 3, 4, 7, 16} {
		for name, hash := range map[string]func(i int) uint32{
			"words":   func(i int) uint32 { return hashString(fmt.Sprint("word", i)) },
			"long":    func(i int) uint32 { return hashString(fmt.Sprint("a/rather/long/route/", i, "/with/an/end")) },
			"numbers": func(i int) uint32 { return hashNumber(uint64(i)) },
			"shifted": func(i int) uint32 { return hashNumber(uint64(i) << 32) },
		} {
			got := make([]int, tasks)
			const n = 20000
			for i := range n {
				got[spread(hash(i), tasks)]++
			}
			for task, g := range got {
				if g < n/tasks*9/10 || g > n/tasks*11/10 {
					t.Errorf("%s: task %d of %d gets %d of %d keys", name, task, tasks, g, n)
				}
			}
		}
	}
}

// Two tasks that give back the last tokens at the same moment: one of them ends the tuple, and the slot is ready for the next.
func TestSlotGivenBackAtOnce(t *testing.T) {
	tests := []struct {
		name    string
		tokens  int32
		seen, n []int32 // one call after the other
		last    []bool
		left    int32
	}{
		{"one", 1, []int32{1}, []int32{1}, []bool{true}, 1},
		{"all at once", 5, []int32{5}, []int32{5}, []bool{true}, 1},
		{"one after the other", 2, []int32{2, 1}, []int32{1, 1}, []bool{false, true}, 1},
		{"at the same moment", 2, []int32{2, 2}, []int32{1, 1}, []bool{false, true}, 1},
		{"several at the same moment", 5, []int32{5, 5}, []int32{3, 2}, []bool{false, true}, 1},
		{"some", 5, []int32{5}, []int32{3}, []bool{false}, 2},
	}
	for _, tt := range tests {
		var s state
		s.tokens.Store(tt.tokens)
		for i, seen := range tt.seen {
			if got := s.give(seen, tt.n[i]); got != tt.last[i] {
				t.Errorf("%s: call %d returned %v, want %v", tt.name, i, got, tt.last[i])
			}
		}
		if got := s.tokens.Load(); got != tt.left {
			t.Errorf("%s: %d tokens at the end, want %d", tt.name, got, tt.left)
		}
	}
}

func TestAnchor(t *testing.T) {
	a := newAnchor(0xffff, 1<<slotBits-1).withKey(1<<keyBits - 1)
	if a.ring() != 0xffff || a.slot() != 1<<slotBits-1 || a.key() != 1<<keyBits-1 {
		t.Errorf("all bits set: %#x %#x %#x", a.ring(), a.slot(), a.key())
	}
	a = a.withKey(5)
	if b := newAnchor(0xffff, 1<<slotBits-1); a.key() != 5 || a.ring() != b.ring() || a.slot() != b.slot() {
		t.Errorf("another key: %#x %#x %#x", a.ring(), a.slot(), a.key())
	}
	if a := newAnchor(3, 7); a.ring() != 3 || a.slot() != 7 || a.key() != 0 {
		t.Errorf("ring 3, slot 7: %#x %#x %#x", a.ring(), a.slot(), a.key())
	}
}

func TestPace(t *testing.T) {
	tests := []struct {
		name string
		was  int64
		n    int
		took time.Duration
		want int64
	}{
		{"grows from one", 1, 1, time.Microsecond, 4},
		{"grows to full", 64, 64, 10 * time.Microsecond, maxBatch},
		{"nothing measured", 4, 4, 0, 16},
		{"slow", 128, 128, 128 * time.Millisecond, 1},
		{"as long as it may", 128, 100, 2 * time.Millisecond, 50},
		{"very slow", 1, 1, time.Hour, 1},
	}
	for _, tt := range tests {
		var in inlet[int]
		in.limit.Store(tt.was)
		in.pace(tt.n, tt.took)
		if got := in.limit.Load(); got != tt.want {
			t.Errorf("%s: limit %d, want %d", tt.name, got, tt.want)
		}
	}
}

func TestPrintable(t *testing.T) {
	tests := []struct {
		v    any
		want string
	}{
		{"text", "text"},
		{[]byte{0xff, 0, 'a'}, "\xff\x00a"},
		{time.Unix(0, 0).UTC(), "1970-01-01T00:00:00Z"},
		{struct{ A int }{3}, `{"A":3}`},
		{errors.New("cause"), "cause"},
		{func() int { return 1 }, ""}, // no JSON: an address
		{complex(1, 2), "(1+2i)"},
	}
	for _, tt := range tests {
		got := string(printable(tt.v))
		if got != tt.want && (tt.want != "" || got == "") {
			t.Errorf("printable(%T) is %q, want %q", tt.v, got, tt.want)
		}
	}
}
