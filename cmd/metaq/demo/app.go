package demo

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// app is the application whose log is shipped: a small shop over HTTP, some clients that call it, and an access log in
// JSON that is rotated by rename.
type app struct {
	listener net.Listener
	server   *http.Server
	log      *rotator
	logger   *slog.Logger
	n        atomic.Int64 // number of the last line
}

const (
	appClients  = 8
	clientPause = 4 * time.Millisecond // between a client's requests, on average
	rotateEvery = 3 * time.Second
)

// openApp binds the application and opens its log, dir/access.log.
func openApp(dir string) (*app, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("demo application: %w", err)
	}
	log, err := openRotator(filepath.Join(dir, "access.log"))
	if err != nil {
		return nil, errors.Join(fmt.Errorf("demo application: %w", err), l.Close())
	}
	a := &app{listener: l, log: log, logger: slog.New(slog.NewJSONHandler(log, nil))}
	mux := http.NewServeMux()
	for _, route := range routes {
		mux.HandleFunc(route.method+" "+route.path, a.handle(route))
	}
	a.server = &http.Server{Handler: mux, ReadHeaderTimeout: time.Second}
	return a, nil
}

// route is one of the shop's pages with how often it fails.
type route struct {
	method, path  string
	failures      int // in a thousand: answers 5xx
	missing       int // in a thousand: answers 404
	weight        int // how often clients ask for it
	smallestReply int
}

var routes = []route{
	{"GET", "/", 1, 0, 30, 4000},
	{"GET", "/item/{id}", 2, 40, 40, 2000},
	{"GET", "/search", 5, 0, 15, 8000},
	{"POST", "/cart", 3, 0, 10, 100},
	{"POST", "/checkout", 20, 0, 5, 300},
}

// handle answers a request and writes its line.
func (a *app) handle(r route) http.HandlerFunc {
	return func(w http.ResponseWriter, req *http.Request) {
		began := time.Now()
		status := http.StatusOK
		switch dice := rand.IntN(1000); {
		case dice < r.failures:
			status = []int{500, 502, 503}[rand.IntN(3)]
		case dice < r.failures+r.missing:
			status = http.StatusNotFound
		}
		body, err := io.ReadAll(req.Body)
		if err != nil {
			status = http.StatusBadRequest
		}
		size := r.smallestReply + rand.IntN(1000)
		w.WriteHeader(status)
		fmt.Fprintf(w, "%d bytes would be here\n", size)
		a.logger.LogAttrs(req.Context(), slog.LevelInfo, "request", slog.Int64("n", a.n.Add(1)),
			slog.String("method", r.method), slog.String("route", r.path), slog.Int("status", status),
			slog.Int("bytes", size), slog.Int64("took_us", time.Since(began).Microseconds()),
			slog.String("agent", req.UserAgent()), slog.String("body", string(body)))
	}
}

// run serves, calls and rotates until ctx ends, and returns when the last line is written.
func (a *app) run(ctx context.Context) error {
	var group sync.WaitGroup
	served := make(chan error, 1)
	go func() { served <- a.server.Serve(a.listener) }()
	for i := range appClients {
		group.Go(func() { a.call(ctx, i) })
	}
	group.Go(func() { a.log.rotateEvery(ctx, rotateEvery) })
	<-ctx.Done()
	group.Wait()
	grace, cancel := context.WithTimeout(context.Background(), 2*time.Second)
	defer cancel()
	err := a.server.Shutdown(grace) // handlers end, and with them their lines
	if e := <-served; !errors.Is(e, http.ErrServerClosed) {
		err = errors.Join(err, e)
	}
	return errors.Join(err, a.log.close())
}

