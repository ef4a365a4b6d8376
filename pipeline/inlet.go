package pipeline

import (
	"sync/atomic"
	"time"
)

// inlet is the receiving side of a stage: a bounded queue for each of its tasks, and one they share for tuples that any
// of them may have. So one slow tuple holds up what is bound to its task, and nothing else.
type inlet[T any] struct {
	node    *node
	queues  []chan *batch[T] // by task; nil: no edge is bound to a task
	shared  chan *batch[T]   // nil: every edge is
	pool    batchPool[T]
	senders atomic.Int64 // edges of running tasks that may still send
	limit   atomic.Int64 // tuples a batch to this stage should hold, see pace

	bound, free bool // there are declared edges of either kind
}

// open makes the queues; it runs before any task starts.
func (in *inlet[T]) open(tasks int) {
	in.queues = make([]chan *batch[T], tasks)
	if tasks == 1 {
		in.bound, in.free = true, false
	}
	if in.bound {
		for i := range in.queues {
			in.queues[i] = make(chan *batch[T], queueSize)
		}
	}
	if in.free {
		in.shared = make(chan *batch[T], queueSize*tasks)
	}
	in.limit.Store(1)
}

// of returns where task i receives: usually from one queue, and second is nil.
func (in *inlet[T]) of(i int) (first, second <-chan *batch[T]) {
	if !in.bound {
		return in.shared, nil
	}
	return in.queues[i], in.shared
}

// leave says that one sending edge has ended; with the last one the stage sees the end of its input.
func (in *inlet[T]) leave() {
	if in.senders.Add(-1) > 0 {
		return
	}
	for _, q := range in.queues {
		if q != nil {
			close(q)
		}
	}
	if in.shared != nil {
		close(in.shared)
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
