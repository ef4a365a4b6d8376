package pipeline

import "sync"

const (
	maxBatch   = 128 // tuples between two stages in one send
	spoutBatch = 256 // tuples asked of a spout in one Next
	queueSize  = 8   // batches waiting before a task
)

// item is a tuple on its way.
type item[T any] struct {
	v T
	a anchor
}

// batch is what goes through a queue. The receiver gives it back to the pool of its inlet.
type batch[T any] struct{ items []item[T] }

type batchPool[T any] struct{ pool sync.Pool }

func (p *batchPool[T]) get() *batch[T] {
	if b, ok := p.pool.Get().(*batch[T]); ok {
		return b
	}
	return &batch[T]{items: make([]item[T], 0, maxBatch)}
}

func (p *batchPool[T]) put(b *batch[T]) {
	if cap(b.items) > 4*maxBatch {
		return // grown by one bolt's burst; not worth keeping
	}
	clear(b.items) // what a tuple refers to must not live as long as the pool
	b.items = b.items[:0]
	p.pool.Put(b)
}
