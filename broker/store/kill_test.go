package store_test

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/metaq-go/metaq/broker/store"
	"github.com/metaq-go/metaq/internal/vfs"
	"github.com/metaq-go/metaq/protocol"
)

// childEnv names the folder that this program, started again by TestKill, writes to.
const childEnv = "METAQ_STORE_TEST_CHILD"

const killPartitions = 3

func killConfig(folder string) store.Config {
	return store.Config{FS: vfs.OS(), Dir: folder, SegmentSize: 100_000}
}

// noise is what bodies are cut from.
var noise = sync.OnceValue(func() []byte {
	rng, b := rand.New(rand.NewPCG(1, 2)), make([]byte, 64<<10)
	for i := range b {
		b[i] = byte(rng.Uint32())
	}
	return b
})

// killBody is the body of record i of a run: told by its beginning, so that any record found can be checked.
func killBody(partition int, seed uint64, i int) []byte {
	rng := rand.New(rand.NewPCG(seed, uint64(i)))
	n := []int{rng.IntN(50), rng.IntN(2000), rng.IntN(20_000)}[rng.IntN(3)]
	at := rng.IntN(len(noise()) - n)
	return append(fmt.Appendf(nil, "%d %d %d ", partition, seed, i), noise()[at:at+n]...)
}

func killRecords(partition int, seed uint64, n int) []byte {
	var data []byte
	for i := range n {
		data = protocol.AppendRecord(data, 0, 0, killBody(partition, seed, i))
	}
	return data
}

// child, in the program started by TestKill, appends until it is killed and prints a line for each run that is committed.
// It reports false in the test itself.
func child() bool {
	folder := os.Getenv(childEnv)
	if folder == "" {
		return false
	}
	fail := func(err error) {
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
	}
	s, err := store.Open(killConfig(folder))
	fail(err)
	var wg sync.WaitGroup
	wg.Go(func() { fail(s.Run(context.Background())) })
	for p := range killPartitions {
		l, err := s.Create("t", p)
		fail(err)
		wg.Go(func() {
			for {
				seed, n := rand.Uint64(), 1+rand.IntN(5)
				a, err := l.Append(killRecords(p, seed, n), n)
				fail(err)
				fail(a.Commit.Wait(context.Background()))
				fmt.Printf("%d %d %d %d %d\n", p, a.Offset, a.ID, seed, n)
			}
		})
	}
	wg.Wait()
	return true
}

// TestKill kills a process that appends to a store, again and again, at random moments of its start and its work.
func TestKill(t *testing.T) {
	const parallel, each = 4, 26
	for i := range parallel {
		t.Run(strconv.Itoa(i), func(t *testing.T) {
			t.Parallel()
			rng := rand.New(rand.NewPCG(uint64(i), 7))
			acked := make(map[int][]run)
			var folder string
			for round := range each * rounds(t) {
				if round%13 == 0 {
					folder, acked = filepath.Join(t.TempDir(), "data"), make(map[int][]run)
				}
				killOne(t, folder, rng, acked)
				afterKill(t, folder, acked)
				if t.Failed() {
					t.Fatalf("round %d", round)
				}
			}
		})
	}
}

// killOne starts the child, kills it and adds what it had printed to acked.
func killOne(t *testing.T, folder string, rng *rand.Rand, acked map[int][]run) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), os.Args[0])
	cmd.Env = append(os.Environ(), childEnv+"="+folder)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.StdoutPipe()
	check(t, err)
	check(t, cmd.Start())
	lines := rng.IntN(150)
	if rng.IntN(3) == 0 { // within a time in which it may not even have started
		lines = math.MaxInt
		timer := time.AfterFunc(time.Duration(rng.IntN(120))*time.Millisecond, func() { cmd.Process.Kill() })
		defer timer.Stop()
	}
	n := 0
	for scanner := bufio.NewScanner(out); scanner.Scan(); n++ {
		var (
			p, count int
			seed     uint64
			a        run
		)
		if _, err := fmt.Sscan(scanner.Text(), &p, &a.Offset, &a.ID, &seed, &count); err != nil {
			continue // cut by the kill
		}
		a.data = killRecords(p, seed, count)
		protocol.StampIDs(a.data, a.ID)
		acked[p] = append(acked[p], a)
		if n == lines {
			check(t, cmd.Process.Kill())
		}
	}
	if n < lines && lines < math.MaxInt {
		t.Errorf("the child ended after %d lines of %d", n, lines)
	}
	cmd.Wait()
	if stderr.Len() > 0 {
		t.Errorf("the child says: %s", stderr.String())
	}
}

// afterKill checks what is found after a kill: all that was printed is there, and the rest is whole.
func afterKill(t *testing.T, folder string, acked map[int][]run) {
	t.Helper()
	r := open(t, killConfig(folder))
	for p := range killPartitions {
		l := r.Log([]byte("t"), p)
		if l == nil {
			if len(acked[p]) > 0 {
				t.Errorf("partition %d is missing", p)
			}
			continue
		}
		data, err := readAll(l, 0, 1<<20)
		check(t, err)
		for _, a := range acked[p] {
			if a.end() > int64(len(data)) || !bytes.Equal(data[a.Offset:a.end()], a.data) {
				t.Errorf("partition %d of %d bytes: the run at %d is missing or another", p, len(data), a.Offset)
			}
		}
		if err := wholeRecords(p, data); err != nil {
			t.Errorf("partition %d: %v", p, err)
		}
	}
	check(t, r.Close())
}

// wholeRecords checks that data is records of the child's, with ids that increase.
func wholeRecords(partition int, data []byte) error {
	end, id := 0, int64(math.MinInt64)
	for pos, r := range protocol.Records(data) {
		var (
			p, i int
			seed uint64
		)
		if _, err := fmt.Sscan(string(r.Body[:min(len(r.Body), 60)]), &p, &seed, &i); err != nil && !errors.Is(err, strconv.ErrSyntax) {
			return fmt.Errorf("record at %d: %w", pos, err)
		}
		if p != partition || !bytes.Equal(r.Body, killBody(p, seed, i)) || r.ID <= id {
			return fmt.Errorf("record at %d, %.30q, with id %d after %d is not what was appended", pos, strings.ToValidUTF8(string(r.Body), "?"), r.ID, id)
		}
		end, id = pos+r.Size(), r.ID
	}
	if end != len(data) {
		return fmt.Errorf("ends at %d of %d bytes", end, len(data))
	}
	return nil
}
