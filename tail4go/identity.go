package tail4go

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"syscall"
)

// fileID tells files apart while they exist. An inode's number is used again after its file is deleted: not while the
// agent holds the file open, often right after.
type fileID struct{ dev, ino uint64 }

// identify returns what the file system says about a file.
func identify(fi fs.FileInfo) (id fileID, links uint64) {
	st, ok := fi.Sys().(*syscall.Stat_t)
	if !ok {
		return fileID{}, 1
	}
	return fileID{uint64(st.Dev), st.Ino}, uint64(st.Nlink) //nolint:unconvert // narrower on other systems
}

const (
	headBytes = 1024 // of a file's beginning are hashed, or as many as it has
	tailBytes = 64   // before a position
)

// digest is a hash of some bytes of a file.
type digest struct {
	N   int    `json:"n"` // how many
	Sum string `json:"sum,omitempty"`
}

func (d digest) valid(most int) bool {
	return d.N >= 0 && d.N <= most && (d.N == 0) == (d.Sum == "")
}

// digestOf hashes n bytes of a file, or as many as there are.
func digestOf(r io.ReaderAt, from int64, n int) (digest, error) {
	var buf [headBytes]byte
	got, err := r.ReadAt(buf[:n], from)
	if err != nil && !errors.Is(err, io.EOF) {
		return digest{}, fmt.Errorf("read to tell the file from others: %w", err)
	}
	if got == 0 {
		return digest{}, nil
	}
	sum := sha256.Sum256(buf[:got])
	return digest{got, hex.EncodeToString(sum[:16])}, nil
}

// tailDigest hashes the bytes before a position.
func tailDigest(r io.ReaderAt, pos int64) (digest, error) {
	n := min(pos, tailBytes)
	return digestOf(r, pos-n, int(n))
}

// isContentOf reports whether an open file holds what an entry remembers: the same first bytes, and the same ones before the
// position. A file that was cut off or written anew doesn't.
func (e *entry) isContentOf(r io.ReaderAt, size int64) (bool, error) {
	if size < e.Pos {
		return false, nil
	}
	head, err := digestOf(r, 0, e.Head.N)
	if err != nil || head != e.Head {
		return false, err
	}
	tail, err := digestOf(r, e.Pos-int64(e.Tail.N), e.Tail.N)
	return err == nil && tail == e.Tail, err
}
