// Command tail-to-parquet is a whole pipeline in one program: a broker inside it, an agent that follows log files, and a
// topology that keeps their lines in Parquet files. It runs until Ctrl-C, and goes on where it was at the next start.
//
//	go run ./examples/tail-to-parquet -dir work 'logs/*.log'
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log"
	"os"
	"os/signal"
	"path/filepath"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/metaq-go/metaq/broker"
	"github.com/metaq-go/metaq/client"
	"github.com/metaq-go/metaq/pipeline"
	"github.com/metaq-go/metaq/protocol"
	"github.com/metaq-go/metaq/sinks/parquet"
	"github.com/metaq-go/metaq/spout"
	"github.com/metaq-go/metaq/tail4go"
)

// line is a row: a line with where it was and when the topic got it.
type line struct {
	Host string    `parquet:"host,dict"`
	File string    `parquet:"file,dict"`
	Pos  int64     `parquet:"pos"`
	Time time.Time `parquet:"time,timestamp(millisecond)"`
	Text []byte    `parquet:"text"`
}

func decode(m client.Message) (line, error) {
	at, err := tail4go.ParseAttr(m.Attr)
	if err != nil {
		return line{}, pipeline.Permanent(err)
	}
	return line{Host: at.Host, File: at.Path, Pos: at.Pos, Time: protocol.IDTime(m.ID), Text: m.Payload}, nil
}

func main() {
	dir := flag.String("dir", "work", "folder for everything: messages, positions, parquet")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, *dir, flag.Args()); err != nil {
		log.Fatal(err)
	}
}

func run(ctx context.Context, dir string, patterns []string) (err error) {
	if len(patterns) == 0 {
		return errors.New("name the files to follow, for example 'logs/*.log'")
	}
	b, err := broker.Open(broker.Config{Dir: filepath.Join(dir, "broker"), Addr: "127.0.0.1:0"})
	if err != nil {
		return err
	}
	defer b.Close()
	c, err := client.New(client.Config{Servers: "meta://" + b.Addr().String()})
	if err != nil {
		return err
	}
	defer c.Close()
	producer := c.Producer(client.ProducerConfig{Resend: true}) // keeps the order of lines through a lost connection
	defer producer.Close()
	agent, err := tail4go.Open(tail4go.Config{
		Inputs:   []tail4go.Input{{Topic: "lines", Patterns: patterns}},
		StateDir: filepath.Join(dir, "agent"),
	}, producer)
	if err != nil {
		return err
	}
	defer agent.Close()
	sink, err := parquet.Open[line](parquet.Config{Dir: filepath.Join(dir, "parquet"), Prefix: "lines"})
	if err != nil {
		return err
	}
	top := pipeline.New("lines", pipeline.Config{Mode: pipeline.Ordered, MaxPending: 100_000})
	source := spout.Topic("lines", spout.Client(c), spout.Offsets(client.FileOffsets(filepath.Join(dir, "offsets"))))
	// Each batch becomes a file: big ones under load, and after ten seconds whatever there is.
	pipeline.From(top, source, decode).To(sink, pipeline.Batch(50_000, 10*time.Second))

	fmt.Printf("following %q, Parquet files in %s\n", patterns, filepath.Join(dir, "parquet"))
	return runAll(ctx, b, agent, top)
}

// runAll runs everything until ctx ends, and then stops along the way of a record: agent, topology, broker.
func runAll(ctx context.Context, b *broker.Broker, agent *tail4go.Agent, top *pipeline.Topology) error {
	brokerCtx, stopBroker := context.WithCancel(context.WithoutCancel(ctx))
	defer stopBroker()
	brokerDone := make(chan error, 1)
	go func() { brokerDone <- b.Run(brokerCtx) }()

	group, gctx := errgroup.WithContext(ctx)
	group.Go(func() error { return agent.Run(gctx) })
	group.Go(func() error { return top.Run(gctx) })
	err := group.Wait()
	stopBroker()
	return errors.Join(err, <-brokerDone)
}
