package broker_test

import (
	"fmt"
	"io"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/metaq-go/metaq/broker"
	"github.com/metaq-go/metaq/broker/brokertest"
	"github.com/metaq-go/metaq/internal/vfs"
	"github.com/metaq-go/metaq/internal/vfs/faultfs"
	"github.com/metaq-go/metaq/protocol"
)

// TestEndsAtEveryCall lets a broker end, as by kill -9 and by loss of power, at its n-th write or sync while clients put, for
// every n until they are done. Whatever it had acknowledged is there afterwards, once, and the next broker goes on behind it.
func TestEndsAtEveryCall(t *testing.T) {
	ends := map[string]func(b *brokertest.Broker, n int){
		"kill":  func(b *brokertest.Broker, _ int) { b.Kill() },
		"power": func(b *brokertest.Broker, n int) { b.Crash(uint64(n)) },
	}
	for _, op := range []vfs.OpKind{vfs.OpWrite, vfs.OpDatasync, vfs.OpSync, vfs.OpCreate, vfs.OpSyncDir} {
		for name, end := range ends {
			t.Run(fmt.Sprintf("%s at %s", name, op), func(t *testing.T) {
				met := 0
				for n := 0; n == met; n++ {
					synctest.Test(t, func(t *testing.T) {
						if endAt(t, op, n, end) {
							met++
						}
					})
				}
				if met < 2 {
					t.Errorf("there were only %d calls", met)
				}
			})
		}
	}
}

// endAt ends a broker at the n-th call of a kind, and reports whether there were so many.
func endAt(t *testing.T, op vfs.OpKind, n int, end func(*brokertest.Broker, int)) (met bool) {
	b := brokertest.Start(t, brokertest.InMemory(), brokertest.Topic("t", 2),
		brokertest.Configure(func(c *broker.Config) { c.SegmentSize = 300 }))
	there, gate := make(chan struct{}, 2), make(chan struct{})
	b.Disk().Add(faultfs.Rule{Op: op, Path: "data/t-?/*", After: n, Times: 1, Before: func(vfs.Op) {
		there <- struct{}{}
		<-gate
	}})
	b.Disk().Add(faultfs.Rule{Op: op, Path: "data/t-?", After: n, Times: 1, Before: func(vfs.Op) { // SyncDir
		there <- struct{}{}
		<-gate
	}})
	var clients sync.WaitGroup
	acked := make([]int, 3)
	if op == vfs.OpCreate || op == vfs.OpSyncDir {
		acked = acked[:1] // who else makes a partition meanwhile waits for a mutex, which does not count as waiting in a bubble
	}
	for i := range acked {
		conn, err := b.Dial(t.Context(), "")
		if err != nil {
			t.Fatal(err)
		}
		clients.Go(func() {
			defer conn.Close()
			rd := protocol.NewReader(conn, protocol.Limits{})
			for k := range 6 {
				if _, err := io.WriteString(conn, request(i, k)); err != nil {
					return
				}
				var a protocol.Response
				if rd.Response(&a) != nil || a.Code != protocol.OK {
					return
				}
				acked[i]++
			}
		})
	}
	synctest.Wait()
	select {
	case <-there:
		met = true
		before := append([]int(nil), acked...) // nobody is told more from now on
		go func() { time.Sleep(time.Millisecond); close(gate) }()
		end(b, n)
		acked = before
	default:
		close(gate)
	}
	clients.Wait()
	checkAcked(t, b, acked, n)
	return met
}

// request is the k-th of client i: a put, or an append of two.
func request(i, k int) string {
	body := fmt.Sprintf("<%d/%d>", i, k)
	if k%3 < 2 {
		return fmt.Sprintf("put t %d %d 0 %d\r\n%s", k%2, len(body), k, body)
	}
	records := protocol.AppendRecord(protocol.AppendRecord(nil, 0, 0, []byte(body)), 0, 0, []byte("second"))
	return fmt.Sprintf("append t %d %d 2 %d\r\n%s", k%2, len(records), k, records)
}

// checkAcked reads everything and looks for what was acknowledged.
func checkAcked(t *testing.T, b *brokertest.Broker, acked []int, n int) {
	t.Helper()
	all := readAll(t, b)
	for i, count := range acked {
		for k := range count {
			if got := strings.Count(all, fmt.Sprintf("<%d/%d>", i, k)); got != 1 {
				t.Errorf("ended at call %d: message %d/%d was acknowledged and is there %d times", n, i, k, got)
			}
		}
	}
	p := brokertest.Connect(t, b.Dial)
	for partition := range 2 {
		if got := p.Ask(fmt.Sprintf("put t %d 4 0 1\r\nnext", partition)); !strings.HasPrefix(got, "result 200") {
			t.Errorf("ended at call %d: the next put: got %q", n, got)
		}
	}
	if got := readAll(t, b); strings.Count(got, "next") != 2 || len(got) != len(all)+48 {
		t.Errorf("ended at call %d: the next puts are not behind what was there", n)
	}
}

// readAll returns the bytes of both partitions, which must be whole records with good checksums.
func readAll(t *testing.T, b *brokertest.Broker) (all string) {
	t.Helper()
	p := brokertest.Connect(t, b.Dial)
	for partition := range 2 {
		for offset := 0; ; {
			rd := protocol.NewReader(strings.NewReader(p.Ask(fmt.Sprintf("get t g %d %d 100000 1\r\n", partition, offset))), protocol.Limits{})
			var a protocol.Response
			if err := rd.Response(&a); err != nil {
				t.Fatal(err)
			}
			if a.Verb != protocol.VerbValue {
				break
			}
			whole := 0
			for _, rec := range protocol.Records(a.Body) {
				if err := rec.Verify(); err != nil {
					t.Errorf("partition %d, offset %d: %v", partition, offset+whole, err)
				}
				whole += rec.Size()
			}
			if whole != len(a.Body) {
				t.Fatalf("partition %d, offset %d: %d bytes that are no record", partition, offset+whole, len(a.Body)-whole)
			}
			offset += whole
			all += string(a.Body)
		}
	}
	return all
}
