package store

import (
	"errors"
	"fmt"
	"io"
	"slices"
)

// Chunk is a range of bytes of one segment, found by Locate and not read yet.
type Chunk struct {
	seg *segment
	pos int64
	n   int
}

// Len returns the number of bytes.
func (c Chunk) Len() int { return c.n }

// AppendTo reads the range and appends it to dst. On an error dst is returned as it was.
func (c Chunk) AppendTo(dst []byte) ([]byte, error) {
	at := len(dst)
	dst = slices.Grow(dst, c.n)[:at+c.n]
	if n, err := c.seg.file.ReadAt(dst[at:], c.pos); n < c.n {
		if err == nil || errors.Is(err, io.EOF) {
			err = io.ErrUnexpectedEOF
		}
		return dst[:at], fmt.Errorf("read %s at %d: %w", c.seg.name, c.pos, err)
	}
	return dst, nil
}

// Locate finds what a get at offset may have: at least one and at most limit bytes, up to the end of the segment or the
// high-water mark, whichever comes first. Any offset within the partition will do, whether or not a record begins there. A
// limit below 1 counts as 1.
// It returns ErrBelow, ErrAbove or ErrAtEnd.
func (l *Log) Locate(offset int64, limit int) (Chunk, error) {
	end := l.end.Load() // before segments: see Log.end
	segs := *l.segments.Load()
	switch {
	case offset < segs[0].start:
		return Chunk{}, ErrBelow
	case offset > end:
		return Chunk{}, ErrAbove
	case offset == end:
		return Chunk{}, ErrAtEnd
	}
	i := find(segs, offset)
	if i+1 < len(segs) {
		end = min(end, segs[i+1].start)
	}
	return Chunk{seg: segs[i], pos: offset - segs[i].start, n: int(min(max(int64(limit), 1), end-offset))}, nil
}

// Nearest returns a record boundary at or before offset, by the rules of the offset request (protocol.md 4.3): the start
// of the segment that contains it, or the start or end of the partition if it lies outside.
func (l *Log) Nearest(offset int64) int64 {
	end := l.end.Load()
	segs := *l.segments.Load()
	switch {
	case offset < segs[0].start:
		return segs[0].start
	case offset >= end:
		return end
	}
	return segs[find(segs, offset)].start
}

// find returns the index of the segment that contains offset, which must not lie below the first.
func find(segs []*segment, offset int64) int {
	i, found := slices.BinarySearchFunc(segs, offset, func(s *segment, o int64) int {
		switch {
		case s.start < o:
			return -1
		case s.start > o:
			return 1
		}
		return 0
	})
	if !found {
		i--
	}
	return i
}
