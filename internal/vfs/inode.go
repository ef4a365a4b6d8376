package vfs

import (
	"io/fs"
	"slices"
	"time"
)

// inode is a file or a directory of a Mem, whose lock guards it.
type inode struct {
	mode    fs.FileMode // with fs.ModeDir for a directory
	modTime time.Time
	locked  bool // by Lock

	entries map[string]*inode // of a directory: as the process sees it
	synced  map[string]*inode // of a directory: what survives a crash in any case
	file    fileData          // of a file
}

func newFile(perm fs.FileMode) *inode { return &inode{mode: perm.Perm(), modTime: time.Now()} }

func newDir(perm fs.FileMode) *inode {
	return &inode{
		mode: perm.Perm() | fs.ModeDir, modTime: time.Now(),
		entries: make(map[string]*inode), synced: make(map[string]*inode),
	}
}

// maxChunk is the most memory that a file keeps for edits to come. Batches of the usual size fit.
const maxChunk = 4 << 20

// fileData is a file's content, now and after its last sync, and every edit in between.
type fileData struct {
	live, safe content
	edits      []edit
	chunk      []byte // room for the bytes of edits, filled up to its length
	lo, hi     int    // pages in which live and safe may differ; none if hi is 0
}

// edit is one write, or one change of the size, not yet synced.
type edit struct {
	truncate bool
	off      int64  // where the write begins; truncate: the new size
	data     []byte // what was written
}

func (f *fileData) write(b []byte, off int64) {
	if len(b) == 0 {
		return
	}
	f.touch(off, off+int64(len(b)))
	f.edits = append(f.edits, edit{off: off, data: f.keep(b)})
	f.live.writeAt(b, off)
}

// keep copies b to where it stays until the next sync.
func (f *fileData) keep(b []byte) []byte {
	if cap(f.chunk)-len(f.chunk) < len(b) {
		f.chunk = make([]byte, 0, max(len(b), min(2*cap(f.chunk), maxChunk), 1<<10))
	}
	from := len(f.chunk)
	f.chunk = append(f.chunk, b...)
	return f.chunk[from:len(f.chunk):len(f.chunk)]
}

// clone returns a copy with the same edits.
func (f *fileData) clone() fileData {
	f.chunk = nil // the copy refers to it: it can't be filled anew after the next sync
	return fileData{live: f.live.clone(), safe: f.safe.clone(), edits: slices.Clone(f.edits), lo: f.lo, hi: f.hi}
}

func (f *fileData) truncate(n int64) {
	if n == f.live.size {
		return
	}
	if n < f.live.size {
		f.touch(n, f.live.size)
	}
	f.edits = append(f.edits, edit{truncate: true, off: n})
	f.live.truncate(n)
}

// touch notes that the bytes from..to are no longer what was synced. Where a file only grows, both contents are zeros.
func (f *fileData) touch(from, to int64) {
	lo, hi := int(from/pageSize), pagesFor(to)
	if f.hi > 0 {
		lo, hi = min(lo, f.lo), max(hi, f.hi)
	}
	f.lo, f.hi = lo, hi
}

func (f *fileData) sync() {
	if len(f.edits) > 0 {
		f.safe.adopt(&f.live, f.lo, f.hi)
	}
	f.forget()
}

// forget drops the edits. Their room is kept for those up to the next sync, unless it is much.
func (f *fileData) forget() {
	clear(f.edits)
	f.edits, f.chunk = f.edits[:0], f.chunk[:0]
	if cap(f.edits) > 1<<12 {
		f.edits = nil
	}
	if cap(f.chunk) > maxChunk {
		f.chunk = nil
	}
	f.lo, f.hi = 0, 0
}
