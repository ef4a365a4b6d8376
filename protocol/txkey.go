package protocol

import "bytes"

// TxKind tells local from distributed transactions.
type TxKind uint8

// Kinds of transaction key (protocol.md 6.1).
const (
	TxInvalid TxKind = iota
	TxNone           // null
	TxLocal          // TX:session:number
	TxXA             // XID:format:global:branch:qualifier
)

// TxKeyKind classifies a transaction key and returns TxInvalid if it is none. A line with an invalid key closes its
// connection.
func TxKeyKind(key []byte) TxKind {
	colon := []byte{':'}
	kind, rest, more := bytes.Cut(key, colon)
	switch string(kind) {
	case "null":
		if !more {
			return TxNone
		}
	case "TX":
		_, number, _ := bytes.Cut(rest, colon)
		if _, ok := parseInt32(number); ok { // no number has a colon in it
			return TxLocal
		}
	case "XID":
		format, rest, _ := bytes.Cut(rest, colon)
		global, rest, _ := bytes.Cut(rest, colon)
		branch, qualifier, four := bytes.Cut(rest, colon)
		if _, ok := parseInt32(format); ok && four && isHex(global) && isHex(branch) && bytes.IndexByte(qualifier, ':') < 0 {
			return TxXA
		}
	}
	return TxInvalid
}

// isHex reports whether b is hex digits in either case; an odd last one is ignored, as in the original.
func isHex(b []byte) bool {
	for _, c := range b[:len(b)&^1] {
		if (c < '0' || c > '9') && (c < 'a' || c > 'f') && (c < 'A' || c > 'F') {
			return false
		}
	}
	return true
}
