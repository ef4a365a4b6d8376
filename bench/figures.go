package main

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"github.com/metaq-go/metaq/client"
)

// config is what all figures share.
type config struct {
	binary, dir string
	time        time.Duration
}

// figure is one thing that is measured.
type figure struct {
	name        string
	size        int
	durableOnly bool
	prepare     func(ctx context.Context, r *run) error // outside the measurement
	run         func(ctx context.Context, r *run) error
}

var figures = []figure{
	{name: "put, text, pipelined, 100 B", size: 100, run: putPlain},
	{name: "put, batched, 100 B", size: 100, run: putBatched},
	{name: "put, batched, 1 kB", size: 1000, run: putBatched},
	{name: "consume, 100 B", size: 100, prepare: fill, run: consume},
	{name: "consume, 1 kB", size: 1000, prepare: fill, run: consume},
	{name: "put, one at a time, 100 B", size: 100, run: putOne},
}

// run is a measurement in progress.
type run struct {
	figure
	time     time.Duration
	client   *client.Client
	messages atomic.Int64
	latency  *hdrhistogram.Histogram // in microseconds
}

const topic = "bench"

func putPlain(ctx context.Context, r *run) error {
	return r.put(ctx, client.ProducerConfig{Plain: true})
}

func putBatched(ctx context.Context, r *run) error { return r.put(ctx, client.ProducerConfig{}) }

// put sends as fast as it can for the time of the measurement, and counts what was acknowledged by its end.
func (r *run) put(ctx context.Context, cfg client.ProducerConfig) error {
	p := r.client.Producer(cfg)
	defer p.Close()
	var failed atomic.Pointer[error]
	done := func(_ client.Result, err error) {
		if err != nil {
			failed.CompareAndSwap(nil, &err)
			return
		}
		r.messages.Add(1)
	}
	m := client.Message{Topic: topic, Payload: make([]byte, r.size)}
	for until := time.Now().Add(r.time); time.Now().Before(until) && failed.Load() == nil; {
		for range 256 {
			if err := p.SendAsync(ctx, &m, done); err != nil {
				return err
			}
		}
	}
	if err := p.Flush(ctx); err != nil {
		return err
	}
	if err := failed.Load(); err != nil {
		return *err
	}
	return nil
}

// fill puts enough into the topic that consuming takes a while.
func fill(ctx context.Context, r *run) error {
	p := r.client.Producer(client.ProducerConfig{})
	defer p.Close()
	m := client.Message{Topic: topic, Payload: make([]byte, r.size)}
	for range 1_500_000_000 / (r.size + 20) {
		if err := p.SendAsync(ctx, &m, nil); err != nil {
			return err
		}
	}
	return p.Flush(ctx)
}

// consume reads the whole backlog through a consumer group, looking at every message.
func consume(ctx context.Context, r *run) error {
	co, err := r.client.Consumer(client.ConsumerConfig{Group: "bench", Topics: []string{topic}})
	if err != nil {
		return err
	}
	defer co.Close()
	want := int64(1_500_000_000 / (r.size + 20))
	for r.messages.Load() < want {
		b, err := co.Poll(ctx)
		if err != nil {
			return err
		}
		n := 0
		for m := range b.Messages() {
			if len(m.Payload) != r.size {
				return fmt.Errorf("message of %d bytes at %d", len(m.Payload), m.Offset)
			}
			n++
		}
		r.messages.Add(int64(n))
		b.Commit()
		b.Release()
	}
	return nil
}

// putOne sends one message after the other and waits for each.
func putOne(ctx context.Context, r *run) error {
	p := r.client.Producer(client.ProducerConfig{})
	defer p.Close()
	r.latency = hdrhistogram.New(1, 60_000_000, 3)
	m := client.Message{Topic: topic, Payload: make([]byte, r.size)}
	for until := time.Now().Add(r.time); time.Now().Before(until); {
		began := time.Now()
		if _, err := p.Send(ctx, &m); err != nil {
			return err
		}
		if err := r.latency.RecordValue(time.Since(began).Microseconds()); err != nil {
			return err
		}
		r.messages.Add(1)
	}
	return nil
}
