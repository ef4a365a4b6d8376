// Command quickstart sends the lines of standard input and prints what a consumer receives of them: the first program
// of MetaQ's manual, in Go. It wants a broker: metaq local.
//
//	echo hello | go run ./examples/quickstart
package main

import (
	"bufio"
	"context"
	"errors"
	"flag"
	"fmt"
	"log"
	"os"
	"os/signal"
	"sync"
	"time"

	"github.com/metaq-go/metaq/client"
)

func main() {
	server := flag.String("server", client.DefaultServer, "address of a broker")
	topic := flag.String("topic", "quickstart", "topic to send to")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, *server, *topic); err != nil {
		log.Fatal(err)
	}
}

func run(ctx context.Context, server, topic string) error {
	c, err := client.New(client.Config{Servers: server})
	if err != nil {
		return err
	}
	defer c.Close()

	// The consumer prints what it receives, from the first message that the topic still has.
	consumer, err := c.Consumer(client.ConsumerConfig{Group: "quickstart", Topics: []string{topic}})
	if err != nil {
		return err
	}
	defer consumer.Close()
	received := make(chan struct{})
	consuming, stop := context.WithCancel(ctx)
	var group sync.WaitGroup
	defer group.Wait()
	defer stop()
	group.Go(func() {
		err := consumer.Run(consuming, func(ctx context.Context, m *client.Message) error {
			fmt.Printf("received %q from %s\n", m.Payload, m.Partition)
			select {
			case received <- struct{}{}:
			case <-ctx.Done():
			}
			return nil
		})
		if err != nil {
			log.Print(err)
		}
	})

	// The producer sends line by line and says where each one went.
	producer := c.Producer(client.ProducerConfig{})
	defer producer.Close()
	lines := bufio.NewScanner(os.Stdin)
	for lines.Scan() {
		res, err := producer.Send(ctx, &client.Message{Topic: topic, Payload: lines.Bytes()})
		if err != nil {
			return err
		}
		fmt.Printf("sent to %s at offset %d\n", res.Partition, res.Offset)
		select {
		case <-received:
		case <-time.After(5 * time.Second):
			return errors.New("sent, but not received within five seconds")
		case <-ctx.Done():
			return nil
		}
	}
	return lines.Err()
}