// call is one client: it asks for pages until ctx ends.
func (a *app) call(ctx context.Context, number int) {
	base := "http://" + a.listener.Addr().String()
	c := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 1}, Timeout: 5 * time.Second}
	defer c.CloseIdleConnections()
	for ctx.Err() == nil {
		r := pickRoute()
		path := strings.Replace(r.path, "{id}", strconv.Itoa(rand.IntN(5000)), 1)
		req, err := http.NewRequestWithContext(context.WithoutCancel(ctx), r.method, base+path, strings.NewReader(requestBody(r)))
		if err != nil {
			return
		}
		req.Header.Set("User-Agent", agents[number%len(agents)])
		if resp, err := c.Do(req); err == nil {
			_, _ = io.Copy(io.Discard, resp.Body)
			resp.Body.Close()
		}
		select {
		case <-ctx.Done():
		case <-time.After(time.Duration(rand.Int64N(int64(2 * clientPause)))):
		}
	}
}

func pickRoute() route {
	total := 0
	for _, r := range routes {
		total += r.weight
	}
	dice := rand.IntN(total)
	for _, r := range routes {
		if dice -= r.weight; dice < 0 {
			return r
		}
	}
	return routes[0]
}

// agents and bodies hold what breaks careless programs: quotes, backslashes, other alphabets, line ends, long lines.
var (
	agents = []string{
		`Mozilla/5.0 (X11; Linux x86_64) "quoted"`, `curl/8.5.0`, `Браузер/1.0`, `浏览器/2.0 日本語`,
		`bot\with\backslashes`, "tab\there", `<script>alert('x')</script>`, `🚀/1.0`,
	}
	bodies = []string{
		``, `{"sku":"A-1","n":2}`, `name=J%C3%BCrgen`, "two\nlines\r\n", `{"note":"says \"hi\", twice"}`, `数量=三`, `😀😀`,
	}
)

func requestBody(r route) string {
	if r.method != http.MethodPost {
		return ""
	}
	if rand.IntN(50) == 0 {
		return strings.Repeat("long line ", 1000+rand.IntN(5000)) // up to 60 kB
	}
	return bodies[rand.IntN(len(bodies))]
}

// rotator is a log file that is renamed away and begun anew, the way logrotate does it.
type rotator struct {
	name string

	mu        sync.Mutex
	file      *os.File
	rotations int
	lines     int64
	bytes     int64
	seconds   map[int64]int // lines in each second, Unix time
}

func openRotator(name string) (*rotator, error) {
	r := &rotator{name: name, seconds: make(map[int64]int)}
	return r, r.open()
}

func (r *rotator) open() (err error) {
	r.file, err = os.OpenFile(r.name, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o644)
	return err
}

// Write takes one line: slog's handler calls it once for each record.
func (r *rotator) Write(p []byte) (int, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	n, err := r.file.Write(p)
	if err == nil {
		r.lines++
		r.bytes += int64(n)
		r.seconds[time.Now().Unix()]++
	}
	return n, err
}

func (r *rotator) rotateEvery(ctx context.Context, d time.Duration) {
	t := time.NewTicker(d)
	defer t.Stop()
	for {
		select {
		case <-t.C:
			r.rotate()
		case <-ctx.Done():
			return
		}
	}
}

// rotate renames the file to NAME.1, NAME.2, … and begins a new one. If the new one can't be made the old one goes on.
func (r *rotator) rotate() {
	r.mu.Lock()
	defer r.mu.Unlock()
	old := r.file
	if err := os.Rename(r.name, r.name+"."+strconv.Itoa(r.rotations+1)); err != nil {
		return
	}
	r.rotations++
	if r.open() != nil {
		r.file = old
		return
	}
	old.Close()
}

func (r *rotator) close() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.file.Close()
}

// written returns how many lines and bytes were written, and how often the file was rotated.
func (r *rotator) written() (lines, bytes int64, rotations int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.lines, r.bytes, r.rotations
}

// perSecond returns the lines of each second, from the first to the last that has any.
func (r *rotator) perSecond() []int {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.seconds) == 0 {
		return nil
	}
	seconds := slices.Sorted(maps.Keys(r.seconds))
	first := seconds[0]
	counts := make([]int, seconds[len(seconds)-1]-first+1)
	for s, n := range r.seconds {
		counts[s-first] = n
	}
	return counts
}
