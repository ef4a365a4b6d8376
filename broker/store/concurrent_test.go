package store_test

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/metaq-go/metaq/broker/store"
	"github.com/metaq-go/metaq/internal/vfs"
	"github.com/metaq-go/metaq/protocol"
)

// TestConcurrent: several append to several partitions while others follow these to their ends, over many rolls. Each
// follower sees every record once, whole, in the order of ids, and each appender's records where it was told.
func TestConcurrent(t *testing.T) {
	const partitions, appenders, appends = 3, 3, 150
	for _, relaxed := range []bool{false, true} {
		t.Run(fmt.Sprintf("relaxed=%t", relaxed), func(t *testing.T) {
			mem := vfs.NewMem()
			r, stop := start(t, store.Config{FS: mem, SegmentSize: 5000, Relaxed: relaxed, MaxPending: 8000})
			var wg sync.WaitGroup
			for p := range partitions {
				l := r.log(p)
				for range 2 {
					wg.Go(func() { follow(t, l, appenders*appends) })
				}
				for a := range appenders {
					wg.Go(func() { appendMany(t, l, a, appends) })
				}
			}
			wg.Wait()
			stop()
			for _, l := range r.Logs() {
				if l.Waiting() != 0 {
					t.Errorf("%d channels still wait for partition %d", l.Waiting(), l.Partition())
				}
			}
			check(t, r.Close())
			r = open(t, store.Config{FS: mem, SegmentSize: 5000})
			for p := range partitions {
				follow(t, r.log(p), appenders*appends)
				wantWhole(t, mem, fmt.Sprintf("%s/t-%d", dir, p), 5000)
			}
		})
	}
}

// appendMany appends runs and reads each back when it is committed.
func appendMany(t *testing.T, l *store.Log, who, n int) {
	var last run
	for i := range n {
		a, err := appendTo(l, fmt.Sprintf("%d %d %s", who, i, strings.Repeat("x", i*who*7%1000)))
		if err == nil && i%5 == 0 { // most are not waited for: several of one appender share a round
			err = a.Commit.Wait(t.Context())
			if err == nil {
				err = sameRun(l, a)
			}
		}
		if err != nil {
			t.Error(err)
			return
		}
		if a.ID <= last.ID || a.Offset < last.end() {
			t.Errorf("append at %d with id %d after one at %d with id %d", a.Offset, a.ID, last.Offset, last.ID)
		}
		last = a
	}
	if err := last.Commit.Wait(t.Context()); err != nil {
		t.Error(err)
	}
}

func sameRun(l *store.Log, a run) error {
	chunk, err := l.Locate(a.Offset, len(a.data))
	if err != nil {
		return err
	}
	got, err := chunk.AppendTo(nil)
	if err == nil && !bytes.Equal(got, a.data) {
		err = fmt.Errorf("at %d is\n%swant\n%s", a.Offset, brief(got), brief(a.data))
	}
	return err
}

// follow reads n records from the start, and waits for them if need be.
func follow(t *testing.T, l *store.Log, n int) {
	var (
		offset int64
		id     int64
		buf    []byte
		seen   = make(map[string]int)
		grown  = make(chan struct{}, 1)
	)
	for count := 0; count < n; {
		chunk, err := l.Locate(offset, 3000)
		if errors.Is(err, store.ErrAtEnd) {
			if l.Notify(offset, grown) {
				<-grown
			}
			continue
		}
		if err == nil {
			buf, err = chunk.AppendTo(buf[:0])
		}
		if err != nil {
			t.Error(err)
			return
		}
		for _, r := range protocol.Records(buf) {
			who, rest, _ := strings.Cut(string(r.Body), " ")
			var i int
			if _, err := fmt.Sscan(rest, &i); err != nil || i != seen[who] || r.ID <= id || r.Verify() != nil {
				t.Errorf("at %d: record %.20q with id %d, want number %d of %s above %d", offset, r.Body, r.ID, seen[who], who, id)
				return
			}
			seen[who]++
			id = r.ID
			offset += int64(r.Size())
			count++
		}
	}
	if end := l.End(); offset != end {
		t.Errorf("%d records end at %d, the partition at %d", n, offset, end)
	}
}
