package store

// Hand carries out the rounds of a store in the goroutine of a test, which so knows what each of them holds. It takes
// the place of Run.
type Hand struct{ c committer }

// ByHand returns the hand of s.
func ByHand(s *Store) *Hand { return &Hand{c: committer{store: s}} }

// Commit carries out one round of each partition that has something to commit.
func (h *Hand) Commit() { h.c.commit(h.c.store.rounds.swap(h.c.logs)) }

// Flush syncs what relaxed rounds wrote.
func (h *Hand) Flush() { h.c.flush() }

// Waiting returns how many channels wait for the partition to grow.
func (l *Log) Waiting() int { return l.grown.len() }

// Waiting returns how many channels wait for the round to be over.
func (c *Commit) Waiting() int { return c.wake.len() }

func (w *waiters) len() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.set)
}
