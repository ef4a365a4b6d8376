package tail4go

import (
	"errors"
	"math/rand/v2"
	"sync"
	"testing"

	"pgregory.net/rapid"

	"github.com/metaq-go/metaq/client"
)

var errSend = errors.New("send failed")

// line is a model's line of a window.
type line struct {
	end    position
	tag    int64
	answer func(client.Result, error)
	state  byte // 'f'lying, 'a'cknowledged, 'x': failed
}

// TestWindow compares a window with a plain list, whatever order answers come in.
func TestWindow(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		failed := 0
		w := newWindow(position{at: 100}, new(blockPool), func(error) { failed++ })
		var lines []*line
		at := position{at: 100}
		flying := func(state byte) []*line {
			var some []*line
			for _, l := range lines {
				if l.state == state {
					some = append(some, l)
				}
			}
			return some
		}
		t.Repeat(map[string]func(*rapid.T){
			"add": func(t *rapid.T) {
				for range rapid.SampledFrom([]int{1, 3, 700, 3000}).Draw(t, "lines") {
					at.at += 7
					at.part = 0
					if len(lines)%5 == 0 {
						at.part = len(lines)
					}
					tag, answer := w.add(at)
					lines = append(lines, &line{at, tag, answer, 'f'})
				}
			},
			"undo": func(t *rapid.T) {
				w.add(position{at: at.at + 1, part: 9})
				w.undo()
			},
			"skip": func(t *rapid.T) {
				at = position{at: at.at + 1}
				w.skip(at)
				lines = append(lines, &line{end: at, state: 'a'})
			},
			"rest": func(*rapid.T) { w.rest() },
			"answer": func(t *rapid.T) {
				fate := rapid.SampledFrom([]byte("aaax")).Draw(t, "fate")
				rng := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 1))
				for _, l := range flying('f') {
					if rng.IntN(3) == 0 {
						continue
					}
					l.state = fate
					var err error
					if fate == 'x' {
						err = errSend
					}
					l.answer(client.Result{Tag: l.tag}, err)
				}
			},
			"retry": func(t *rapid.T) {
				list, unanswered := w.failures(1 << 20)
				want := flying('x')
				if got, want := unanswered, len(flying('f')) > 0; got != want {
					t.Fatalf("unanswered is %v, want %v", got, want)
				}
				if len(list) != len(want) {
					t.Fatalf("got %d failures, want %d", len(list), len(want))
				}
				for i, f := range list {
					if f.to != want[i].end || int64(f.tag) != want[i].tag {
						t.Fatalf("failure %d: got %+v, tag %d, want %+v", i, f.to, f.tag, want[i])
					}
					f.retry()
					want[i].state = 'f'
				}
			},
			"": func(t *rapid.T) {
				want := position{at: 100}
				for _, l := range lines {
					if l.state != 'a' {
						break
					}
					want = l.end
				}
				if got := w.mark(); got != want {
					t.Fatalf("mark is %+v, want %+v", got, want)
				}
				if got, want := int(w.failed.Load()), len(flying('x')); got != want {
					t.Fatalf("%d failed, want %d", got, want)
				}
			},
		})
	})
}

// TestWindowFailureBegins checks that a failed line begins where the one before it ends, across blocks.
func TestWindowFailureBegins(t *testing.T) {
	w := newWindow(position{at: 5, part: 2}, new(blockPool), func(error) {})
	for i := range int64(blockLines + 1) {
		tag, answer := w.add(position{at: 6 + i, part: int(i)})
		answer(client.Result{Tag: tag}, errSend)
	}
	list, _ := w.failures(1 << 20)
	for i, f := range list {
		want := position{at: 5 + int64(i), part: max(i-1, 0)}
		if i == 0 {
			want.part = 2
		}
		if f.from != want {
			t.Fatalf("failure %d begins at %+v, want %+v", i, f.from, want)
		}
	}
	list[0].retry()
	list[0].refused()
	if again, _ := w.failures(1); len(again) != 1 || again[0].from.at != 5 {
		t.Errorf("a refused retry is not among the failures: %+v", again)
	}
	for _, f := range list {
		f.giveUp()
	}
	if got, want := w.mark().at, int64(6+blockLines); got != want {
		t.Errorf("mark is %d after giving up, want %d", got, want)
	}
}

// TestWindowConcurrently lets several goroutines answer while one adds and one asks, for the race detector.
func TestWindowConcurrently(t *testing.T) {
	w := newWindow(position{}, new(blockPool), func(error) {})
	work := make(chan line, 100)
	var group sync.WaitGroup
	for range 3 {
		group.Go(func() {
			for l := range work {
				l.answer(client.Result{Tag: l.tag}, nil)
			}
		})
	}
	stop := make(chan struct{})
	asked := make(chan struct{})
	go func() {
		defer close(asked)
		last := int64(0)
		for {
			select {
			case <-stop:
				return
			default:
			}
			now := w.mark().at
			if now < last {
				t.Errorf("mark went back from %d to %d", last, now)
			}
			last = now
		}
	}()
	const n = 50_000
	for i := range int64(n) {
		end := position{at: i + 1, part: int(i % 7)}
		tag, answer := w.add(end)
		work <- line{tag: tag, answer: answer}
	}
	close(work)
	group.Wait()
	close(stop)
	<-asked
	if got := w.mark(); got.at != n {
		t.Errorf("mark is %d, want %d", got.at, n)
	}
}

func BenchmarkWindow(b *testing.B) {
	b.ReportAllocs()
	w := newWindow(position{}, new(blockPool), func(error) {})
	for i := range int64(b.N) {
		tag, answer := w.add(position{at: i + 1})
		answer(client.Result{Tag: tag}, nil)
	}
	if got := w.mark().at; got != int64(b.N) {
		b.Fatalf("mark is %d, want %d", got, b.N)
	}
}
