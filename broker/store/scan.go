package store

import (
	"bufio"
	"encoding/binary"
	"hash/crc32"
	"io"
	"math"
	"time"

	"github.com/metaq-go/metaq/protocol"
)

// scanned is what a look at every byte of a segment found.
type scanned struct {
	good         int64  // position behind the last good record
	records      int    // up to there, damaged ones included
	lastID       int64  // the largest; math.MinInt64 if there are none
	damaged      int    // places up to there where no record can be read, though good ones follow
	firstDamaged int64  // position of the first of them
	reason       string // why what follows good is none; empty if nothing follows
}

// scanner reads a segment from its start to its last good record.
//
// Behind the last record there may be the remains of a write that a crash interrupted: some of its sectors, zeros where
// others should be, nothing at all. They were never acknowledged and are to be cut off. Elsewhere there may be bytes that
// went bad after they had been stored, and then good records follow that were acknowledged: these are to stay, at
// their offsets. The two can look alike. What tells them apart is that a lost sector reads as zeros, which a
// failing bit does not: see hole. In doubt bytes stay.
type scanner struct {
	scanned
	f    io.ReaderAt
	size int64
	r    *bufio.Reader // of f, at the record to be read next
}

const (
	scanBuffer = 256 << 10
	sector     = 512      // what a disk stores whole or not at all
	maxTorn    = 64 << 20 // so far from the end a hole can be one that a crash left
	minHole    = 8        // fewer zeros than that at the border of a sector mean nothing
	maxSearch  = 1 << 30  // bytes that may be checksummed in looking for good records behind bad ones
)

// scan looks at the first size bytes of f.
func scan(f io.ReaderAt, size int64) (scanned, error) {
	s := scanner{f: f, size: size, scanned: scanned{lastID: math.MinInt64}}
	s.r = bufio.NewReaderSize(io.NewSectionReader(f, 0, size), int(max(sector, min(size, scanBuffer))))
	for pos := int64(0); pos < size; {
		h, why, err := s.record(pos)
		if err != nil {
			return s.scanned, err
		}
		if why == "" {
			s.records++
			s.lastID = max(s.lastID, h.id())
			pos += protocol.HeaderSize + h.length()
			s.good = pos
			continue
		}
		next, torn, err := s.resume(pos, h)
		if err != nil {
			return s.scanned, err
		}
		if torn {
			why = "lost sector"
		}
		if torn || next < 0 {
			s.reason = why
			return s.scanned, nil
		}
		if s.damaged++; s.damaged == 1 {
			s.firstDamaged = pos
		}
		s.records++
		s.r.Reset(io.NewSectionReader(f, next, size-next))
		pos = next
	}
	return s.scanned, nil
}

// header is that of a record, or whatever is in its place.
type header [protocol.HeaderSize]byte

func (h *header) length() int64 { return int64(int32(binary.BigEndian.Uint32(h[:]))) }
func (h *header) sum() uint32   { return binary.BigEndian.Uint32(h[4:]) }
func (h *header) id() int64     { return int64(binary.BigEndian.Uint64(h[8:])) }

// record reads past the record at pos and tells why it is none, or an empty string. By the format a header of zeros would
// be an empty message with id 0, which no broker gives out; file systems leave such bytes where a file had grown and its
// data did not make it.
func (s *scanner) record(pos int64) (h header, why string, err error) {
	if _, err := io.ReadFull(s.r, h[:]); err == io.EOF || err == io.ErrUnexpectedEOF {
		return h, "header cut off", nil
	} else if err != nil {
		return h, "", err
	}
	switch length := h.length(); {
	case length < 0 || length > s.size-pos-protocol.HeaderSize:
		return h, "record longer than the file", nil
	case zeros(h[:]):
		return h, "zeros", nil
	case s.tornID(pos, &h):
		return h, "torn header", nil
	}
	var sum uint32
	for left := h.length(); left > 0; {
		b, err := s.r.Peek(int(min(left, int64(max(s.r.Buffered(), 1)))))
		if err != nil {
			return h, "", err
		}
		sum = crc32.Update(sum, crc32.IEEETable, b)
		left -= int64(len(b))
		if _, err := s.r.Discard(len(b)); err != nil {
			return h, "", err
		}
	}
	if sum&0x7fffffff != h.sum() {
		return h, "checksum", nil
	}
	return h, "", nil
}

