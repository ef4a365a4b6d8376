package pipeline

import (
	"encoding/binary"
	"math/bits"
)

// Keys are hashed to keyBits bits, the same way in every process and every version, because later saved state is found again by the task the
// hash chooses.
const (
	hashA = 0x9e3779b97f4a7c15
	hashB = 0xd6e8feb86659fd93
)

func mix(a, b uint64) uint64 {
	hi, lo := bits.Mul64(a, b)
	return hi ^ lo
}

func hashString(s string) uint32 {
	h := mix(uint64(len(s))^hashA, hashB)
	for len(s) >= 8 {
		h = mix(h^le64(s), hashB)
		s = s[8:]
	}
	if len(s) > 0 {
		var tail [8]byte
		copy(tail[:], s)
		h = mix(h^binary.LittleEndian.Uint64(tail[:]), hashA)
	}
	return fold(h)
}

func le64(s string) uint64 {
	_ = s[7]
	return uint64(s[0]) | uint64(s[1])<<8 | uint64(s[2])<<16 | uint64(s[3])<<24 |
		uint64(s[4])<<32 | uint64(s[5])<<40 | uint64(s[6])<<48 | uint64(s[7])<<56
}

func hashNumber(n uint64) uint32 { return fold(mix(n^hashA, hashB)) }

func fold(h uint64) uint32 {
	h = mix(h^hashB, hashA)
	return uint32(h >> (64 - keyBits))
}

// spread maps a hash evenly to 0…n-1.
func spread(key uint32, n int) int { return int(uint64(key) * uint64(n) >> keyBits) }
