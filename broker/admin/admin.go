// Package admin is the broker's door for operators and their machines: HTTP with health, readiness and numbers.
//
// It knows nothing of the broker but what it is given: a function that says whether it is ready, and a collector of
// metrics.
package admin

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// Config says where to listen and what to show.
type Config struct {
	Addr      string               // TCP address; port 0 takes a free one
	Ready     func() error         // nil while clients are served, otherwise why not
	Collector prometheus.Collector // shown on /metrics beside those of the Go runtime and the process; may be nil
}

// Server serves
//
//	/healthz   200 while the process can answer at all
//	/readyz    200 while it serves clients, otherwise 503 with the reason
//	/metrics   in Prometheus' text format
type Server struct {
	listener net.Listener
	http     http.Server
}

// Open binds the address; requests are answered from Run on.
func Open(cfg Config) (*Server, error) {
	reg := prometheus.NewRegistry()
	for _, c := range []prometheus.Collector{
		collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}), cfg.Collector,
	} {
		if c == nil {
			continue
		}
		if err := reg.Register(c); err != nil {
			return nil, fmt.Errorf("metrics: %w", err)
		}
	}
	l, err := net.Listen("tcp", cfg.Addr)
	if err != nil {
		return nil, fmt.Errorf("listen for HTTP: %w", err)
	}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "ok") })
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, _ *http.Request) {
		if err := cfg.Ready(); err != nil {
			http.Error(w, err.Error(), http.StatusServiceUnavailable)
			return
		}
		fmt.Fprintln(w, "ready")
	})
	mux.Handle("GET /metrics", promhttp.HandlerFor(reg, promhttp.HandlerOpts{}))
	return &Server{listener: l, http: http.Server{Handler: mux, ReadHeaderTimeout: 10 * time.Second}}, nil
}

// Addr returns the address the server listens on.
func (s *Server) Addr() net.Addr { return s.listener.Addr() }

// Run answers until ctx ends, lets requests that are being answered finish for a second, and returns.
func (s *Server) Run(ctx context.Context) error {
	stopped := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		defer close(stopped)
		grace, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		if s.http.Shutdown(grace) != nil {
			_ = s.http.Close()
		}
	})
	err := s.http.Serve(s.listener)
	if !stop() {
		<-stopped
	}
	if errors.Is(err, http.ErrServerClosed) {
		return nil
	}
	return fmt.Errorf("serve HTTP: %w", err)
}

// Close gives up the address. Twice is fine.
func (s *Server) Close() error {
	err := s.listener.Close()
	if errors.Is(err, net.ErrClosed) {
		return nil
	}
	return err
}
