// Command broadcast runs a fan-out job: every instance sees every message, here to keep a copy of a configuration that is
// spread through a topic. It wants a broker: metaq local.
//
//	go run ./examples/broadcast &
//	echo 'colour=blue' | metaq put config
package main

import (
	"context"
	"flag"
	"fmt"
	"log"
	"os"
	"os/signal"
	"strings"

	"github.com/metaq-go/metaq/client"
	"github.com/metaq-go/metaq/pipeline"
	"github.com/metaq-go/metaq/spout"
)

// setting is a line KEY=VALUE.
type setting struct{ key, value string }

func parse(m client.Message) (setting, error) {
	key, value, ok := strings.Cut(string(m.Payload), "=")
	if !ok {
		return setting{}, fmt.Errorf("%q is not KEY=VALUE", m.Payload)
	}
	return setting{key, value}, nil
}

// store is the sink of one instance: its own copy of the configuration.
type store struct {
	instance int
	values   map[string]string
}

func (s *store) Write(_ context.Context, batch []setting) error {
	for _, v := range batch {
		s.values[v.key] = v.value
		fmt.Printf("instance %d: %s is now %q, %d settings\n", s.instance, v.key, v.value, len(s.values))
	}
	return nil
}

func (s *store) Close(context.Context) error { return nil }

func main() {
	server := flag.String("server", client.DefaultServer, "address of a broker")
	instances := flag.Int("instances", 3, "how many see everything")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()

	top := pipeline.New("config", pipeline.Config{Mode: pipeline.Broadcast, Instances: *instances})
	settings := pipeline.From(top, spout.Topic("config", spout.Server(*server)), parse)
	settings.ToEach(func(t pipeline.Task) (pipeline.Sink[setting], error) {
		return &store{instance: t.Index, values: make(map[string]string)}, nil
	})
	if err := top.Run(ctx); err != nil {
		log.Fatal(err)
	}
}
