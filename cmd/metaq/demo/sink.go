package demo

import (
	"context"
	"sync"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"github.com/metaq-go/metaq/pipeline"
)

// watched is a sink that tells a witness what its inner sink has stored.
type watched struct {
	pipeline.Sink[record]
	witness *witness
	latency *latencies // may be nil
}

// Write implements pipeline.Sink.
func (w *watched) Write(ctx context.Context, batch []record) error {
	if err := w.Sink.Write(ctx, batch); err != nil {
		return err
	}
	w.witness.add(batch)
	if w.latency != nil {
		w.latency.add(batch)
	}
	return nil
}

// latencies are times from a line's own time to its row. Safe for concurrent use.
type latencies struct {
	mu   sync.Mutex
	hist *hdrhistogram.Histogram // microseconds
}

func newLatencies() *latencies {
	return &latencies{hist: hdrhistogram.New(1, time.Hour.Microseconds(), 3)}
}

func (l *latencies) add(batch []record) {
	now := time.Now()
	l.mu.Lock()
	defer l.mu.Unlock()
	for i := range batch {
		us := min(max(now.Sub(batch[i].Time).Microseconds(), 1), time.Hour.Microseconds())
		_ = l.hist.RecordValue(us) // within the bounds, so there is no error
	}
}

func (l *latencies) quantile(q float64) time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	return time.Duration(l.hist.ValueAtQuantile(q)) * time.Microsecond
}

// member is the sink of one broadcast member: it sees everything, and alerts on answers that are the server's fault.
type member struct {
	witness *witness
	alerts  *alerts
}

// Write implements pipeline.Sink.
func (m *member) Write(_ context.Context, batch []record) error {
	m.witness.add(batch)
	for i := range batch {
		if batch[i].Status >= 500 {
			m.alerts.raise(&batch[i])
		}
	}
	return nil
}

// Close implements pipeline.Sink.
func (m *member) Close(context.Context) error { return nil }

// alerts counts what members raised.
type alerts struct {
	mu   sync.Mutex
	n    int64
	last string
}

func (a *alerts) raise(r *record) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.n++
	a.last = r.Method + " " + r.Route
}

func (a *alerts) count() int64 {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.n
}
