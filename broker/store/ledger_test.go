package store_test

import (
	"bytes"
	"fmt"
	"math"

	"github.com/metaq-go/metaq/broker/store"
	"github.com/metaq-go/metaq/protocol"
)

// ledger is everything that a test ever appended to one partition.
type ledger struct {
	runs []run
	byID map[int64]placed
}

// placed is a record and where it belongs.
type placed struct {
	offset int64
	data   []byte
}

func (b *ledger) add(a run) {
	if b.byID == nil {
		b.byID = make(map[int64]placed)
	}
	b.runs = append(b.runs, a)
	for pos, r := range protocol.Records(a.data) {
		b.byID[r.ID] = placed{a.Offset + int64(pos), a.data[pos : pos+r.Size()]}
	}
}

// acked returns the runs that are committed.
func (b *ledger) acked() []run {
	var all []run
	for _, a := range b.runs {
		if done, err := a.Commit.Done(); done && err == nil {
			all = append(all, a)
		}
	}
	return all
}

// verify checks what a partition serves: the runs of must, each byte at its place, and between and behind them only whole
// records that were appended, at the offsets that were told. It returns the bytes.
func (b *ledger) verify(l *store.Log, must []run) ([]byte, error) {
	data, err := readAll(l, l.Start(), math.MaxInt)
	if err != nil {
		return data, err
	}
	if l.Start() != 0 || l.End() != int64(len(data)) {
		return data, fmt.Errorf("partition goes from %d to %d, %d bytes can be read", l.Start(), l.End(), len(data))
	}
	at := int64(0)
	for _, a := range must {
		if a.end() > int64(len(data)) {
			return data, fmt.Errorf("committed run %d…%d is missing, the partition ends at %d", a.Offset, a.end(), len(data))
		}
		if got := data[a.Offset:a.end()]; !bytes.Equal(got, a.data) {
			return data, fmt.Errorf("committed run at %d is\n%swant\n%s", a.Offset, brief(got), brief(a.data))
		}
		if err := b.whole(data, at, a.Offset); err != nil {
			return data, err
		}
		at = a.end()
	}
	return data, b.whole(data, at, int64(len(data)))
}

// whole checks that data[at:end] is whole records of the ledger, each where it belongs.
func (b *ledger) whole(data []byte, at, end int64) error {
	for at < end {
		r, err := protocol.DecodeRecord(data[at:end])
		if err == nil {
			err = r.Verify()
		}
		if err != nil {
			return fmt.Errorf("torn bytes are served: at %d of %d: %w", at, end, err)
		}
		p, ok := b.byID[r.ID]
		if !ok {
			return fmt.Errorf("record with id %d at %d was never appended", r.ID, at)
		}
		if p.offset != at || !bytes.Equal(p.data, data[at:at+int64(r.Size())]) {
			return fmt.Errorf("record with id %d at %d is not as it was appended at %d", r.ID, at, p.offset)
		}
		at += int64(r.Size())
	}
	return nil
}

// lastID returns the largest id in records.
func lastID(data []byte) int64 {
	last := int64(math.MinInt64)
	for _, r := range protocol.Records(data) {
		last = max(last, r.ID)
	}
	return last
}
