package vfs

// OpKind says what a call does. Mem.Before and package faultfs name calls by it.
type OpKind string

// The kinds, and the calls they stand for.
const (
	OpOpen        OpKind = "open"        // OpenFile of a file that has to be there
	OpCreate      OpKind = "create"      // OpenFile with O_CREATE, whether or not the file is there
	OpClose       OpKind = "close"       // File.Close
	OpRead        OpKind = "read"        // File.ReadAt
	OpWrite       OpKind = "write"       // File.WriteAt
	OpTruncate    OpKind = "truncate"    // File.Truncate; in Mem.Before also OpenFile with O_TRUNC but not O_CREATE
	OpSync        OpKind = "sync"        // File.Sync
	OpDatasync    OpKind = "datasync"    // File.Datasync
	OpPreallocate OpKind = "preallocate" // File.Preallocate
	OpRemove      OpKind = "remove"      // FS.Remove
	OpRename      OpKind = "rename"      // FS.Rename
	OpMkdir       OpKind = "mkdir"       // FS.MkdirAll; in Mem.Before each directory that is made
	OpReadDir     OpKind = "readdir"     // FS.ReadDir
	OpStat        OpKind = "stat"        // FS.Stat and File.Size
	OpSyncDir     OpKind = "syncdir"     // FS.SyncDir
	OpLock        OpKind = "lock"        // FS.Lock
)

// Op is one call.
type Op struct {
	Kind OpKind
	Name string // as the caller gave it; of a file, as it was opened
	To   string // rename: the new name
	Off  int64  // read, write, preallocate: the position; truncate: the new size
	Len  int64  // read, write, preallocate: the number of bytes
}
