package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/metaq-go/metaq/client"
)

// measure starts a broker on an empty folder, runs one figure against it, and stops it.
func measure(cfg config, relaxed bool, f figure) (res result, err error) {
	dir, err := os.MkdirTemp(cfg.dir, "metaq-bench-")
	if err != nil {
		return res, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	b, err := start(cfg.binary, dir, relaxed)
	if err != nil {
		return res, err
	}
	defer func() { err = errors.Join(err, b.stop()) }()
	c, err := client.New(client.Config{Servers: b.addr})
	if err != nil {
		return res, err
	}
	defer c.Close()
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	r := &run{figure: f, client: c, time: cfg.time}
	if f.prepare != nil {
		if err := f.prepare(ctx, r); err != nil {
			return res, err
		}
	}
	broker0, client0, began := b.cpu(), selfCPU(), time.Now()
	if err := f.run(ctx, r); err != nil {
		return res, err
	}
	took := time.Since(began).Seconds()
	n := float64(r.messages.Load())
	res = result{
		Messages: r.messages.Load(), Rate: n / took, MBs: n * float64(f.size) / took / 1e6,
		BrokerCPU: (b.cpu() - broker0) / n * 1e6, ClientCPU: (selfCPU() - client0) / n * 1e6,
	}
	if r.latency != nil {
		res.P50, res.P99 = r.latency.ValueAtQuantile(50), r.latency.ValueAtQuantile(99)
	}
	return res, nil
}

// broker is a metaq local in a process of its own.
type broker struct {
	cmd  *exec.Cmd
	addr string
}

func start(binary, dir string, relaxed bool) (*broker, error) {
	args := []string{"local", "--data", dir, "--listen", "127.0.0.1:0", "--http", "off", "--topic", topic + ":4"}
	if relaxed {
		args = append(args, "--relaxed")
	}
	cmd := exec.Command(binary, args...)
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		return nil, fmt.Errorf("%s says no ready line: %w", binary, errors.Join(err, cmd.Process.Kill(), cmd.Wait()))
	}
	for _, word := range strings.Fields(line) {
		if addr, ok := strings.CutPrefix(word, "listen="); ok {
			return &broker{cmd: cmd, addr: "meta://" + addr}, nil
		}
	}
	return nil, fmt.Errorf("%s says %q", binary, line)
}

func (b *broker) stop() error {
	if err := b.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		return err
	}
	return b.cmd.Wait()
}

// cpu returns the CPU seconds that the process has used.
func (b *broker) cpu() float64 {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", b.cmd.Process.Pid))
	if err != nil {
		return 0
	}
	_, rest, _ := strings.Cut(string(stat), ") ")
	f := strings.Fields(rest)
	if len(f) < 13 {
		return 0
	}
	const ticks = 100 // per second, on every Linux
	user, _ := strconv.ParseFloat(f[11], 64)
	sys, _ := strconv.ParseFloat(f[12], 64)
	return (user + sys) / ticks
}

func selfCPU() float64 {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		return 0
	}
	return float64(u.Utime.Sec+u.Stime.Sec) + float64(u.Utime.Usec+u.Stime.Usec)/1e6
}
