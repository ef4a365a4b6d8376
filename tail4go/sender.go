package tail4go

import (
	"context"
	"errors"

	"github.com/metaq-go/metaq/client"
)

// Sender takes the lines: *client.Producer is one. A line that it fails is sent again by the agent, after those that were sent
// meanwhile; so for lines in order it should not fail any that it can still send itself: give a producer Resend and a Timeout
// of days, and Abort it when Run has ended.
type Sender interface {
	// SendAsync copies what it needs of m before it returns, and waits while too many bytes are on their way: that bounds
	// the agent's memory. If it returns nil, done is called exactly once, by any goroutine or within SendAsync, with m.Tag in
	// the Result also when there is an error; if it returns an error, done is not called. done never blocks.
	SendAsync(ctx context.Context, m *client.Message, done func(client.Result, error)) error
	// Flush waits until everything that was sent before has been answered.
	Flush(ctx context.Context) error
}

var _ Sender = (*client.Producer)(nil)

// Errors of Open that callers decide by.
var (
	// ErrLocked means that another agent uses the state directory.
	ErrLocked = errors.New("state directory is in use by another agent")
	// ErrDamaged means that no stored position can be trusted. Open changes nothing then: starting from scratch would send
	// whole files again, which only a person may decide.
	ErrDamaged = errors.New("stored positions are damaged")
)
