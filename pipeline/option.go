package pipeline

import "time"

// Option sets something of one stage: Parallel for every stage, Batch and BatchBytes for sinks.
type Option func(*settings)

// settings is what the options of one stage amount to; zero fields mean "not given".
type settings struct {
	parallel    int
	parallelSet bool
	batch       batching
	batchSet    bool
}

// batching is when a sink's batch is written.
type batching struct {
	count int           // at most so many tuples; 0: defaultBatch
	bytes int           // when the tuples in it reach so many bytes; 0: not looked at
	every time.Duration // so long after the first tuple at the latest; 0: see wait
	wait  bool          // hold a batch back until it is full or old; false: write what is ready
}

// Parallel runs the stage as n tasks, each a goroutine with its own bolt, spout or sink. The default is 1. In Broadcast
// mode every stage has Config.Instances tasks and Parallel is refused.
func Parallel(n int) Option {
	return func(s *settings) { s.parallel, s.parallelSet = n, true }
}

// Batch writes a sink's batch when it holds count tuples, or when its first tuple has waited for every, whichever is first.
// every = 0 waits for count alone. Also written, full or not: the last batch at stop, and a batch that holds
// up its sources because all they may have in flight waits in it (Config.MaxPending).
//
// Without Batch a sink gets what is ready, at most 1000 tuples, and never waits for more.
func Batch(count int, every time.Duration) Option {
	return func(s *settings) {
		s.batch.count, s.batch.every, s.batch.wait, s.batchSet = count, every, true, true
	}
}

// BatchBytes writes a sink's batch as soon as its tuples take n bytes, besides what Batch says. For how a tuple is
// measured see Sink; a type that can't be measured is refused by Build.
func BatchBytes(n int) Option {
	return func(s *settings) { s.batch.bytes, s.batchSet = n, true }
}
