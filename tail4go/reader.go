package tail4go

import (
	"context"
	"errors"
	"time"

	"github.com/metaq-go/metaq/client"
)

const (
	// busyShare is how many times as often as PollInterval a file is looked at while it grows.
	busyShare = 50
	// perBusy is the least time between two looks at a growing file, for each of them: it bounds what thousands cost.
	perBusy = 50 * time.Microsecond
	// dormantAfter so many PollIntervals without growth the scanner alone watches a file, if there are more than a few.
	dormantAfter = 10
	fewFiles     = 100

	dormant   = 24 * time.Hour // until it is stirred
	longSleep = time.Minute
)

// reader sends the lines of the input's files until ctx ends; it returns an error if the sender was closed.
func (in *input) reader(ctx context.Context) error {
	for {
		next, err := in.read(ctx)
		switch {
		case ctx.Err() != nil:
			return nil
		case errors.Is(err, client.ErrClosed):
			return err
		case err != nil:
			in.failed(err)
			in.pause.fail(time.Now())
			for time.Now().Before(in.pause.until) {
				if !in.sleep(ctx, in.pause.until) {
					return nil
				}
			}
		default:
			in.pause = backoff{}
			if time.Now().Before(next) && !in.sleep(ctx, next) {
				return nil
			}
		}
	}
}

// read gives each file that is due its turn, and returns when the next one is.
func (in *input) read(ctx context.Context) (next time.Time, err error) {
	now := time.Now()
	later := now.Add(longSleep)
	next = later
	files, word := in.start()
	busy, failing, quiet := 0, false, true
	for _, f := range files {
		failed := f.win.failed.Load() > 0
		if f.stirred.CompareAndSwap(true, false) || failed && !f.retry.on || word.flushed && f.scanned > 0 {
			f.due = now
		}
		if !f.due.After(now) {
			if err := in.turn(ctx, f, now); err != nil {
				return now, err
			}
		}
		if f.due.Before(later) {
			busy++
		}
		if f.due.Before(next) {
			next = f.due
		}
		failing = failing || failed || f.retry.on
		quiet = quiet && f.quiet
	}
	in.busy = busy
	if !failing {
		in.fault.Store(nil)
	}
	if quiet {
		in.settled.Store(&word)
	}
	return next, nil
}

// start returns the files there are, and the word to give if the reader is at the end of all of them.
func (in *input) start() ([]*file, settled) {
	in.mu.Lock()
	defer in.mu.Unlock()
	return in.files, settled{changes: in.changes, flushed: in.flush.Load()}
}

// between returns the pause between two looks at a file that has been quiet for a while: a quarter of that time. Who writes
// often is looked at often, but thousands of files not all the time.
func (in *input) between(quiet time.Duration, files int) time.Duration {
	least := max(in.cfg.PollInterval/busyShare, time.Duration(files)*perBusy)
	return min(max(quiet/4, least), in.cfg.PollInterval)
}

// floor is the reader's shortest pause between two looks at a file.
func (in *input) floor() time.Duration { return in.between(0, in.busy) }

// turn does for a file what can be done now, and sets when its next turn is.
func (in *input) turn(ctx context.Context, f *file, now time.Time) error {
	f.quiet = false
	if f.handle == nil {
		in.lastLife(f, now)
		return nil
	}
	if f.prev != nil {
		if !f.prev.over() {
			f.due = now.Add(in.floor())
			return nil
		}
		f.prev = nil
	}
	err := in.step(ctx, f, now)
	if errors.Is(err, errRead) {
		if !f.unreadable {
			in.log.Error("file can't be read; trying again", "path", f.path, "err", err)
		}
		f.unreadable = true
		f.due = now.Add(in.cfg.PollInterval)
		return nil
	}
	f.unreadable = false
	return err
}

func (in *input) step(ctx context.Context, f *file, now time.Time) error {
	if f.retry.on || f.win.failed.Load() > 0 {
		return in.catchUp(ctx, f, now)
	}
	grew, end, err := in.pump(ctx, f)
	if grew {
		in.grown(f, now)
	}
	switch {
	case err != nil:
		return err
	case !end:
		f.due = now
		return nil
	}
	return in.atEnd(ctx, f, now)
}

// grown notes that a file had something new.
func (in *input) grown(f *file, now time.Time) {
	f.grew = now
	var head digest
	if f.head.N < headBytes {
		head, _ = digestOf(f.handle, 0, headBytes) // a failure leaves it shorter than it could be
	}
	in.mu.Lock()
	defer in.mu.Unlock()
	in.news = now
	f.ended = false
	if head.N > f.head.N {
		f.head = head
	}
}

// atEnd decides about a file of which everything was read.
func (in *input) atEnd(ctx context.Context, f *file, now time.Time) error {
	size, links, err := f.measure()
	if err != nil {
		return err
	}
	if size < f.pos.at {
		in.cutOff(f, size, links)
		f.due = now
		return nil
	}
	f.scanned = min(f.scanned, size-f.pos.at)
	if size > f.pos.at+f.scanned {
		f.due = now
		return nil
	}
	left, passed := in.measured(f, size, links, now)
	gone := !left.IsZero()
	if gone && !f.ended {
		switch ended, err := in.hasEnded(f, size, left, now); {
		case err != nil:
			return err
		case ended:
			if err := in.sendPartial(ctx, f); err != nil {
				return err
			}
			in.end(f)
		}
	}
	late := in.cfg.PartialAfter > 0 && now.Sub(f.grew) >= in.cfg.PartialAfter || in.flush.Load()
	if f.scanned > 0 && late {
		if err := in.sendPartial(ctx, f); err != nil {
			return err
		}
	}
	f.quiet = !gone || f.ended
	if f.ended && passed && f.over() {
		in.release(f, now)
		return nil
	}
	in.rest(f, now, f.quiet && !passed)
	return nil
}

// rest sets when a file at its end is looked at again.
func (in *input) rest(f *file, now time.Time, mayDoze bool) {
	f.win.rest()
	waits := f.scanned > 0 && in.cfg.PartialAfter > 0
	if mayDoze && !waits && now.Sub(f.grew) > dormantAfter*in.cfg.PollInterval && len(in.list()) > fewFiles {
		f.due = now.Add(dormant)
		return
	}
	f.due = now.Add(in.between(now.Sub(f.grew), in.busy))
}

// hasEnded reports whether a file without its name gets no more bytes: nobody has it open for writing, or it has not grown for
// the rotate wait.
func (in *input) hasEnded(f *file, size int64, left, now time.Time) (bool, error) {
	since := left
	if f.grew.After(since) {
		since = f.grew
	}
	if now.Sub(since) >= in.cfg.RotateWait {
		return true, nil
	}
	if !noWriter(f.handle) {
		return false, nil
	}
	// What the last writer wrote may have come after the last look.
	again, _, err := f.measure()
	return again == size, err
}
