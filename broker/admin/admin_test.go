package admin_test

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/goleak"

	"github.com/metaq-go/metaq/broker/admin"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func open(t *testing.T, cfg admin.Config) *admin.Server {
	t.Helper()
	cfg.Addr = "127.0.0.1:0"
	s, err := admin.Open(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

// request sends a request and returns the status and the body.
func request(t *testing.T, s *admin.Server, method, path string) (int, string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, "http://"+s.Addr().String()+path, http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	resp, err := client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, string(body)
}

func TestServer(t *testing.T) {
	var ready error
	gauge := prometheus.NewGauge(prometheus.GaugeOpts{Name: "answer", Help: "h"})
	gauge.Set(42)
	s := open(t, admin.Config{Ready: func() error { return ready }, Collector: gauge})
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- s.Run(ctx) }()

	tests := []struct {
		method, path string
		ready        error
		code         int
		body         string
	}{
		{"GET", "/healthz", nil, 200, "ok\n"},
		{"GET", "/healthz", errors.New("not yet"), 200, "ok\n"},
		{"GET", "/readyz", nil, 200, "ready\n"},
		{"GET", "/readyz", errors.New("partition t-0 is full"), 503, "partition t-0 is full\n"},
		{"GET", "/metrics", nil, 200, "answer 42\n"},
		{"HEAD", "/healthz", nil, 200, ""},
		{"POST", "/healthz", nil, 405, ""},
		{"GET", "/nothing", nil, 404, ""},
	}
	for _, tt := range tests {
		ready = tt.ready
		if code, body := request(t, s, tt.method, tt.path); code != tt.code || !strings.Contains(body, tt.body) {
			t.Errorf("%s %s: got %d %q, want %d %q", tt.method, tt.path, code, body, tt.code, tt.body)
		}
	}
	stop()
	if err := <-ended; err != nil {
		t.Errorf("run: %v", err)
	}
	if _, err := net.DialTimeout("tcp", s.Addr().String(), time.Second); err == nil {
		t.Error("the address is still taken after Run")
	}
	if err := errors.Join(s.Close(), s.Close()); err != nil {
		t.Errorf("close, twice: %v", err)
	}
}

// TestStuckRequest: a request that does not end does not keep Run from ending.
func TestStuckRequest(t *testing.T) {
	stuck, free := make(chan struct{}), make(chan struct{})
	s := open(t, admin.Config{Ready: func() error {
		close(stuck)
		<-free
		return nil
	}})
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- s.Run(ctx) }()
	conn, err := net.Dial("tcp", s.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if _, err := io.WriteString(conn, "GET /readyz HTTP/1.1\r\nHost: x\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	<-stuck
	stop()
	if err := <-ended; err != nil {
		t.Errorf("run: %v", err)
	}
	close(free)
	if b, _ := io.ReadAll(conn); len(b) > 0 {
		t.Errorf("answered after the end: %q", b)
	}
}

func TestOpenFails(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if _, err := admin.Open(admin.Config{Addr: l.Addr().String()}); err == nil {
		t.Error("opened on an address that is taken")
	}
	twice := prometheus.NewGauge(prometheus.GaugeOpts{Name: "go_goroutines", Help: "another"})
	if _, err := admin.Open(admin.Config{Addr: "127.0.0.1:0", Collector: twice}); err == nil {
		t.Error("opened with a metric that is there already")
	}
}
