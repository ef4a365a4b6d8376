package protocol

import "strconv"

// Verb is the first word of a line.
type Verb uint8

// Verbs. Those from VerbAppend to VerbTopics are metaq's extensions: send them only to a broker whose [Extensions] name
// them.
const (
	VerbNone Verb = iota
	VerbPut
	VerbGet
	VerbOffset
	VerbVersion
	VerbStats
	VerbQuit
	VerbAppend
	VerbPoll
	VerbTopics
	VerbResult // of a response
	VerbValue  // of a response
)

var verbNames = [...]string{
	"none", "put", "get", "offset", "version", "stats", "quit", "append", "poll", "topics", "result", "value",
}

// String returns the word on the wire.
func (v Verb) String() string {
	if int(v) < len(verbNames) {
		return verbNames[v]
	}
	return "verb " + strconv.Itoa(int(v))
}

// NoOpaque is the opaque of the answer to a request that gave none, which version, stats and topics may do
// (protocol.md 2.5).
const NoOpaque = 1<<31 - 1

// MaxOffset in a get or poll asks for the end of the partition: the answer is a 301 with it (protocol.md 4.2).
const MaxOffset = 1<<63 - 1

// Request is any request; which fields mean something depends on the verb. The slices of a decoded request alias the
// reader's buffer and are valid until its next call.
type Request struct {
	Verb      Verb
	Topic     []byte
	Group     []byte // get, offset, poll
	Partition int32  // -1 in put and append: the broker chooses
	Offset    int64  // get, offset, poll
	MaxSize   int32  // get, poll: bytes wanted
	Wait      int32  // poll: milliseconds to wait for data
	Flag      int32  // put
	Checksum  int32  // put: of the body, or NoChecksum
	Old       bool   // put: the line of clients before 1.4.4, without a checksum field
	TxKey     []byte // put: nil outside a transaction
	Count     int32  // append: number of records in the body
	Item      []byte // stats
	Opaque    int32  // comes back in the response
	Body      []byte // put, append
	// TooLong is the announced length of a body beyond Limits.Body, which was skipped and is not in Body; 0 otherwise.
	TooLong int32
}

// AppendTo appends the request as it goes over the wire. The body of a verb that has none is left out. Topic, Group,
// Item and TxKey go as they are: names must be free of spaces, CR and LF and not be empty (protocol.md 2.10), or the peer
// reads another request than was meant.
func (q *Request) AppendTo(dst []byte) []byte {
	dst = q.AppendLine(dst)
	if q.Verb == VerbPut || q.Verb == VerbAppend {
		dst = append(dst, q.Body...)
	}
	return dst
}

// AppendLine appends the request without its body, for a sender that hands the body to its socket apart.
func (q *Request) AppendLine(dst []byte) []byte {
	dst = append(dst, q.Verb.String()...)
	switch q.Verb {
	case VerbPut:
		return q.appendPut(dst)
	case VerbAppend:
		dst = appendField(dst, q.Topic)
		dst = appendInt(dst, int64(q.Partition))
		dst = appendInt(dst, int64(len(q.Body)))
		dst = appendInt(dst, int64(q.Count))
	case VerbGet, VerbPoll, VerbOffset:
		dst = appendField(dst, q.Topic)
		dst = appendField(dst, q.Group)
		dst = appendInt(dst, int64(q.Partition))
		dst = appendInt(dst, q.Offset)
		if q.Verb != VerbOffset {
			dst = appendInt(dst, int64(q.MaxSize))
		}
		if q.Verb == VerbPoll {
			dst = appendInt(dst, int64(q.Wait))
		}
	case VerbStats:
		dst = appendField(dst, q.Item)
	case VerbTopics:
		dst = appendField(dst, q.Topic)
	case VerbQuit:
		return append(dst, '\r', '\n')
	}
	dst = appendInt(dst, int64(q.Opaque))
	return append(dst, '\r', '\n')
}

func (q *Request) appendPut(dst []byte) []byte {
	dst = appendField(dst, q.Topic)
	dst = appendInt(dst, int64(q.Partition))
	dst = appendInt(dst, int64(len(q.Body)))
	dst = appendInt(dst, int64(q.Flag))
	if !q.Old {
		dst = appendInt(dst, int64(q.Checksum))
	}
	if q.TxKey != nil {
		dst = appendField(dst, q.TxKey)
	}
	dst = appendInt(dst, int64(q.Opaque))
	return append(dst, '\r', '\n')
}

func appendField(dst, field []byte) []byte {
	dst = append(dst, ' ')
	return append(dst, field...)
}

func appendInt(dst []byte, n int64) []byte {
	dst = append(dst, ' ')
	return strconv.AppendInt(dst, n, 10)
}
