package tail4go

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"
)

// Agent follows files and sends their lines. Its methods are safe for concurrent use.
type Agent struct {
	cfg    Config
	log    *slog.Logger
	sender Sender
	inputs []*input
	count  counters
	ended  chan struct{} // closed when Run has ended
	begun  sync.Once

	mu     sync.Mutex // guards the store
	store  *store
	others []entry // of inputs that are not configured now
	unsaid bool    // a save failed: entries have to be stored again
}

// Open checks the configuration, takes the state directory and reads the positions kept there. The agent sends to sender,
// which stays the caller's to close, after Run has ended. Errors: ErrLocked, ErrDamaged, or what is wrong with the configuration.
func Open(cfg Config, sender Sender) (*Agent, error) {
	if sender == nil {
		return nil, errors.New("no sender is given to the agent")
	}
	cfg, err := cfg.withDefaults()
	if err != nil {
		return nil, fmt.Errorf("configuration of the agent: %w", err)
	}
	st, entries, err := openStore(cfg.fs, cfg.StateDir, cfg.Logger)
	if err != nil {
		return nil, err
	}
	a := &Agent{cfg: cfg, log: cfg.Logger, sender: sender, store: st, ended: make(chan struct{})}
	for _, in := range cfg.Inputs {
		a.inputs = append(a.inputs, newInput(in, cfg, sender, &a.count, entries))
	}
	for _, e := range entries {
		if !slices.ContainsFunc(cfg.Inputs, func(in Input) bool { return in.Name == e.Input }) {
			a.others = append(a.others, e)
		}
	}
	return a, nil
}

// Run follows the files until ctx ends, or until the agent has been idle for Config.Idle. Then it waits, at most StopWait, for
// what is on its way, stores the positions and returns nil. It returns an error if the sender was closed, or if an idle agent's
// positions can't be stored. It may be called once.
func (a *Agent) Run(ctx context.Context) error {
	err := errors.New("the agent was run before")
	a.begun.Do(func() {
		defer close(a.ended)
		err = a.run(ctx)
	})
	return err
}

func (a *Agent) run(ctx context.Context) error {
	work, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	var group sync.WaitGroup
	for _, in := range a.inputs {
		group.Go(func() { in.scanner(work) })
		group.Go(func() {
			if err := in.reader(work); err != nil {
				stop(err)
			}
		})
	}
	group.Go(func() { a.keep(work, stop) })
	group.Wait()

	err := context.Cause(work)
	if errors.Is(err, errIdle) || ctx.Err() != nil {
		err = nil
	}
	a.flush(ctx)
	if saveErr := a.save(); saveErr != nil {
		err = errors.Join(err, saveErr)
	}
	for _, in := range a.inputs {
		in.close()
	}
	return err
}

// flush waits for what is on its way, and sends again what fails: a line that is stored behind one that failed would
// otherwise come twice.
func (a *Agent) flush(ctx context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), a.cfg.StopWait)
	defer cancel()
	err := a.sender.Flush(ctx)
	for _, in := range a.inputs {
		err = errors.Join(err, in.drain(ctx))
	}
	if s := a.Stats(); s.InFlight > 0 {
		a.log.Warn("stopping without acknowledgement of all lines: they will be sent again", "wait_bytes", s.InFlight, "err", err)
	}
}

// Close gives the state directory free and returns when Run has ended; the caller ends it by its context. Twice is fine.
func (a *Agent) Close() error {
	a.begun.Do(func() { close(a.ended) }) // never to be run
	<-a.ended
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.store.close()
}

// errIdle ends an agent that has nothing more to do.
var errIdle = errors.New("nothing new")

// keep stores the positions now and then, says when lines wait, and stops an agent that is idle.
func (a *Agent) keep(ctx context.Context, stop context.CancelCauseFunc) {
	tick := a.cfg.SaveInterval
	if a.cfg.Idle > 0 {
		tick = min(tick, a.cfg.PollInterval)
	}
	ticker := time.NewTicker(tick)
	defer ticker.Stop()
	var w said
	for saved := time.Now(); ; {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		now := time.Now()
		if now.Sub(saved) >= a.cfg.SaveInterval {
			saved = now
			a.saveAndSay(&w, now)
		}
		a.warn(&w, now)
		if a.cfg.Idle > 0 && a.isIdle(now) {
			stop(errIdle)
		}
	}
}

