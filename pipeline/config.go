package pipeline

import (
	"log/slog"
	"time"
)

// Config sets what concerns a whole topology. The zero Config is usable.
type Config struct {
	// Mode says what is promised about order and about who sees a tuple. Default: Unordered.
	Mode Mode
	// Instances is how many copies run in Broadcast mode, each with its own spout and its own task in every stage.
	// Default 1; it must be 0 or 1 in the other modes.
	Instances int
	// MaxPending is how many tuples of one spout task may be handed out and not done, counted from the lowest that is not
	// done. It bounds memory, and how much comes again after a crash. Default 16384, at most 1<<24.
	MaxPending int
	// Attempts is how often a bolt is given a tuple on which it returns an error or panics. Default 3.
	Attempts int
	// Backoff is the pause before the second attempt of a bolt or the second write of a sink; each further
	// pause is twice as long, up to MaxBackoff. Defaults 100 ms and 30 s.
	Backoff    time.Duration
	MaxBackoff time.Duration
	// DeadLetters gets the tuples that failed for good; they count as done once they are written. Without it such a tuple
	// ends Run with an error and is not acknowledged, so it comes again at the next start.
	DeadLetters Sink[DeadLetter]
	// DrainTimeout is how long after ctx ended Run may complete what is in flight. Default 30 s.
	DrainTimeout time.Duration
	// Logger hears of failures that are being retried. Default: discard.
	Logger *slog.Logger
}

const (
	defaultMaxPending = 16384
	maxMaxPending     = 1 << 24
	defaultAttempts   = 3
	defaultBackoff    = 100 * time.Millisecond
	defaultMaxBackoff = 30 * time.Second
	defaultDrain      = 30 * time.Second
	defaultBatch      = 1000
	closeGrace        = 5 * time.Second
)

func (c Config) withDefaults() Config {
	if c.Instances == 0 {
		c.Instances = 1
	}
	if c.MaxPending == 0 {
		c.MaxPending = defaultMaxPending
	}
	if c.Attempts == 0 {
		c.Attempts = defaultAttempts
	}
	if c.Backoff == 0 {
		c.Backoff = defaultBackoff
	}
	if c.MaxBackoff == 0 {
		c.MaxBackoff = max(defaultMaxBackoff, c.Backoff)
	}
	if c.DrainTimeout == 0 {
		c.DrainTimeout = defaultDrain
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	return c
}

// pause is how long to wait after the given attempt failed.
func (c *Config) pause(attempt int) time.Duration {
	d := c.Backoff
	for i := 1; i < attempt && d < c.MaxBackoff; i++ {
		d *= 2
	}
	return min(d, c.MaxBackoff)
}
