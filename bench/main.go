// Command bench measures metaq as a user runs it: a broker in a process of its own, a client in this one, both on the
// same machine. It prints one line for each figure, with the CPU seconds that broker and client spent on a million
// messages; --json prints objects.
//
// It is a module of its own so that the libraries of peers, which are measured beside metaq, stay out of the product.
package main

import (
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"strings"
	"time"
)

func main() {
	cfg := config{}
	var only string
	flag.StringVar(&cfg.binary, "metaq", "../bin/metaq", "the `binary` to measure")
	flag.StringVar(&cfg.dir, "dir", "", "`folder` for data, on the disk to measure; default: the temporary folder")
	flag.DurationVar(&cfg.time, "time", 4*time.Second, "how long each figure is measured")
	flag.StringVar(&only, "only", "", "`words`, with commas: only figures whose names contain one of them")
	asJSON := flag.Bool("json", false, "print objects")
	flag.Parse()
	if err := measureAll(cfg, strings.Split(only, ","), *asJSON); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

func measureAll(cfg config, only []string, asJSON bool) error {
	if !asJSON {
		fmt.Printf("%-34s %14s %10s %12s %12s %10s %10s\n", "figure", "messages/s", "MB/s", "broker cpu/M", "client cpu/M", "p50", "p99")
	}
	for _, relaxed := range []bool{false, true} {
		for _, f := range figures {
			name := mode(relaxed) + " " + f.name
			if f.durableOnly && relaxed || !wanted(name, only) {
				continue
			}
			r, err := measure(cfg, relaxed, f)
			if err != nil {
				return fmt.Errorf("%s: %w", name, err)
			}
			r.Figure = name
			if asJSON {
				if err := json.NewEncoder(os.Stdout).Encode(r); err != nil {
					return err
				}
				continue
			}
			fmt.Println(r)
		}
	}
	return nil
}

func mode(relaxed bool) string {
	if relaxed {
		return "relaxed"
	}
	return "durable"
}

func wanted(name string, only []string) bool {
	for _, w := range only {
		if strings.Contains(name, w) {
			return true
		}
	}
	return false
}

// result is one figure.
type result struct {
	Figure    string  `json:"figure"`
	Messages  int64   `json:"messages"`
	Rate      float64 `json:"messages_per_second"`
	MBs       float64 `json:"mb_per_second"` // of payload
	BrokerCPU float64 `json:"broker_cpu_seconds_per_million"`
	ClientCPU float64 `json:"client_cpu_seconds_per_million"`
	P50       int64   `json:"p50_microseconds,omitempty"`
	P99       int64   `json:"p99_microseconds,omitempty"`
}

func (r result) String() string {
	s := fmt.Sprintf("%-34s %14.0f %10.1f %12.3f %12.3f", r.Figure, r.Rate, r.MBs, r.BrokerCPU, r.ClientCPU)
	if r.P99 > 0 {
		s += fmt.Sprintf(" %8dµs %8dµs", r.P50, r.P99)
	}
	return s
}
