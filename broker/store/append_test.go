package store_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/metaq-go/metaq/broker/store"
	"github.com/metaq-go/metaq/protocol"
)

func TestAppend(t *testing.T) {
	r := open(t, store.Config{BrokerID: 5})
	l := r.log(3)
	if l.Topic() != "t" || l.Partition() != 3 || l.Start() != 0 || l.End() != 0 || l.Messages() != 0 || l.Err() != nil {
		t.Errorf("new partition is %s-%d, %d…%d, %d messages, error %v", l.Topic(), l.Partition(), l.Start(), l.End(), l.Messages(), l.Err())
	}
	data := protocol.AppendMessage(nil, 42, []byte("attr"), []byte("one"))
	data = protocol.AppendMessage(data, 43, nil, nil)
	given := strings.Clone(string(data))
	a, err := l.Append(data, 2)
	check(t, err)
	if string(data) != given {
		t.Error("Append changed what it was given")
	}
	clear(data) // it is the caller's again
	stored := []byte(given)
	protocol.StampIDs(stored, a.ID)
	first := run{Appended: a, data: stored, n: 2}

	// Until the round is over nothing is there.
	if done, err := a.Commit.Done(); done || err != nil || l.End() != 0 || l.Messages() != 0 {
		t.Errorf("before the round: done %t, %v, end %d", done, err, l.End())
	}
	if _, err := l.Locate(0, 100); !errors.Is(err, store.ErrAtEnd) {
		t.Errorf("before the round: Locate: got error %v, want %v", err, store.ErrAtEnd)
	}
	second := r.append(l, "two", "three")
	if second.Commit != a.Commit {
		t.Error("two appends of one round have different commits")
	}
	if second.Offset != first.end() || second.ID != protocol.IDAfter(a.ID, 2) || protocol.IDBroker(a.ID) != 5 {
		t.Errorf("second append got id %d at %d after %d at %d", second.ID, second.Offset, a.ID, a.Offset)
	}
	r.Commit()
	check(t, second.err(t))
	wantLog(t, l, first, second)
	if l.Messages() != 4 {
		t.Errorf("%d messages, want 4", l.Messages())
	}
	third := r.put(l, strings.Repeat("big", 1_000_000))
	if third.Commit == a.Commit {
		t.Error("appends of two rounds share a commit")
	}
	wantLog(t, l, first, second, third)
	r.Commit() // nothing to do
	wantLog(t, l, first, second, third)
}

// TestRoundsOfSeveralPartitions: each has its own fate and order, all are done at once.
func TestRoundsOfSeveralPartitions(t *testing.T) {
	r := open(t, store.Config{})
	var all [9][]run
	for i := range 30 {
		for p := range all {
			all[p] = append(all[p], r.append(r.log(p), fmt.Sprint(p, " ", i)))
		}
		if i%3 == 0 {
			r.Commit()
		}
	}
	r.Commit()
	for p, runs := range all {
		wantLog(t, r.log(p), runs...)
	}
}

func TestCommitWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := open(t, store.Config{})
		l := r.log(0)
		a := r.append(l, "one")
		results := make(chan error)
		for range 3 {
			go func() { results <- a.Commit.Wait(t.Context()) }()
		}
		cause := errors.New("the caller has enough")
		ctx, cancel := context.WithCancelCause(t.Context())
		gone := make(chan error)
		go func() { gone <- a.Commit.Wait(ctx) }()
		synctest.Wait()
		if n := a.Commit.Waiting(); n != 4 {
			t.Errorf("%d wait, want 4", n)
		}
		cancel(cause)
		if err := <-gone; !errors.Is(err, cause) {
			t.Errorf("wait given up: got error %v, want %v", err, cause)
		}
		r.Commit()
		for range 3 {
			check(t, <-results)
		}
		if err := a.Commit.Wait(ctx); err != nil { // what is over is over, whatever the context says
			t.Errorf("wait for a round that is over: got error %v", err)
		}
	})
}

