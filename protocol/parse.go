package protocol

// verbOf finds the verb of that name, VerbNone if there is none. Words that merely begin
// like version or quit, which the original takes for them, are refused.
func verbOf(word []byte) Verb {
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

// parseRequest fills q from the fields behind the verb. How many there must be is said in protocol.md 2.2 and 2.3: put
// and append take no others, elsewhere further fields are ignored.
func parseRequest(q *Request, f *fields) error {
	switch q.Verb {
	case VerbPut, VerbAppend: // the reader had to look at these before the body
		if q.Verb == VerbPut {
			parsePutEnd(q, f)
		} else {
			q.Count, q.Opaque = f.int32(), f.int32()
			f.bad = f.bad || q.Count < 0
		}
		f.bad = f.bad || f.more()
	case VerbGet, VerbPoll, VerbOffset:
		q.Topic, q.Group, q.Partition, q.Offset = f.name(), f.name(), f.int32(), f.int64()
		if q.Verb != VerbOffset {
			q.MaxSize = f.int32()
		}
		if q.Verb == VerbPoll {
			q.Wait = f.int32()
		}
		q.Opaque = f.int32()
	case VerbVersion:
		q.Opaque = opaqueOr(f, NoOpaque)
	case VerbStats, VerbTopics:
		var word []byte
		if f.more() {
			word = f.word()
		}
		if q.Opaque = opaqueOr(f, NoOpaque); q.Verb == VerbStats {
			q.Item = word
		} else {
			q.Topic = word
		}
	case VerbQuit:
	default:
		f.bad = true
	}
	return f.err()
}

// parseHead takes the fields of put and append up to the length of the body.
func parseHead(q *Request, f *fields) (length int32, ok bool) {
	q.Topic, q.Partition = f.name(), f.int32()
	bad := f.bad
	f.bad = false
	length = f.int32()
	ok = !f.bad && length >= 0
	f.bad = f.bad || bad
	return length, ok
}

// parsePutEnd takes what follows the length in the four forms of a put (protocol.md 4.1).
func parsePutEnd(q *Request, f *fields) {
	q.Flag = f.int32()
	if parsePutPlain(q, f) {
		return
	}
	q.Checksum = NoChecksum
	switch f.left() {
	case 1:
		q.Old = true
	case 2:
		if f.number() {
			q.Checksum = f.int32()
		} else {
			q.Old, q.TxKey = true, f.word()
		}
	case 3:
		q.Checksum, q.TxKey = f.int32(), f.word()
	default:
		f.bad = true
	}
	q.Opaque = f.int32()
	if q.TxKey != nil && TxKeyKind(q.TxKey) == TxInvalid {
		f.bad = true
	}
}

// parsePutPlain takes the form that nearly every put has, checksum and opaque, without counting fields first. It reports
// false, having taken nothing, if this may be another form. What it found bad is bad in the others as well: a
// transaction key does not begin like a number.
func parsePutPlain(q *Request, f *fields) bool {
	start := f.pos
	if !f.number() {
		return false
	}
	if q.Checksum = f.int32(); f.number() {
		if q.Opaque = f.int32(); !f.more() {
			return true
		}
	}
	f.pos = start
	return false
}

// parseResponse reads the line of a response and returns the length of its body.
func parseResponse(p *Response, f *fields) (length int32, err error) {
	*p = Response{Verb: verbOf(f.word())}
	switch p.Verb {
	case VerbResult:
		p.Code, length, p.Opaque = Code(f.int32()), f.int32(), f.int32()
	case VerbValue:
		p.Code, length, p.Opaque = OK, f.int32(), f.int32()
	default:
		f.bad = true
	}
	f.bad = f.bad || length < 0
	return length, f.err()
}

// opaqueOr takes an opaque that may be left out.
func opaqueOr(f *fields, none int32) int32 {
	if !f.more() {
		return none
	}
	return f.int32()
}
