// Package store keeps the partitions of a broker on disk: append, commit, read, recover.
//
// The broker's server feeds it with records in stored form (see package protocol) and reads byte ranges back. Layout
// and file names are those of MetaQ 1.4.6 (storage.md 1–7), so that its folders open here and ours open there:
//
//	DIR/TOPIC-PARTITION/00000000000000000000.meta     records back to back, named by the offset of their first byte
//	DIR/TOPIC-PARTITION/00000000001073741850.meta     the last one is written, all others never change again
//	DIR/transactions/.lock                            held while a broker has DIR open
//
// A [Log] is one partition. Many may append to it at once; one committer for the whole store takes what all of them
// collected, writes it, syncs it, moves the high-water mark and tells who waits, while the next round is collected: a
// round is as big as what arrived during the sync before it (group commit). Readers never wait: they see what lies
// below the high-water mark through an immutable list of segments.
//
// What may be relied on: a [Commit] that is done without an error is on disk (with Config.Relaxed: written, and on disk
// within Config.FlushInterval); bytes above the high-water mark are never shown to a reader; offsets and bytes of what
// was shown never change; bytes that recovery can't take for records are set aside in a file of their own beside the
// segment, never deleted. What is given up at which fault: after a failed write nothing of the round stays, its
// appends fail, and the next append tries again; after a failed sync nobody can know what is on disk, so the partition
// takes no more appends until the store is opened again, and reads go on.
package store
