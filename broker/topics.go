package broker

import (
	"fmt"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"unicode/utf8"

	"github.com/metaq-go/metaq/broker/store"
)

// topics decides which topics the broker takes. It is read for every run of puts, so readers take no lock.
type topics struct {
	configured map[string]int
	partitions int // of a topic that is made at its first put
	store      *store.Store

	mu     sync.Mutex // serialises changes of closed
	closed atomic.Pointer[map[string]map[int]bool]
}

func newTopics(cfg Config, s *store.Store) *topics {
	t := &topics{configured: maps.Clone(cfg.Topics), partitions: cfg.Partitions, store: s}
	t.closed.Store(&map[string]map[int]bool{})
	return t
}

// Partitions returns how many partitions topic has, 0 if it is not taken. A topic that is made at its first put keeps
// as many as it has folders, should the broker have been started with more before.
func (t *topics) Partitions(topic []byte) int {
	if len(t.configured) > 0 {
		return t.configured[string(topic)]
	}
	if n := t.store.Partitions(topic); n > 0 {
		return max(n, t.partitions)
	}
	if validTopic(string(topic)) != nil {
		return 0
	}
	return t.partitions
}

// validTopic returns an error that says why, if a topic of that name is not to be made.
func validTopic(topic string) error {
	if err := store.ValidTopic(topic); err != nil {
		return err
	}
	if !utf8.ValidString(topic) { // logs, metrics and the tables of operators could not show it
		return fmt.Errorf("topic %q: must be UTF-8", topic)
	}
	return nil
}

// Names returns the topics that are configured or have partitions on disk, sorted.
func (t *topics) Names() []string {
	names := slices.Collect(maps.Keys(t.configured))
	for _, l := range t.store.Logs() {
		names = append(names, l.Topic())
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// Closed reports whether an operator closed the partition.
func (t *topics) Closed(topic []byte, partition int) bool {
	closed := *t.closed.Load()
	return len(closed) > 0 && closed[string(topic)][partition]
}

func (t *topics) close(topic string, from, to int) error {
	if from < 0 || to < from {
		return fmt.Errorf("close partitions %d…%d of %s: not a range", from, to, topic)
	}
	if n := t.Partitions([]byte(topic)); to >= n {
		return fmt.Errorf("close partitions %d…%d of %s: it has %d partitions", from, to, topic, n)
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	closed := maps.Clone(*t.closed.Load())
	set := maps.Clone(closed[topic])
	if set == nil {
		set = make(map[int]bool)
	}
	for p := from; p <= to; p++ {
		set[p] = true
	}
	closed[topic] = set
	t.closed.Store(&closed)
	return nil
}

func (t *topics) open(topic string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	closed := maps.Clone(*t.closed.Load())
	delete(closed, topic)
	t.closed.Store(&closed)
}
