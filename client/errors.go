package client

import (
	"errors"
	"fmt"
	"slices"
	"strings"
)

// Errors that callers decide by.
var (
	// ErrClosed means that the client, producer or consumer was closed.
	ErrClosed = errors.New("client is closed")
	// ErrNoBroker means that no broker could be reached: nothing was sent.
	ErrNoBroker = errors.New("no broker can be reached")
	// ErrTimeout means that the time for a message was up before it could be sent: it is not stored.
	ErrTimeout = errors.New("message could not be sent in time")
	// ErrUnknown means that the connection was lost after a message was sent and before it was acknowledged, or that the
	// broker's answer made no sense: it may be stored or not. Sending it again may double it.
	ErrUnknown = errors.New("connection lost before the acknowledgement: the message may be stored or not")
	// ErrTooLong means that a message is bigger than the producer's bound of bytes in flight or Config.MaxMessage allows. What
	// is too long for a broker it refuses with a *protocol.StatusError.
	ErrTooLong = errors.New("message is too long")
)

// groupChars are the characters that MetaQ's clients refuse in the name of a group (protocol.md 2.10).
const groupChars = "~!#$%^&*()+=`'\",;/?[]<>.: "

// validName checks a topic or group for what the protocol can carry.
func validName(kind, name string) error {
	if name == "" {
		return fmt.Errorf("no %s given", kind)
	}
	for _, c := range []byte(name) {
		if c <= ' ' || c >= 0x7f || kind == "group" && strings.IndexByte(groupChars, c) >= 0 {
			not := "spaces"
			if kind == "group" {
				not = groupChars
			}
			return fmt.Errorf("%s %q: must be printable ASCII without %s", kind, name, not)
		}
	}
	return nil
}

func sortPartitions(parts []Partition) {
	slices.SortFunc(parts, Partition.compare)
}
