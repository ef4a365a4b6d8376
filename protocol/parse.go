package protocol

import "fmt"

// requestVerb finds the verb of a line's first field, VerbNone if there is none of that name. Words that merely begin
// like version or quit, which the original takes for them, are refused.
func requestVerb(word []byte) Verb {
	switch string(word) { // no allocation: the compiler compares in place
	case "put":
		return VerbPut
	case "append":
		return VerbAppend
	case "get":
		return VerbGet
	case "poll":
		return VerbPoll
	case "offset":
		return VerbOffset
	case "version":
		return VerbVersion
	case "stats":
		return VerbStats
	case "topics":
		return VerbTopics
	case "quit":
		return VerbQuit
	case "result":
		return VerbResult
	case "value":
		return VerbValue
	}
	return VerbNone
}

// parseRequest fills q from the fields of its line. Numbers of fields are those of protocol.md 2.2 and 2.3: put and
// append take no others, elsewhere further fields are ignored.
func parseRequest(q *Request, f [][]byte) error {
	ok := false
	switch q.Verb {
	case VerbPut:
		ok = parsePut(q, f)
	case VerbAppend:
		ok = len(f) == 6 && names(&q.Topic, f[1]) && ints(&q.Partition, f[2]) && ints(&q.Count, f[4]) &&
			ints(&q.Opaque, f[5]) && q.Count >= 0
	case VerbGet:
		ok = len(f) >= 7 && parseRead(q, f) && ints(&q.MaxSize, f[5]) && ints(&q.Opaque, f[6])
	case VerbPoll:
		ok = len(f) >= 8 && parseRead(q, f) && ints(&q.MaxSize, f[5]) && ints(&q.Wait, f[6]) && ints(&q.Opaque, f[7])
	case VerbOffset:
		ok = len(f) >= 6 && parseRead(q, f) && ints(&q.Opaque, f[5])
	case VerbVersion:
		q.Opaque = NoOpaque
		ok = len(f) < 2 || ints(&q.Opaque, f[1])
	case VerbStats:
		ok = parseItem(q, &q.Item, f)
	case VerbTopics:
		ok = parseItem(q, &q.Topic, f)
	case VerbQuit:
		ok = true
	default:
		return fmt.Errorf("%w: unknown verb %.20q", ErrSyntax, f[0])
	}
	if !ok {
		return fmt.Errorf("%w: %s with %d fields", ErrSyntax, q.Verb, len(f))
	}
	return nil
}

// parsePut reads the four forms of a put (protocol.md 4.1).
func parsePut(q *Request, f [][]byte) bool {
	if len(f) < 6 || len(f) > 8 {
		return false
	}
	q.Checksum = NoChecksum
	switch tail := f[5 : len(f)-1]; {
	case len(tail) == 0:
		q.Old = true
	case len(tail) == 1 && !numeric(tail[0]):
		q.Old, q.TxKey = true, tail[0]
	default:
		if !ints(&q.Checksum, tail[0]) {
			return false
		}
		if len(tail) == 2 {
			q.TxKey = tail[1]
		}
	}
	if q.TxKey != nil && TxKeyKind(q.TxKey) == TxInvalid {
		return false
	}
	return names(&q.Topic, f[1]) && ints(&q.Partition, f[2]) && ints(&q.Flag, f[4]) && ints(&q.Opaque, f[len(f)-1])
}

// parseRead reads what get, poll and offset begin with.
func parseRead(q *Request, f [][]byte) bool {
	var ok bool
	q.Offset, ok = parseInt(f[4])
	return ok && names(&q.Topic, f[1]) && names(&q.Group, f[2]) && ints(&q.Partition, f[3])
}

// parseItem reads a line of a verb, an optional word that may be empty, and an optional opaque.
func parseItem(q *Request, word *[]byte, f [][]byte) bool {
	q.Opaque = NoOpaque
	if len(f) > 1 {
		*word = f[1]
	}
	return len(f) < 3 || ints(&q.Opaque, f[2])
}

// parseResponse reads the line of a response and returns the length of its body.
func parseResponse(p *Response, f [][]byte) (length int32, err error) {
	*p = Response{Verb: requestVerb(f[0])}
	ok := false
	switch p.Verb {
	case VerbResult:
		ok = len(f) >= 4 && ints((*int32)(&p.Code), f[1]) && ints(&length, f[2]) && ints(&p.Opaque, f[3])
	case VerbValue:
		p.Code = OK
		ok = len(f) >= 3 && ints(&length, f[1]) && ints(&p.Opaque, f[2])
	default:
		return 0, fmt.Errorf("%w: %.20q is no response", ErrSyntax, f[0])
	}
	if !ok || length < 0 {
		return 0, fmt.Errorf("%w: %s with %d fields", ErrSyntax, p.Verb, len(f))
	}
	return length, nil
}

func ints(dst *int32, field []byte) (ok bool) {
	*dst, ok = parseInt32(field)
	return ok
}

// names takes a topic or group. Empty ones come from a double space, which shifts the fields.
func names(dst *[]byte, field []byte) bool {
	*dst = field
	return len(field) > 0
}

// numeric tells a checksum from a transaction key in the seven-field form of put.
func numeric(field []byte) bool {
	return len(field) > 0 && (field[0] == '-' || field[0] >= '0' && field[0] <= '9')
}
