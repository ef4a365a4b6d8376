// Package pipeline runs topologies: typed streams of tuples from sources through bolts into sinks.
//
// Sources feed it ([Source], [Spout]: package spout for our broker, connectors/* for everyone else's systems); it feeds
// sinks ([Sink]: sinks/file, sinks/parquet, sinks/sqldb). It imports nothing else of this module.
//
//	top := pipeline.New("errors-per-route", pipeline.Config{Mode: pipeline.Ordered})
//	hits := pipeline.From(top, src, decodeHit)                                        // Stream[Hit]
//	errs := hits.Filter("5xx", func(h Hit) bool { return h.Status >= 500 })
//	rows := pipeline.Map(errs, "row", func(ctx context.Context, h Hit) (Row, error) { … }, pipeline.Parallel(4))
//	rows.To(sink, pipeline.Batch(1000, time.Second))
//	err := top.Run(ctx)
//
// # What is promised
//
// Every tuple a spout hands out is answered by exactly one [Ack.Done]: with nil when all that came of it is safe in the
// sinks, was filtered away, or was written to the dead letters; with the reason otherwise. A source that resumes behind the
// longest prefix of done tuples ([Tracker]) therefore loses nothing through any crash; what was done behind the first tuple
// not done comes again (at least once).
//
//   - [Unordered]: every tuple reaches the sinks at least once, in any order.
//   - [Ordered]: besides, tuples of one partition (behind a [Stream.By]: of one key) pass every stage in the order in which
//     they left the source, however parallel the stage is, and whatever is retried.
//   - [Broadcast]: every instance sees every tuple; each has its own spout, its own positions and its own task in every stage.
//
// # How tuples travel
//
// Each task of a stage is one goroutine with a bounded queue; tuples that any task of the stage may have lie in a queue all
// of them take from. Between tasks tuples travel in batches that are sent when they are full or when the sender has nothing
// more to do, so one tuple never waits for others, and under load the cost of a hop is shared by many. Stages that take long
// for a tuple get small batches. A full queue blocks the sender; a source stops when [Config.MaxPending] of its tuples
// are not done. Memory therefore does not grow with the backlog.
//
// # Where to read on
//
// source.go, ack.go and sink.go are the contracts; stream.go and stage.go what a user calls. Of the engine, ring.go counts what
// is left to do for a source tuple; spouttask.go, bolttask.go and sinktask.go are the loops; outlet.go, edge.go and inlet.go the
// way from one to the next; parking.go the retries; run.go start and stop.
package pipeline
