package test

import (
	"bytes"
	"regexp"
	"sync"
)

// matcher is the output of a process: it tells when that first matches.
type matcher struct {
	want    *regexp.Regexp
	matched chan struct{}

	mu   sync.Mutex
	text bytes.Buffer
	done bool
}

func newMatcher(want string) *matcher {
	return &matcher{want: regexp.MustCompile(want), matched: make(chan struct{})}
}

func (m *matcher) Write(p []byte) (int, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.text.Write(p)
	if !m.done && m.want.Match(m.text.Bytes()) {
		m.done = true
		close(m.matched)
	}
	return len(p), nil
}

func (m *matcher) String() string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.text.String()
}
