package pipelinetest

import (
	"context"
	"errors"
	"slices"
	"sync"

	"github.com/metaq-go/metaq/pipeline"
)

// Sink keeps what is written to it. The zero Sink is ready; it may be looked at from any goroutine.
type Sink[T any] struct {
	// OnWrite, if set, is called before write number n (from 1) is stored: it may wait, change nothing in batch, and
	// return an error, which Write then returns without storing anything.
	OnWrite func(ctx context.Context, n int, batch []T) error
	// OnClose, if set, is called by Close, which returns its error.
	OnClose func(ctx context.Context) error

	mu      sync.Mutex
	writes  int
	batches [][]T
	closed  int
}

var _ pipeline.Sink[int] = (*Sink[int])(nil)

// Write stores a copy of batch.
func (s *Sink[T]) Write(ctx context.Context, batch []T) error {
	s.mu.Lock()
	s.writes++
	n, closed := s.writes, s.closed > 0
	s.mu.Unlock()
	if closed {
		return pipeline.Permanent(errors.New("write after close"))
	}
	if s.OnWrite != nil {
		if err := s.OnWrite(ctx, n, batch); err != nil {
			return err
		}
	}
	if len(batch) == 0 {
		return nil
	}
	s.mu.Lock()
	s.batches = append(s.batches, slices.Clone(batch))
	s.mu.Unlock()
	return nil
}

// Close counts.
func (s *Sink[T]) Close(ctx context.Context) error {
	s.mu.Lock()
	s.closed++
	s.mu.Unlock()
	if s.OnClose != nil {
		return s.OnClose(ctx)
	}
	return nil
}

// Values returns all tuples stored so far, in order.
func (s *Sink[T]) Values() []T { return slices.Concat(s.Batches()...) }

// Batches returns the batches stored so far, in order.
func (s *Sink[T]) Batches() [][]T {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.batches)
}

// Writes returns how often Write was called, with or without success.
func (s *Sink[T]) Writes() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.writes
}

// Closes returns how often Close was called, which should be once after a run.
func (s *Sink[T]) Closes() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.closed
}