// isIdle reports whether the agent may end, after having asked for the unfinished lines if they are to be sent.
func (a *Agent) isIdle(now time.Time) bool {
	idle := true
	for _, in := range a.inputs {
		ok, since := in.isSettled()
		idle = idle && ok && now.Sub(since) >= a.cfg.Idle
	}
	if !idle || !a.cfg.IdlePartial {
		return idle
	}
	for _, in := range a.inputs {
		if in.flush.CompareAndSwap(false, true) {
			in.kick()
			idle = false
		}
	}
	return idle
}

// save stores the positions if they have changed.
func (a *Agent) save() error {
	a.mu.Lock()
	defer a.mu.Unlock()
	dirty := a.unsaid
	for _, in := range a.inputs {
		dirty = in.dirty() || dirty
	}
	if !dirty {
		return nil
	}
	now := time.Now()
	a.others = slices.DeleteFunc(a.others, func(e entry) bool {
		return !e.Gone.IsZero() && now.Sub(e.Gone) > a.cfg.Retention
	})
	entries := slices.Clone(a.others)
	for _, in := range a.inputs {
		entries = append(entries, in.entries(now)...)
	}
	err := a.store.save(entries)
	a.unsaid = err != nil
	if err != nil {
		a.count.saveErrors.Add(1)
	}
	return err
}

// said is what was last said about things that go wrong, so that it is not said all the time.
type said struct {
	waiting, unsaved time.Time // zero: nothing, or that all is well again
	acked            int64
	moved            time.Time // when acked grew last
}

const (
	sayAgain = time.Minute
	stalled  = 10 * time.Second // without an acknowledgement lines are said to wait
)

// warn says how many bytes wait while sending fails or nothing is acknowledged.
func (a *Agent) warn(w *said, now time.Time) {
	fault, settled := a.fault(), true
	for _, in := range a.inputs {
		ok, _ := in.isSettled()
		settled = settled && ok
	}
	if fault == "" && settled && w.waiting.IsZero() {
		w.moved = now
		return
	}
	s := a.Stats()
	if s.Acked != w.acked || settled {
		w.acked, w.moved = s.Acked, now
	}
	waits := fault != "" || now.Sub(w.moved) >= stalled
	switch {
	case waits && now.Sub(w.waiting) >= sayAgain:
		w.waiting = now
		if fault == "" {
			fault = "nothing is acknowledged"
		}
		a.log.Warn("lines wait in their files", "wait_bytes", s.Lag, "in_flight_bytes", s.InFlight, "err", fault)
	case !waits && !w.waiting.IsZero():
		w.waiting = time.Time{}
		a.log.Info("lines are acknowledged again", "wait_bytes", s.Lag)
	}
}

// saveAndSay stores the positions, and says so if they can't be.
func (a *Agent) saveAndSay(w *said, now time.Time) {
	err := a.save()
	switch {
	case err != nil && now.Sub(w.unsaved) >= sayAgain:
		w.unsaved = now
		a.log.Error("positions can't be stored; trying again", "err", err)
	case err == nil && !w.unsaved.IsZero():
		w.unsaved = time.Time{}
		a.log.Info("positions are stored again")
	}
}

// fault returns why sending fails.
func (a *Agent) fault() string {
	var all []string
	for _, in := range a.inputs {
		if err := in.fault.Load(); err != nil {
			all = append(all, fmt.Sprintf("%s: %v", in.Name, *err))
		}
	}
	return strings.Join(all, "; ")
}

// Stats returns the numbers as they are now.
func (a *Agent) Stats() Stats {
	s := Stats{
		Lines: a.count.lines.Load(), Acked: a.count.acked.Load(), Resent: a.count.resent.Load(),
		Rotated: a.count.rotated.Load(), Truncated: a.count.truncated.Load(), Lost: a.count.lost.Load(),
		SaveErrors: a.count.saveErrors.Load(), LastFailure: a.fault(),
	}
	for _, in := range a.inputs {
		in.stats(&s)
	}
	s.Read = s.Acked + s.InFlight
	slices.Sort(s.Unreadable)
	return s
}
