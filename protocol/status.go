package protocol

import (
	"fmt"
	"strconv"
)

// Code is the status of a result line (protocol.md 9).
type Code int32

// Status codes as MetaQ uses them.
const (
	OK          Code = 200
	Moved       Code = 301 // get: the body is the offset to continue from
	BadRequest  Code = 400
	Forbidden   Code = 403 // the partition is closed
	NotFound    Code = 404 // no such partition, or nothing at the offset
	ServerError Code = 500
	Unavailable Code = 503
)

// StatusError is a result other than 200: what the broker answered, code and text.
type StatusError struct {
	Code Code
	Text string // as the broker sent it; may be empty
}

// Error returns the broker's text with its code.
func (e *StatusError) Error() string {
	if e.Text == "" {
		return "status " + strconv.Itoa(int(e.Code))
	}
	return fmt.Sprintf("status %d: %s", e.Code, e.Text)
}