func TestCommitNotify(t *testing.T) {
	r := open(t, store.Config{})
	a := r.append(r.log(0), "one")
	ch := make(chan struct{}, 1)
	full := make(chan struct{}, 1)
	full <- struct{}{}
	for range 100 {
		if !a.Commit.Notify(ch) || !a.Commit.Notify(full) {
			t.Fatal("Notify says that the round is over")
		}
	}
	if n := a.Commit.Waiting(); n != 2 {
		t.Errorf("%d channels wait, want 2: one that is added again counts once", n)
	}
	r.Commit() // does not block on the full one
	if len(ch) != 1 || len(full) != 1 {
		t.Errorf("%d and %d tokens, want 1 and 1", len(ch), len(full))
	}
	if a.Commit.Notify(ch) || a.Commit.Waiting() != 0 {
		t.Error("Notify arranged something after the round")
	}
}

func TestLogNotify(t *testing.T) {
	r := open(t, store.Config{})
	l := r.log(0)
	size := int64(protocol.HeaderSize + 3)
	for offset, passed := range map[int64]bool{-1: true, 0: false, size - 1: false, size: false, math.MaxInt64: false} {
		ch := make(chan struct{}, 1)
		if l.Notify(offset, ch) == passed {
			t.Errorf("Notify(%d) on an empty partition: got %t, want %t", offset, passed, !passed)
		}
	}
	if n := l.Waiting(); n != 4 {
		t.Errorf("%d wait, want 4", n)
	}
	ch, forgotten := make(chan struct{}, 1), make(chan struct{}, 1)
	l.Notify(0, ch)
	l.Notify(0, forgotten)
	l.Forget(forgotten)
	l.Forget(make(chan struct{})) // was never there
	r.put(l, "one")
	if len(ch) != 1 || len(forgotten) != 0 || l.Waiting() != 0 {
		t.Errorf("tokens %d and %d, %d wait, want 1, 0, 0", len(ch), len(forgotten), l.Waiting())
	}
	if l.Notify(size-1, ch) {
		t.Error("Notify waits for an offset that is there")
	}
	if !l.Notify(size, ch) {
		t.Error("Notify does not wait for the offset at the end")
	}
}

// TestBackPressure: appends wait while the round being collected is full, one bigger than that goes alone, and when
// the store stops they give up.
func TestBackPressure(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := open(t, store.Config{MaxPending: 1000})
		l := r.log(0)
		big := r.append(l, strings.Repeat("B", 5000)) // the round is empty: taken, or it never would be
		type result struct {
			run
			err error
		}
		results := make(chan result, 3)
		put := func(size int) {
			a, err := appendTo(l, strings.Repeat("s", size-protocol.HeaderSize))
			results <- result{a, err}
		}
		go put(600)
		synctest.Wait()
		if len(results) != 0 {
			t.Fatal("an append joined a round that is full")
		}
		r.Commit()
		synctest.Wait()
		first := <-results
		check(t, first.err)
		exact := r.append(l, strings.Repeat("e", 400-protocol.HeaderSize)) // fills it to the byte
		go put(20)
		synctest.Wait()
		if len(results) != 0 {
			t.Fatal("an append went over the limit")
		}
		r.Commit()
		synctest.Wait()
		last := <-results
		check(t, last.err)
		r.Commit()
		wantLog(t, l, big, first.run, exact, last.run)

		r.append(l, strings.Repeat("F", 1000))
		go put(20)
		synctest.Wait()
		check(t, r.Close())
		if got := <-results; !errors.Is(got.err, store.ErrClosed) {
			t.Errorf("append that waited while the store was closed: got error %v, want %v", got.err, store.ErrClosed)
		}
	})
}

// TestRelaxed: a round is done when it is written; syncs follow.
func TestRelaxed(t *testing.T) {
	mem := newCounting()
	r := open(t, store.Config{FS: mem, Relaxed: true})
	l := r.log(0)
	before := mem.syncs()
	a, b := r.put(l, "one"), r.put(l, "two")
	wantLog(t, l, a, b)
	if n := mem.syncs() - before; n != 0 {
		t.Errorf("%d syncs before the rounds were done, want 0", n)
	}
	r.Flush()
	if n := mem.syncs() - before; n != 1 {
		t.Errorf("%d syncs in a flush of one partition, want 1", n)
	}
	r.Flush() // nothing new
	if n := mem.syncs() - before; n != 1 {
		t.Errorf("%d syncs after a flush of nothing, want 1", n)
	}
}
