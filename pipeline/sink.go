package pipeline

import (
	"context"
	"errors"
)

// Sink is where tuples end. It is written by one goroutine. Batching, retrying and the answer to the source are the topology's work.
//
// A Sink may have two more methods, looked for once when the topology is built:
//
//	Name() string     // the name of its stage; default: the stage before it and ".sink"
//	Size(v T) int     // bytes of a tuple for BatchBytes; default: Size() int of T or *T, or the length of a string or []byte
type Sink[T any] interface {
	// Write stores all of batch before it returns nil; then the tuples are acknowledged to their source. After an
	// error, or after a crash, it is called again with the same tuples, so what was stored before the error must not do harm:
	// keys that replace, or all or nothing. Tuples come in order, batch is never empty, and it must be
	// neither kept nor changed; the values in it may be kept.
	//
	// An error is waited out: the same batch is written again, with growing pauses, until it succeeds or the topology has
	// to stop. An error that waiting can't cure must be wrapped by Permanent: the batch is then halved until the tuple that
	// causes it is found, that one goes to the dead letters, and the others are stored.
	//
	// ctx ends when the drain deadline has passed.
	Write(ctx context.Context, batch []T) error
	// Close is called exactly once, after the last Write. Whatever Write stored is acknowledged by then.
	// ctx ends with the drain deadline, though not before 5 seconds have passed.
	Close(ctx context.Context) error
}

// Permanent marks an error that will come again however often the tuple is tried: a value a column can't hold, a line that
// is no JSON. Sinks and bolts return it; the tuple is not tried again but goes to the dead letters, and without
// Config.DeadLetters it ends Run. Permanent(nil) is nil.
//
// An error counts as permanent if it, or one it wraps, has a method Permanent() bool that returns true.
func Permanent(err error) error {
	if err == nil {
		return nil
	}
	return &permanentError{err}
}

type permanentError struct{ err error }

func (e *permanentError) Error() string { return e.err.Error() }
func (e *permanentError) Unwrap() error { return e.err }

// Permanent lets other packages recognise the error by its method.
func (e *permanentError) Permanent() bool { return true }

func isPermanent(err error) bool {
	var p interface{ Permanent() bool }
	return errors.As(err, &p) && p.Permanent()
}
