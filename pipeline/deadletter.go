package pipeline

import "time"

// DeadLetter is a tuple that could not be processed, with everything needed to find out why and to send it again. It is
// what a Sink in Config.DeadLetters receives; its fields encode well as JSON.
type DeadLetter struct {
	Time     time.Time `json:"time"`
	Topology string    `json:"topology"`
	Stage    string    `json:"stage"`           // where it failed
	Origin   Origin    `json:"origin"`          // where the source tuple came from
	Attempts int       `json:"attempts"`        // how often it was tried
	Cause    string    `json:"cause"`           // text of Err
	Stack    string    `json:"stack,omitempty"` // of a panic
	// Value is what the failing stage was given: the bytes of a string or []byte, else the value's own text or JSON
	// encoding, else Go's %+v.
	Value []byte `json:"value"`
	Err   error  `json:"-"`
}
