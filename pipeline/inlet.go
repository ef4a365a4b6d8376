package pipeline

import (
	"sync/atomic"
	"time"
)

// inlet is the receiving side of a stage: a bounded queue for each of its tasks.
type inlet[T any] struct {
	node    *node
	queues  []chan *batch[T]
	pool    batchPool[T]
	senders atomic.Int64 // edges of running tasks that may still send
	limit   atomic.Int64 // tuples a batch to this stage should hold, see pace
}

// open makes the queues; it runs before any task starts.
func (in *inlet[T]) open(tasks int) {
	in.queues = make([]chan *batch[T], tasks)
	for i := range in.queues {
		in.queues[i] = make(chan *batch[T], queueSize)
	}
	in.limit.Store(1)
}

// leave says that one sending edge has ended; with the last one the stage sees the end of its input.
func (in *inlet[T]) leave() {
	if in.senders.Add(-1) == 0 {
		for _, q := range in.queues {
			close(q)
		}
	}
}

// paceTarget is how long a task should be busy with one batch. Fast stages get full batches. A stage that takes long for
// a tuple gets few at a time, so that its other tasks have something to do and what it emits is not held up.
const paceTarget = time.Millisecond

// pace adjusts the batch size to what n tuples took, starting small and growing as long as the stage is fast.
func (in *inlet[T]) pace(n int, took time.Duration) {
	was := in.limit.Load()
	limit := min(maxBatch, was*4)
	if took > 0 {
		limit = max(1, min(limit, int64(n)*int64(paceTarget)/int64(took)))
	}
	if limit != was {
		in.limit.Store(limit)
	}
}
