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
	if string(key) == "null" {
		return TxNone
	}
	parts := bytes.Split(key, []byte(":"))
	switch {
	case len(parts) == 3 && string(parts[0]) == "TX":
		if _, ok := parseInt32(parts[2]); ok {
			return TxLocal
		}
	case len(parts) == 5 && string(parts[0]) == "XID":
		if _, ok := parseInt32(parts[1]); ok && isHex(parts[2]) && isHex(parts[3]) {
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
