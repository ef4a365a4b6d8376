// Package file is a sink for files of lines, by default JSON lines: appended durably, rotated by size and age, published by rename.
//
// Package pipeline feeds it; whoever lists the folder reads what it publishes, and internal/vfs carries it.
//
//	sink, err := file.Open(file.Config[Hit]{Dir: "out", Prefix: "hits"})
//	hits.To(sink, pipeline.Batch(10_000, time.Second))
//
// # The folder
//
//	hits-20251201T130405.000000007Z.jsonl        finished; never touched again. Named by the time (UTC) of its first row, so names
//	                                             sort by time, also if the clock was set back meanwhile
//	hits-20251201T130405.000000007Z.torn         set aside after a crash: see below
//	.hits-20251201T130405.000000007Z.jsonl.part  being written; at most one
//	.hits.lock                                   one sink at a time
//
// A reader that takes all names ending in .jsonl sees whole files of whole lines, each exactly once, and may move or remove them.
//
// # What is promised
//
// When Write returns nil the batch is on disk, in the unfinished file or in a finished one. A Write that fails leaves nothing of its
// batch behind, so it can be repeated; a full disk is waited out that way. A crash leaves an unfinished file, and
// the next Open finishes it: all whole lines, which may have been acknowledged, are published; what follows them, the torn rest of a
// write that was never acknowledged, goes to a file that ends in .torn, with a warning in the log. It will be written again by
// the topology. So delivery is at least once: whole lines of a batch that was not acknowledged before the crash stay.
//
// Whole is a line that ends with a line feed and has no zero byte: file systems leave zeros where a write did not arrive. That is
// why no row may have either of them.
package file
