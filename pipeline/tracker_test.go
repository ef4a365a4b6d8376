package pipeline_test

import (
	"errors"
	"sync"
	"testing"

	"pgregory.net/rapid"

	"github.com/metaq-go/metaq/pipeline"
)

// A Tracker against a list of positions and flags.
func TestTrackerModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		type added struct {
			ack  pipeline.Ack
			next int64
			done bool
		}
		var tr pipeline.Tracker
		var all []*added
		var open []*added
		low := rapid.Int64Range(0, 1000).Draw(t, "start")
		pos := low
		tr.Start(low)
		t.Repeat(map[string]func(*rapid.T){
			"add": func(t *rapid.T) {
				for range rapid.IntRange(1, 3000).Draw(t, "n") {
					pos += 1 + pos%7
					a := &added{ack: tr.Add(pos), next: pos}
					all, open = append(all, a), append(open, a)
				}
			},
			"done": func(t *rapid.T) {
				seed := rapid.IntRange(0, 1<<20).Draw(t, "seed")
				for range min(len(open), rapid.IntRange(1, 4000).Draw(t, "n")) {
					seed = (seed*1103515245 + 12345) & (1<<30 - 1)
					i := seed % min(len(open), 1+seed%2000)
					open[i].ack.Done(nil)
					open[i].done = true
					open[i] = open[len(open)-1]
					open = open[:len(open)-1]
				}
			},
			"failed": func(t *rapid.T) {
				if len(open) > 0 && rapid.IntRange(0, 20).Draw(t, "rare") == 0 {
					open[0].ack.Done(errors.New("failed"))
					open = open[1:]
				}
			},
			"start": func(t *rapid.T) {
				if rapid.IntRange(0, 10).Draw(t, "rare") != 0 {
					return
				}
				tr.Start(pos)
				for _, a := range open { // acknowledged after the partition was taken again
					a.ack.Done(nil)
				}
				low, all, open = pos, nil, nil
			},
			"": func(t *rapid.T) {
				for len(all) > 0 && all[0].done {
					low = all[0].next
					all = all[1:]
				}
				if got := tr.Low(); got != low {
					t.Fatalf("Low is %d, want %d", got, low)
				}
				if got := tr.Pending(); got != len(all) {
					t.Fatalf("Pending is %d, want %d", got, len(all))
				}
			},
		})
	})
}

// Low may be asked while tuples are added and done; it never goes back and ends behind the last.
func TestTrackerConcurrent(t *testing.T) {
	const n = 50000
	var tr pipeline.Tracker
	acks := make(chan pipeline.Ack, 100)
	var wg sync.WaitGroup
	for range 3 {
		wg.Go(func() {
			for a := range acks {
				a.Done(nil)
			}
		})
	}
	stop := make(chan struct{})
	var watch sync.WaitGroup
	watch.Go(func() {
		last := int64(0)
		for {
			low := tr.Low()
			if low < last || low > n {
				t.Errorf("Low is %d after %d", low, last)
				return
			}
			last = low
			select {
			case <-stop:
				return
			default:
			}
		}
	})
	for i := range n {
		acks <- tr.Add(int64(i + 1))
	}
	close(acks)
	wg.Wait()
	close(stop)
	watch.Wait()
	if tr.Low() != n || tr.Pending() != 0 {
		t.Errorf("Low %d, pending %d; want %d and 0", tr.Low(), tr.Pending(), n)
	}
}

// C30: done out of order, Low stays before the lowest that isn't.
func TestTrackerStaysBeforeTheLowest(t *testing.T) {
	var tr pipeline.Tracker
	tr.Start(100)
	var acks []pipeline.Ack
	for i := range 10 {
		acks = append(acks, tr.Add(int64(110+10*i)))
	}
	for _, i := range []int{9, 0, 1, 2, 5, 4} {
		acks[i].Done(nil)
	}
	if got := tr.Low(); got != 130 {
		t.Errorf("Low is %d, want 130", got)
	}
	acks[3].Done(nil)
	if got := tr.Low(); got != 160 {
		t.Errorf("Low is %d, want 160", got)
	}
	acks[6].Done(errors.New("failed"))
	acks[7].Done(nil)
	if got := tr.Low(); got != 160 {
		t.Errorf("Low is %d, want 160: the next tuple failed", got)
	}
}

func TestTrackerAllocatesNothingPerTuple(t *testing.T) {
	var tr pipeline.Tracker
	n := int64(0)
	if got := testing.AllocsPerRun(100, func() {
		for range 5000 {
			n++
			tr.Add(n).Done(nil)
		}
		tr.Low()
	}); got > 0.1 {
		t.Errorf("%v allocations for 5000 tuples", got)
	}
}

func TestDoneFunc(t *testing.T) {
	var got error
	ack := pipeline.Ack{To: pipeline.DoneFunc(func(err error) { got = err })}
	ack.Done(errBoom)
	if !errors.Is(got, errBoom) {
		t.Errorf("done with %v, want %v", got, errBoom)
	}
	pipeline.Ack{}.Done(nil) // nobody to tell
}
