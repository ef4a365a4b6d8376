package protocol

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"iter"
)

// HeaderSize is the number of bytes before a record's body:
//
//	 0  4  length of the body, int32
//	 4  4  checksum of the body, int32, top bit clear
//	 8  8  message id, int64
//	16  4  flag, int32
//
// all big-endian (protocol.md 3.4, storage.md 3.1).
const HeaderSize = 20

// FlagAttr is bit 0 of the flag: the body starts with an attribute (int32 length, UTF-8 text).
const FlagAttr = 1

// NoChecksum in a put says that the sender gave none (protocol.md 3.3).
const NoChecksum = -1

// Errors of record decoding. They are wrapped with the position at which they occurred.
var (
	// ErrShort means that bytes are missing: a record cut off by a size limit, a torn write.
	ErrShort = errors.New("record is incomplete")
	// ErrChecksum means that the body is not the one the checksum was made of.
	ErrChecksum = errors.New("record does not match its checksum")
	// ErrMalformed means that the bytes can't be a record: a negative length, an attribute longer than its body.
	ErrMalformed = errors.New("malformed record")
)

// Checksum is the CRC-32 (IEEE) of a body with the top bit cleared, so that it is never negative.
func Checksum(body []byte) int32 {
	return int32(crc32.ChecksumIEEE(body) & 0x7fffffff)
}

// Record is one decoded record. Its slices alias the buffer it was decoded from.
type Record struct {
	ID       int64
	Flag     int32
	Checksum int32 // as stored; Verify compares it
	Body     []byte
}

// Size is the number of bytes the record takes in a partition.
func (r *Record) Size() int { return HeaderSize + len(r.Body) }

// AppendTo appends the record in stored form, with the checksum it carries.
func (r *Record) AppendTo(dst []byte) []byte {
	dst = appendHeader(dst, len(r.Body), r.Checksum, r.ID, r.Flag)
	return append(dst, r.Body...)
}

// Verify returns ErrChecksum if the body does not match the stored checksum.
func (r *Record) Verify() error {
	if Checksum(r.Body) != r.Checksum {
		return ErrChecksum
	}
	return nil
}

// Content splits the body into attribute and payload. A nil attr means that there is none; an attribute that is present
// but empty is an empty, non-nil slice. It returns ErrMalformed if the flag announces an attribute the body can't hold.
func (r *Record) Content() (attr, payload []byte, err error) {
	return SplitBody(r.Flag, r.Body)
}

// SplitBody splits the body of a put or of a record as [Record.Content] does.
func SplitBody(flag int32, body []byte) (attr, payload []byte, err error) {
	if flag&FlagAttr == 0 {
		return nil, body, nil
	}
	if len(body) < 4 {
		return nil, nil, fmt.Errorf("%w: flag announces an attribute, body has %d bytes", ErrMalformed, len(body))
	}
	n := int32(binary.BigEndian.Uint32(body))
	if n < 0 || int(n) > len(body)-4 {
		return nil, nil, fmt.Errorf("%w: attribute of %d bytes in a body of %d", ErrMalformed, n, len(body))
	}
	return body[4 : 4+n : 4+n], body[4+n:], nil
}

// AppendBody appends the body made of attr and payload and returns it with the flag that belongs to it. A nil attr means
// that there is none.
func AppendBody(dst, attr, payload []byte) (body []byte, flag int32) {
	if attr != nil {
		flag = FlagAttr
		dst = binary.BigEndian.AppendUint32(dst, uint32(len(attr)))
		dst = append(dst, attr...)
	}
	return append(dst, payload...), flag
}

// AppendRecord appends a record in stored form. The checksum is computed.
func AppendRecord(dst []byte, id int64, flag int32, body []byte) []byte {
	dst = appendHeader(dst, len(body), Checksum(body), id, flag)
	return append(dst, body...)
}

// AppendMessage appends the record of a message given as attribute and payload, without building the body elsewhere
// first. A nil attr means that there is none.
func AppendMessage(dst []byte, id int64, attr, payload []byte) []byte {
	start := len(dst)
	dst = append(dst, make([]byte, HeaderSize)...)
	dst, flag := AppendBody(dst, attr, payload)
	body := dst[start+HeaderSize:]
	appendHeader(dst[:start], len(body), Checksum(body), id, flag)
	return dst
}

