package pipeline

import "sync"

const (
	maxBatch   = 128 // tuples between two stages in one send
	spoutBatch = 256 // tuples asked of a spout in one Next
	queueSize  = 8   // batches waiting before a task
)

// batch is what goes through a queue: tuples and, at the same places, their anchors. The receiver gives it back to the
// pool of its inlet.
type batch[T any] struct {
	n       int
	values  [maxBatch]T
	anchors [maxBatch]anchor
}

type batchPool[T any] struct{ pool sync.Pool }

func (p *batchPool[T]) get() *batch[T] {
	if b, ok := p.pool.Get().(*batch[T]); ok {
		return b
	}
	return new(batch[T])
}

func (p *batchPool[T]) put(b *batch[T]) {
	clear(b.values[:b.n]) // what a tuple refers to must not live as long as the pool
	b.n = 0
	p.pool.Put(b)
}
