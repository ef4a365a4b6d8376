package tail4go

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"time"
)

const (
	firstBackoff = 100 * time.Millisecond
	lastBackoff  = 10 * time.Second
	retryLines   = 1024 // sent again at a time
)

// backoff is the pause between tries, longer each time, with jitter so that many files don't try at once.
type backoff struct {
	pause time.Duration
	until time.Time
}

func (b *backoff) fail(now time.Time) {
	b.pause = min(max(2*b.pause, firstBackoff), lastBackoff)
	b.until = now.Add(b.pause/2 + rand.N(b.pause))
}

// retry is what a file does about lines that could not be sent. Nothing new of it is sent in the meantime, so that later
// lines don't get further ahead of the failed ones than they are.
type retry struct {
	backoff
	on     bool
	probed int64 // where the line begins that was sent again first
}

// catchUp sends lines again that failed, when everything on its way has been answered and the pause is over: first one of
// them, and if it gets through, the others in order.
func (in *input) catchUp(ctx context.Context, f *file, now time.Time) error {
	list, unanswered := f.win.failures(retryLines)
	r := &f.retry
	switch {
	case unanswered:
		f.due = now.Add(in.floor())
		return nil
	case len(list) == 0:
		*r = retry{}
		f.due = now
		return nil
	case !r.on || list[0].from.at == r.probed:
		r.on, r.probed = true, -1
		r.fail(now)
		f.due = r.until
		return nil
	case now.Before(r.until):
		f.due = r.until
		return nil
	case r.probed < 0:
		list = list[:1]
	}
	r.probed = list[0].from.at
	f.due = now.Add(in.floor())
	for _, l := range list {
		if err := in.resend(ctx, f, l); err != nil {
			return err
		}
	}
	return nil
}

// drain sends lines again that failed, until none are left or ctx ends; the reader has ended.
func (in *input) drain(ctx context.Context) error {
	for {
		now := time.Now()
		var next time.Time
		for _, f := range in.list() {
			failed := f.win.failed.Load() > 0
			if f.handle == nil || !failed && !f.retry.on {
				continue
			}
			if !f.due.After(now) || !f.retry.on {
				if err := in.catchUp(ctx, f, now); err != nil {
					return err
				}
			}
			if next.IsZero() || f.due.Before(next) {
				next = f.due
			}
		}
		if next.IsZero() || !in.sleep(ctx, next) {
			return ctx.Err()
		}
	}
}

// resend sends a line again. The file is where it is kept.
func (in *input) resend(ctx context.Context, f *file, l failure) error {
	n := int(l.to.at - l.from.at)
	b, err := in.load(f.handle, l.from.at, n)
	if err != nil {
		return err
	}
	if len(b) < n {
		in.lose(f, l)
		return nil
	}
	if line, ok := bytes.CutSuffix(b, []byte("\n")); ok {
		b = in.trim(line)
	}
	answer := l.retry()
	if err := in.sender.SendAsync(ctx, in.message(f, b, l.from, l.to, int64(l.tag)), answer); err != nil {
		l.refused()
		return fmt.Errorf("send a line of %s at %d again: %w", f.path, l.from.at, err)
	}
	in.count.resent.Add(1)
	return nil
}

// lose passes a line that failed and is not in its file any more.
func (in *input) lose(f *file, l failure) {
	n := l.to.at - l.from.at
	in.count.lost.Add(n)
	in.log.Error("line was not acknowledged, and the file was cut off before it could be sent again",
		"path", f.path, "pos", l.from.at, "lost_bytes", n)
	l.giveUp()
}
