package demo

import (
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/schollz/progressbar/v3"
)

// startProgress shows on a terminal how far the records have come, until the function it returns is called. Without a
// terminal it does nothing.
func startProgress(w io.Writer, f *flow) (stop func()) {
	if w == nil {
		return func() {}
	}
	bar := progressbar.NewOptions64(int64(f.cfg.Time/time.Millisecond),
		progressbar.OptionSetWriter(w), progressbar.OptionSetWidth(20), progressbar.OptionClearOnFinish(),
		progressbar.OptionSetPredictTime(false), progressbar.OptionSetElapsedTime(false), progressbar.OptionShowDescriptionAtLineEnd(),
		progressbar.OptionUseANSICodes(true))
	done := make(chan struct{})
	var group sync.WaitGroup
	group.Go(func() {
		tick := time.NewTicker(200 * time.Millisecond)
		defer tick.Stop()
		for {
			select {
			case <-done:
				_ = bar.Finish()
				return
			case <-tick.C:
				bar.Describe(f.status())
				_ = bar.Set64(min(time.Since(f.began), f.cfg.Time).Milliseconds())
			}
		}
	})
	return func() { close(done); group.Wait() }
}

// status is one line about where the records are.
func (f *flow) status() string {
	written := ""
	if f.app != nil {
		lines, _, rotations := f.app.log.written()
		written = fmt.Sprintf("written %d (%d files) → ", lines, rotations+1)
	}
	least := f.seen[0].count()
	for i := range f.seen {
		least = min(least, f.seen[i].count())
	}
	return fmt.Sprintf("%stopic %d → SQLite %d, Parquet %d, broadcast %d×%d, alerts %d", written, f.agent.Stats().Lines,
		f.rows.count(), f.files.count(), members, least, f.alerts.count())
}
