package protocol_test

import (
	"slices"
	"strconv"
	"strings"

	"github.com/metaq-go/metaq/protocol"
)

// reference decodes a stream of requests in the plainest way that follows protocol.md 2.2 to 2.5 and 4.1 word by word,
// with the default limits on bodies and none on lines: what the Reader is compared with.
func reference(data string) (requests []string, end error) {
	for {
		line, rest, found := strings.Cut(data, "\r\n")
		if !found {
			return requests, errDry
		}
		f := strings.Split(line, " ")
		for len(f) > 0 && f[len(f)-1] == "" {
			f = f[:len(f)-1]
		}
		if len(f) == 0 {
			return requests, protocol.ErrSyntax
		}
		q, length, ok := referenceLine(f)
		switch {
		case length > 64<<20 && !isResponse(f[0]):
			return requests, protocol.ErrBodyTooLong
		case length < 0, !ok && length > 16<<20:
			return requests, protocol.ErrSyntax
		case !ok && isResponse(f[0]):
			return requests, protocol.ErrSyntax
		case len(rest) < length:
			return requests, errDry
		case !ok:
			return requests, protocol.ErrSyntax
		}
		if length > 16<<20 {
			q.TooLong = int32(length)
		} else if q.Verb == protocol.VerbPut || q.Verb == protocol.VerbAppend {
			q.Body = []byte(rest[:length])
		}
		if !isResponse(f[0]) {
			requests = append(requests, words(&q))
		}
		data = rest[length:]
	}
}

func isResponse(verb string) bool { return verb == "result" || verb == "value" }

// num reads field i as a number of some bits.
func num(f []string, i, bits int, ok *bool) int64 {
	if i >= len(f) {
		*ok = false
		return 0
	}
	n, err := strconv.ParseInt(f[i], 10, bits)
	*ok = *ok && err == nil
	return n
}

// referenceLine reads the fields of one line. A length of -1 says that the line is bad whatever follows it.
func referenceLine(f []string) (q protocol.Request, length int, ok bool) {
	ok = true
	i32 := func(i int) int32 { return int32(num(f, i, 32, &ok)) }
	text := func(i int) []byte {
		if i >= len(f) || f[i] == "" {
			ok = false
			return nil
		}
		return []byte(f[i])
	}
	lengthAt := func(i int) int {
		good := true
		n := num(f, i, 32, &good)
		if !good || n < 0 {
			return -1
		}
		return int(n)
	}
	switch f[0] {
	case "put":
		q.Verb, q.Topic, q.Partition, length = protocol.VerbPut, text(1), i32(2), lengthAt(3)
		q.Flag = i32(4)
		ok = referencePut(&q, f) && ok
	case "append":
		q.Verb, q.Topic, q.Partition, length = protocol.VerbAppend, text(1), i32(2), lengthAt(3)
		q.Count, q.Opaque = i32(4), i32(5)
		ok = ok && len(f) == 6 && q.Count >= 0
	case "get", "poll", "offset":
		q.Verb, q.Topic, q.Group, q.Partition = protocol.VerbOffset, text(1), text(2), i32(3)
		q.Offset = num(f, 4, 64, &ok)
		switch f[0] {
		case "get":
			q.Verb, q.MaxSize, q.Opaque = protocol.VerbGet, i32(5), i32(6)
		case "poll":
			q.Verb, q.MaxSize, q.Wait, q.Opaque = protocol.VerbPoll, i32(5), i32(6), i32(7)
		default:
			q.Opaque = i32(5)
		}
	case "version":
		q.Verb, q.Opaque = protocol.VerbVersion, protocol.NoOpaque
		if len(f) > 1 {
			q.Opaque = i32(1)
		}
	case "stats", "topics":
		q.Verb, q.Opaque = protocol.VerbStats, protocol.NoOpaque
		if len(f) > 1 {
			q.Item = []byte(f[1])
		}
		if len(f) > 2 {
			q.Opaque = i32(2)
		}
		if f[0] == "topics" {
			q.Verb, q.Topic, q.Item = protocol.VerbTopics, q.Item, nil
		}
	case "quit":
		q.Verb = protocol.VerbQuit
	case "result":
		i32(1)
		i32(3)
		length = lengthAt(2)
	case "value":
		i32(2)
		length = lengthAt(1)
	default:
		return q, -1, false
	}
	return q, length, ok
}

// referencePut reads the forms of protocol.md 4.1 behind the flag.
func referencePut(q *protocol.Request, f []string) bool {
	ok := true
	q.Checksum, q.Old = protocol.NoChecksum, true
	checksum := func() { q.Old, q.Checksum = false, int32(num(f, 5, 32, &ok)) }
	key := func(s string) { q.TxKey = []byte(s) }
	switch {
	case len(f) == 6:
	case len(f) == 7 && f[5] != "" && strings.Contains("-0123456789", f[5][:1]):
		checksum()
	case len(f) == 7:
		key(f[5])
	case len(f) == 8:
		checksum()
		key(f[6])
	default:
		return false
	}
	q.Opaque = int32(num(f, len(f)-1, 32, &ok))
	return ok && (q.TxKey == nil || referenceKey(string(q.TxKey)))
}

// referenceKey holds the rules of protocol.md 6.1.
func referenceKey(key string) bool {
	parts := strings.Split(key, ":")
	int32At := func(i int) bool {
		_, err := strconv.ParseInt(parts[i], 10, 32)
		return err == nil
	}
	hex := func(s string) bool {
		s = s[:len(s)/2*2]
		return !slices.ContainsFunc([]byte(s), func(c byte) bool { return !strings.Contains("0123456789abcdefABCDEF", string(rune(c))) })
	}
	switch {
	case key == "null":
		return true
	case len(parts) == 3 && parts[0] == "TX":
		return int32At(2)
	case len(parts) == 5 && parts[0] == "XID":
		return int32At(1) && hex(parts[2]) && hex(parts[3])
	}
	return false
}