// tornID recognises a message without a body whose header lost its end to a lost sector. No checksum covers the
// header, but ids increase.
func (s *scanner) tornID(pos int64, h *header) bool {
	cut := sector - pos%sector
	return h.length() == 0 && h.id() <= s.lastID && cut < protocol.HeaderSize && zeros(h[cut:])
}

func zeros(b []byte) bool {
	for _, c := range b {
		if c != 0 {
			return false
		}
	}
	return true
}

// resume returns where good records go on behind the bad one at pos, negative if nowhere, and whether what is between was
// torn by a crash, so that what follows was never acknowledged either.
func (s *scanner) resume(pos int64, h header) (next int64, torn bool, err error) {
	if zeros(h[:]) && s.size-pos <= maxTorn {
		return -1, false, nil
	}
	next = pos + protocol.HeaderSize + h.length()
	ok := false
	if next > pos && next < s.size { // most often it is the body that is damaged
		ok, err = s.goodAt(next, math.MinInt64)
	}
	if err == nil && !ok {
		next, err = s.search(pos+1, max(s.lastID, believable(h.id())))
	}
	if err != nil || next < 0 {
		return -1, false, err
	}
	torn, err = s.hole(pos, next)
	return next, torn, err
}

// believable returns id, or the smallest one if no clock can have made it.
func believable(id int64) int64 {
	if protocol.IDTime(id).After(time.Now().Add(idSanity)) {
		return math.MinInt64
	}
	return id
}

// goodAt tells whether a good record with an id greater than above is at pos.
func (s *scanner) goodAt(pos, above int64) (bool, error) {
	var h header
	if s.size-pos < protocol.HeaderSize {
		return false, nil
	}
	if _, err := s.f.ReadAt(h[:], pos); err != nil {
		return false, err
	}
	if !s.plausible(pos, h[:], above) {
		return false, nil
	}
	sum := crc32.NewIEEE()
	if _, err := io.Copy(sum, io.NewSectionReader(s.f, pos+protocol.HeaderSize, h.length())); err != nil {
		return false, err
	}
	return sum.Sum32()&0x7fffffff == h.sum(), nil
}

// plausible tells whether b begins with the header of a record at pos that may be a good one.
func (s *scanner) plausible(pos int64, b []byte, above int64) bool {
	h := header(b)
	length, id := h.length(), h.id()
	return length >= 0 && length <= s.size-pos-protocol.HeaderSize && id > above && believable(id) == id && !zeros(h[:])
}

// search returns the position of the first good record at from or later that has a body, without which a record is too
// easily seen where none is; negative if there is none. Its id must be greater than above: a message may well contain
// records, of this partition or another, but only such as are older than itself.
func (s *scanner) search(from, above int64) (int64, error) {
	buf := make([]byte, min(scanBuffer, s.size))
	for budget := int64(maxSearch); s.size-from >= protocol.HeaderSize && budget > 0; {
		n, err := s.f.ReadAt(buf[:min(int64(len(buf)), s.size-from)], from)
		if err != nil && err != io.EOF {
			return -1, err
		}
		if n < protocol.HeaderSize {
			break
		}
		last := n - protocol.HeaderSize
		for i := 0; i <= last; i++ {
			length := binary.BigEndian.Uint32(buf[i:])
			if length == 0 || !s.plausible(from+int64(i), buf[i:], above) {
				continue
			}
			budget -= int64(length)
			if ok, err := s.goodAt(from+int64(i), above); ok || err != nil {
				return from + int64(i), err
			}
		}
		from += int64(last) + 1
	}
	return -1, nil
}

// hole tells whether the bytes from…to look as if a crash had interrupted the write that they are of: a sector, or what of
// it lies between from and to, is all zeros.
func (s *scanner) hole(from, to int64) (bool, error) {
	if s.size-from > maxTorn {
		return false, nil
	}
	r := bufio.NewReaderSize(io.NewSectionReader(s.f, from, to-from), 64<<10)
	for pos := from; pos < to; {
		n := min(to-pos, sector-pos%sector)
		b, err := r.Peek(int(n))
		if err != nil {
			return false, err
		}
		if zeros(b) && (n >= minHole || pos == from && n >= 4) {
			return true, nil
		}
		pos += n
		if _, err := r.Discard(int(n)); err != nil {
			return false, err
		}
	}
	return false, nil
}
