package protocol

import "math"

// parseInt reads a decimal number as the original does: an optional sign, then digits; leading zeros are fine. ok is
// false for anything else and for what does not fit into an int64.
func parseInt(b []byte) (n int64, ok bool) {
	neg := false
	if len(b) > 0 && (b[0] == '-' || b[0] == '+') {
		neg, b = b[0] == '-', b[1:]
	}
	if len(b) == 0 {
		return 0, false
	}
	var u uint64
	for _, c := range b {
		d := c - '0'
		if d > 9 || u > (math.MaxUint64-9)/10 {
			return 0, false
		}
		u = u*10 + uint64(d)
	}
	if neg {
		return -int64(u), u <= 1<<63
	}
	return int64(u), u <= math.MaxInt64
}

// parseInt32 is parseInt for the numbers that are 32 bits wide on the wire: all but offsets and message ids.
func parseInt32(b []byte) (int32, bool) {
	n, ok := parseInt(b)
	return int32(n), ok && n >= math.MinInt32 && n <= math.MaxInt32
}
