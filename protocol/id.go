package protocol

import "time"

// Message ids are 64 bits (protocol.md 3.5, storage.md 10):
//
//	63…22  milliseconds since IDEpoch, signed
//	21…12  broker id, 0…1023
//	11…0   sequence within the millisecond
//
// To clients they are opaque and may be negative: MetaQ in Java takes the time from a clock that starts at boot.
const (
	// IDEpoch is 2011-04-27 09:14:20.503 UTC in Unix milliseconds.
	IDEpoch = 1303895660503
	// MaxBrokerID is the largest broker id that fits into a message id.
	MaxBrokerID = 1<<idBrokerBits - 1

	idSeqBits    = 12
	idBrokerBits = 10
	idTimeShift  = idSeqBits + idBrokerBits
	idSeqMask    = 1<<idSeqBits - 1
)

// MakeID composes a message id. seq is taken modulo 4096.
func MakeID(unixMilli int64, broker, seq int) int64 {
	return (unixMilli-IDEpoch)<<idTimeShift | int64(broker&MaxBrokerID)<<idSeqBits | int64(seq&idSeqMask)
}

// NextID returns the id after id in the order in which a broker gives them out: the next sequence number, and after the
// last one of a millisecond the first of the following. Knowing the first id of a batch thus means knowing all of them.
func NextID(id int64) int64 {
	if id&idSeqMask != idSeqMask {
		return id + 1
	}
	return id - idSeqMask + 1<<idTimeShift
}

// IDAfter returns the id that follows id after n steps of [NextID].
func IDAfter(id int64, n int) int64 {
	seq := id&idSeqMask + int64(n)
	return id&^idSeqMask + seq>>idSeqBits<<idTimeShift | seq&idSeqMask
}

// IDTime returns when the broker gave out id, to the millisecond. It is meaningful for ids made from the wall clock
// (metaq's), not for those of MetaQ in Java.
func IDTime(id int64) time.Time {
	return time.UnixMilli(id>>idTimeShift + IDEpoch)
}

// IDBroker returns the broker id within id.
func IDBroker(id int64) int { return int(id >> idSeqBits & MaxBrokerID) }
