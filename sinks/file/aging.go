package file

import (
	"sync"
	"time"
)

// aging is the timer of the unfinished file. Its methods are called under the sink's lock, wait without.
type aging struct {
	timer   *time.Timer    // nil if none is running
	number  int            // of the timer, so that one that was stopped too late is told from the next
	pending sync.WaitGroup // functions that may run
}

func (a *aging) running() bool { return a.timer != nil }

// start has f called after d, in a goroutine, with the number of the timer, unless stop comes first.
func (a *aging) start(d time.Duration, f func(number int)) {
	a.number++
	number := a.number
	a.pending.Add(1)
	a.timer = time.AfterFunc(d, func() {
		defer a.pending.Done()
		f(number)
	})
}

func (a *aging) stop() {
	if a.timer != nil && a.timer.Stop() {
		a.pending.Done()
	}
	a.timer = nil
}

// fired tells f whether it is still wanted; stop may have come when it was on its way.
func (a *aging) fired(number int) bool {
	if a.timer == nil || a.number != number {
		return false
	}
	a.timer = nil
	return true
}

// wait waits for a function that was on its way.
func (a *aging) wait() { a.pending.Wait() }
