package protocol

import "strconv"

// Response is what a broker answers: a result (code and text) or a value (records).
type Response struct {
	Verb   Verb // VerbResult or VerbValue
	Code   Code // of a result; OK for a value
	Opaque int32
	Body   []byte
}

// AppendTo appends the response as it goes over the wire.
func (p *Response) AppendTo(dst []byte) []byte {
	if p.Verb == VerbValue {
		return append(AppendValueLine(dst, len(p.Body), p.Opaque), p.Body...)
	}
	return AppendResult(dst, p.Code, p.Opaque, p.Body)
}

// Err returns nil for a value and for a result of 200, otherwise the result as a *StatusError.
func (p *Response) Err() error {
	if p.Code == OK {
		return nil
	}
	return &StatusError{Code: p.Code, Text: string(p.Body)}
}

// AppendResult appends a result with its text.
func AppendResult[T ~string | ~[]byte](dst []byte, code Code, opaque int32, text T) []byte {
	dst = appendResultLine(dst, code, len(text), opaque)
	return append(dst, text...)
}

func appendResultLine(dst []byte, code Code, n int, opaque int32) []byte {
	dst = append(dst, "result"...)
	dst = appendInt(dst, int64(code))
	dst = appendInt(dst, int64(n))
	dst = appendInt(dst, int64(opaque))
	return append(dst, '\r', '\n')
}

// AppendValueLine appends the line of a value; exactly n bytes of records must follow it.
func AppendValueLine(dst []byte, n int, opaque int32) []byte {
	dst = append(dst, "value"...)
	dst = appendInt(dst, int64(n))
	dst = appendInt(dst, int64(opaque))
	return append(dst, '\r', '\n')
}

// AppendStored appends the answer to a put or an append that is safe: the (first) id, partition and offset.
func AppendStored(dst []byte, opaque int32, id int64, partition int32, offset int64) []byte {
	var buf [64]byte
	text := strconv.AppendInt(buf[:0], id, 10)
	text = appendInt(text, int64(partition))
	text = appendInt(text, offset)
	return AppendResult(dst, OK, opaque, text)
}

// ParseStored reads the text of such an answer. ok is false if it is not three numbers.
func ParseStored(text []byte) (id int64, partition int32, offset int64, ok bool) {
	f := fieldsOf(text)
	id, partition, offset = f.int64(), f.int32(), f.int64()
	return id, partition, offset, !f.bad && !f.more()
}

// ParseOffset reads the text of a 301 or of the answer to offset.
func ParseOffset(text []byte) (offset int64, ok bool) { return parseInt(text) }
