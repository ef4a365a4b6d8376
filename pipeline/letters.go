package pipeline

import (
	"encoding"
	"encoding/json"
	"errors"
	"fmt"
	"runtime"
	"runtime/debug"
	"strings"
	"time"
)

// deadLetters is the name of the stage that writes Config.DeadLetters.
const deadLetters = "dead-letters"

// letters is where one task of a stage puts what it has to give up, and where it counts. It belongs to the task's goroutine.
type letters struct {
	run    *run
	node   *node
	counts *counters
	told   time.Time // when report last logged
	untold int       // failures since
}

func newLetters(r *run, n *node) *letters { return &letters{run: r, node: n, counts: n.newCounters()} }

// reject gives a tuple up: it goes to the dead letters together with the caller's token, or ends the run, which leaves
// the token where it is, so that the source tuple is never acknowledged.
func (l *letters) reject(a anchor, err error, attempts int, v any) {
	r := l.run
	l.counts.failed.n++
	origin := r.rings[a.ring()].origins[a.slot()]
	in := r.top.letters
	if in == nil || l.node == in.node {
		r.fail(fmt.Errorf("%s %q, tuple %v, attempt %d: %w", l.node.kind, l.node.name, origin, attempts, err))
		return
	}
	d := DeadLetter{
		Time: time.Now(), Topology: r.top.name, Stage: l.node.name, Origin: origin,
		Attempts: attempts, Err: err, Cause: err.Error(), Value: printable(v),
	}
	var p *panicError
	if errors.As(err, &p) {
		d.Stack = p.stack
	}
	b := in.pool.get()
	b.n, b.values[0], b.anchors[0] = 1, d, a
	in.node.arrived.Add(1)
	select {
	case in.queues[0] <- b:
	case <-r.work.Done():
	}
}

// leave ends the task's part as a sender of dead letters.
func (l *letters) leave() {
	if in := l.run.top.letters; in != nil && l.node != in.node {
		in.leave()
	}
}

// quiet is how long a task logs no further failure after one. The numbers are in Stats.Retried.
const quiet = 10 * time.Second

// report logs a failure that will be tried again.
func (l *letters) report(a anchor, err error, attempt int, pause time.Duration) {
	now := time.Now()
	if !l.told.IsZero() && now.Sub(l.told) < quiet {
		l.untold++
		return
	}
	o := l.run.rings[a.ring()].origins[a.slot()]
	args := []any{
		"topology", l.run.top.name, "stage", l.node.name, "partition", o.Partition, "offset", o.Offset,
		"attempt", attempt, "pause", pause, "unreported", l.untold, "err", err,
	}
	var p *panicError
	if errors.As(err, &p) {
		args = append(args, "stack", p.stack)
	}
	l.run.top.cfg.Logger.Warn("tuple will be tried again", args...)
	l.told, l.untold = now, 0
}

// printable is the form in which a dead letter keeps its value.
func printable(v any) []byte {
	switch v := v.(type) {
	case []byte:
		return append([]byte(nil), v...)
	case string:
		return []byte(v)
	case error: // its text; JSON would be {}
		return []byte(v.Error())
	case encoding.TextMarshaler:
		if b, err := v.MarshalText(); err == nil {
			return b
		}
	}
	if b, err := json.Marshal(v); err == nil {
		return b
	}
	return fmt.Appendf(nil, "%+v", v)
}

// panicError is a panic of user code.
type panicError struct {
	value any
	at    string // file:line
	stack string
}

func (p *panicError) Error() string { return fmt.Sprintf("panic: %v (at %s)", p.value, p.at) }

func (p *panicError) Unwrap() error {
	err, _ := p.value.(error)
	return err
}

// catch turns a panic into *err. It must be deferred directly.
func catch(err *error) {
	if v := recover(); v != nil {
		*err = caught(v)
	}
}

// caught makes an error of what recover returned; nil if that was nil.
func caught(v any) error {
	if v == nil {
		return nil
	}
	return &panicError{value: v, at: panicSite(), stack: string(debug.Stack())}
}

// panicSite finds where the panic being recovered began: the frame below the last one of the runtime that follows gopanic.
func panicSite() string {
	pc := make([]uintptr, 64)
	frames := runtime.CallersFrames(pc[:runtime.Callers(0, pc)])
	seen := false
	for {
		f, more := frames.Next()
		inRuntime := strings.HasPrefix(f.Function, "runtime.")
		if seen && !inRuntime {
			return fmt.Sprintf("%s:%d", f.File, f.Line)
		}
		seen = seen || f.Function == "runtime.gopanic"
		if !more {
			return "unknown"
		}
	}
}
