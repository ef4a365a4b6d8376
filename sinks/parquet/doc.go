// Package parquet is a sink for Parquet files: each batch is one file of typed columns, durable and complete when it appears.
//
// Package pipeline feeds it; whoever lists the folder reads what it publishes: DuckDB, pyarrow, Spark. parquet-go writes the
// format, internal/vfs carries the files.
//
//	type Hit struct {
//		Time   time.Time `parquet:"time"`
//		Route  string    `parquet:"route,dict"`
//		Status int32     `parquet:"status"`
//		Tags   []string  `parquet:"tags,optional,list"` // nil is null, empty is empty
//		Bytes  *int64    `parquet:"bytes"`              // nil is null
//	}
//
//	sink, err := parquet.Open[Hit](parquet.Config{Dir: "out", Prefix: "hits"})
//	hits.To(sink, pipeline.Batch(100_000, time.Minute))
//
// A Parquet file can be read only when its end is written, so a batch is a file, and a good batch is large: rows wait in the
// topology until it is written, and pipeline.Config.MaxPending has to leave room for so many.
//
// # The folder
//
//	hits-20251201T130405.000000007Z.parquet        finished; never touched again. Named by the time (UTC) of writing, so names sort by
//	                                               time, also if the clock was set back meanwhile
//	.hits-20251201T130405.000000007Z.parquet.part  being written
//	.hits.lock                                     one sink at a time
//
// When Write returns nil the file is there and durable; when it returns an error, nothing of the batch is, so it can be repeated.
// What a crash leaves under a hidden name was never acknowledged, since renaming comes first; the next Open removes it. A batch whose
// file was published just before a crash is written again: delivery is at least once.
//
// # Columns
//
// Exported fields are columns, named by the tag or else as in Go; "-" leaves a field out; the fields of embedded structs are columns
// too. Structs, slices and maps may be nested.
//
//	bool, int8…int64, uint8…uint64, float32, float64    the same; int and uint have 64 bits
//	string          STRING; invalid UTF-8 is refused. With "json" JSON, with "enum" ENUM, with "bytes" any bytes
//	[]byte, [N]byte BYTE_ARRAY, FIXED_LEN_BYTE_ARRAY. With "string" or "json" text; a [16]byte with "uuid" UUID
//	time.Time       TIMESTAMP in nanoseconds, UTC: from 1677-09-21 to 2262-04-11. With timestamp(microsecond) or timestamp(millisecond) any
//	                year, what is finer is cut off. DuckDB shows microseconds even of nanoseconds
//	time.Duration   INT64, nanoseconds
//	*T              null if nil
//	[]T             a list, or with "optional,list" one that is null if nil; without "list" or without "optional" nil is empty
//	map[K]V         MAP; with "optional" null if nil
//
// Other options of a tag: dict, delta, split, plain (encodings), uncompressed, snappy, gzip, zstd, lz4, brotli, id(n); int32
// also date, int64 also timestamp(…). A value is never changed to make it fit: a row with one that doesn't makes Write return a
// pipeline.Permanent error, and a type or tag of which parquet-go is known to make something else (a date of a time.Time, null of a
// zero by "optional") is refused by Open.
package parquet
