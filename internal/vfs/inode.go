package vfs

import (
	"io/fs"
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

// fileData is a file's content, now and after its last sync, and every edit in between.
type fileData struct {
	live, safe content
	edits      []edit
	buf        []byte // the bytes of the edits that write
	lo, hi     int    // pages in which live and safe may differ; none if hi is 0
}

// edit is one write, or one change of the size, not yet synced.
type edit struct {
	truncate bool
	off      int64 // where the write begins; truncate: the new size
	from, to int   // the bytes written, in fileData.buf
}

func (f *fileData) write(b []byte, off int64) {
	if len(b) == 0 {
		return
	}
	f.touch(min(off, f.live.size), off+int64(len(b)))
	from := len(f.buf)
	f.buf = append(f.buf, b...)
	f.edits = append(f.edits, edit{off: off, from: from, to: len(f.buf)})
	f.live.writeAt(b, off)
}

func (f *fileData) truncate(n int64) {
	if n == f.live.size {
		return
	}
	f.touch(min(n, f.live.size), max(n, f.live.size))
	f.edits = append(f.edits, edit{truncate: true, off: n})
	f.live.truncate(n)
}

// touch notes that the bytes from..to are no longer what was synced.
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
	f.edits, f.buf = f.edits[:0], f.buf[:0]
	if cap(f.buf) > 8<<20 || cap(f.edits) > 1<<16 {
		f.edits, f.buf = nil, nil
	}
	f.lo, f.hi = 0, 0
}
