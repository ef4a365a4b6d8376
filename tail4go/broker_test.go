package tail4go

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/metaq-go/metaq/broker/brokertest"
	"github.com/metaq-go/metaq/client"
)

// TestThroughBroker sends a rotated log to the real broker by the real producer, while the broker lives on, is killed, or is
// away for a while. Nothing is missing in the topic; lines are doubled only where a broker died before it could answer.
func TestThroughBroker(t *testing.T) {
	patient := client.ProducerConfig{MaxInFlight: 100 << 10, Resend: true, Timeout: time.Hour}
	for name, tt := range map[string]struct {
		fault    func(b *brokertest.Broker, round int)
		doubles  bool
		producer client.ProducerConfig // default: one that keeps the order whatever happens
	}{
		"no fault": {fault: func(*brokertest.Broker, int) {}},
		"killed":   {fault: func(b *brokertest.Broker, _ int) { b.Kill() }, doubles: true},
		"killed, and the producer leaves all to the agent": {
			fault: func(b *brokertest.Broker, _ int) { b.Kill() }, doubles: true,
			producer: client.ProducerConfig{MaxInFlight: 100 << 10},
		},
		"crashed": {fault: func(b *brokertest.Broker, round int) { b.Crash(uint64(round)) }, doubles: true},
		"away for a minute": {doubles: true, fault: func(b *brokertest.Broker, _ int) {
			b.Stop()
			wait(time.Minute)
			b.Restart()
		}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				broker := brokertest.Start(t, brokertest.InMemory(), brokertest.Topic("t", 4))
				c, err := client.New(client.Config{Servers: "meta://" + broker.Addr(), Dial: broker.Dial})
				if err != nil {
					t.Fatal(err)
				}
				defer c.Close()
				cfg, ordered := patient, true
				if tt.producer.MaxInFlight > 0 {
					cfg, ordered = tt.producer, false
				}
				producer := c.Producer(cfg)
				defer producer.Close()
				b := newBench(t, "app.log")
				w := newWriter(b, "app.log")
				b.start(producer)
				for round := range 8 {
					for range 500 {
						w.line()
						wait(time.Millisecond)
					}
					tt.fault(broker, round)
					b.rename("app.log", fmt.Sprintf("old.%d", round))
					w.line()
					w.f.Close()
					w.open("app.log")
				}
				wait(3 * time.Minute)
				if s := b.agent.Stats(); s.Lag != 0 || s.InFlight != 0 {
					t.Errorf("at the end: %+v", s)
				}
				if err := b.stop(); err != nil {
					t.Error(err)
				}
				checkTopic(t, c, w.want, tt.doubles, ordered)
			})
		})
	}
}

// checkTopic reads a topic of four partitions whole and compares it with the lines of one log.
func checkTopic(t *testing.T, c *client.Client, want []string, doubles, ordered bool) {
	t.Helper()
	got := make(map[string]int)
	used := 0
	for n := range 4 {
		payloads := readPartition(t, c, client.Partition{Number: n})
		if len(payloads) > 0 {
			used++
		}
		last := ""
		for _, p := range payloads {
			if ordered && got[p] == 0 && p < last {
				t.Errorf("%q comes first after %q", p, last)
			}
			got[p]++
			last = max(last, p)
		}
	}
	if used != 1 {
		t.Errorf("the log's lines are in %d partitions, want one", used)
	}
	missing, doubled := 0, 0
	for _, line := range want {
		missing += max(0, 1-got[line])
		doubled += max(0, got[line]-1)
	}
	if missing > 0 || doubled > 0 && !doubles {
		t.Errorf("of %d lines %d are missing, %d doubled", len(want), missing, doubled)
	}
	t.Logf("of %d lines %d are doubled", len(want), doubled)
}

func readPartition(t *testing.T, c *client.Client, p client.Partition) (payloads []string) {
	t.Helper()
	_, end, err := c.Offsets(t.Context(), "t", p)
	if err != nil {
		t.Fatal(err)
	}
	r := c.Reader("t", p, 0)
	for r.Offset() < end {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		batch, err := r.Next(ctx)
		cancel()
		if err != nil {
			t.Fatal(err)
		}
		for m := range batch.Messages() {
			payloads = append(payloads, string(m.Payload))
		}
	}
	return payloads
}