func appendHeader(dst []byte, length int, checksum int32, id int64, flag int32) []byte {
	dst = binary.BigEndian.AppendUint32(dst, uint32(length))
	dst = binary.BigEndian.AppendUint32(dst, uint32(checksum))
	dst = binary.BigEndian.AppendUint64(dst, uint64(id))
	return binary.BigEndian.AppendUint32(dst, uint32(flag))
}

// DecodeRecord decodes the record at the start of buf without verifying its checksum. It returns ErrShort if buf ends
// before the record does and ErrMalformed if the length is negative.
func DecodeRecord(buf []byte) (Record, error) {
	size, ok := wholeRecord(buf)
	if !ok {
		if len(buf) >= HeaderSize && size < HeaderSize {
			return Record{}, fmt.Errorf("%w: length %d", ErrMalformed, size-HeaderSize)
		}
		return Record{}, ErrShort
	}
	return decodeWhole(buf[:size:size]), nil
}

// wholeRecord returns the size that the record at the start of buf announces and whether buf holds that much. The size
// means nothing if not even a header is there.
func wholeRecord(buf []byte) (size int, ok bool) {
	if len(buf) < HeaderSize {
		return 0, false
	}
	size = HeaderSize + int(int32(binary.BigEndian.Uint32(buf)))
	return size, size >= HeaderSize && size <= len(buf)
}

// decodeWhole decodes the record that is all of buf.
func decodeWhole(buf []byte) Record {
	return Record{
		ID:       int64(binary.BigEndian.Uint64(buf[8:])),
		Flag:     int32(binary.BigEndian.Uint32(buf[16:])),
		Checksum: int32(binary.BigEndian.Uint32(buf[4:])),
		Body:     buf[HeaderSize:],
	}
}

// RecordSize returns the size of the record that starts buf, from its first four bytes, whether or not the rest is
// there: how much a reader must ask for to get it whole. ok is false if buf is shorter than that or the length negative.
func RecordSize(buf []byte) (size int, ok bool) {
	if len(buf) < 4 {
		return 0, false
	}
	n := int32(binary.BigEndian.Uint32(buf))
	if n < 0 {
		return 0, false
	}
	return HeaderSize + int(n), true
}

// Records yields the complete records of buf with their positions in it, without verifying checksums, and stops at the
// first that is incomplete or malformed.
func Records(buf []byte) iter.Seq2[int, Record] {
	return func(yield func(int, Record) bool) {
		for pos := 0; ; {
			size, ok := wholeRecord(buf[pos:])
			if !ok || !yield(pos, decodeWhole(buf[pos:pos+size:pos+size])) {
				return
			}
			pos += size
		}
	}
}

// CheckRecords verifies that buf holds exactly count whole records, at least one, whose checksums match and whose
// attributes fit. A broker calls it on what a client sends ready-made, before a byte of it gets into the log.
func CheckRecords(buf []byte, count int) error {
	end, n := 0, 0
	for pos, r := range Records(buf) {
		err := r.Verify()
		if err == nil && r.Flag&FlagAttr != 0 {
			_, _, err = r.Content()
		}
		if err != nil {
			return fmt.Errorf("record %d at byte %d: %w", n, pos, err)
		}
		end = pos + r.Size()
		n++
	}
	if end < len(buf) {
		_, err := DecodeRecord(buf[end:])
		return fmt.Errorf("record %d at byte %d: %w", n, end, err)
	}
	if n != count || n == 0 {
		return fmt.Errorf("%w: %d records announced, %d sent", ErrMalformed, count, n)
	}
	return nil
}

// StampIDs writes consecutive message ids, the first being first, into the headers of the whole records at the start of
// buf and returns how many there were. See [NextID] for what consecutive means. What follows the last whole record stays
// as it is.
func StampIDs(buf []byte, first int64) int {
	n, id := 0, first
	for {
		size, ok := wholeRecord(buf)
		if !ok {
			return n
		}
		binary.BigEndian.PutUint64(buf[8:], uint64(id))
		buf = buf[size:]
		id = NextID(id)
		n++
	}
}
