package pipeline

import (
	"context"
	"strconv"
)

// Source describes where tuples come from. It is opened once for every task of the stage it feeds, so a Source holds
// configuration and a Spout holds connections.
type Source[M any] interface {
	// Name is the name of the source's stage in statistics, errors and dead letters, for example the topic.
	Name() string
	// Open prepares the spout of one task; it runs before any task starts, and an error ends Run before anything was read.
	// ctx ends when the topology is asked to stop, but it may also end right after Open returned: a Spout must not depend on it.
	// With t.Mode == Broadcast each task must see everything and keep its own positions; otherwise the
	// tasks t.Index of t.Count share the partitions among them.
	Open(ctx context.Context, t Task) (Spout[M], error)
}

// Spout hands out the tuples of one task. Next and Close are called by one goroutine, never at the same time.
type Spout[M any] interface {
	// Next waits until at least one tuple is there, writes what is ready to dst, at most len(dst) ≥ 1, and returns how many.
	// As with io.Reader, the n tuples count whatever err says. err is
	//
	//   - io.EOF itself, not wrapped, when the source is finished: what is in flight is completed, other sources go on;
	//   - ctx.Err() when ctx ended: the topology was asked to stop;
	//   - anything else when the source can't go on: the topology drains and Run returns the error. What can be waited out,
	//     such as a broker that restarts, is waited out inside Next.
	//
	// After an error Next is not called again. dst is the topology's and must not be kept. A Value handed out, and
	// what it refers to, must not be changed afterwards: sinks may keep it.
	Next(ctx context.Context, dst []Tuple[M]) (n int, err error)
	// Close ends the spout. It is called exactly once, when every tuple handed out has had its Ack.Done, so it can store
	// the positions it has and nothing will come later. ctx ends with the drain deadline, though not before 5 seconds have passed.
	Close(ctx context.Context) error
}

// Tuple is one message of a source together with where it came from and who must hear that it is done.
type Tuple[M any] struct {
	Value  M
	Origin Origin
	Ack    Ack
}

// Origin is the place of a tuple in its source. Errors and dead letters name it.
type Origin struct {
	// Partition names the ordered part of the source the tuple belongs to, such as "access/0-3". In Ordered mode tuples of
	// one partition keep their order. Spouts should keep one string per partition and not build it per tuple.
	Partition string
	Offset    int64 // position in the partition, in whatever unit the source counts: bytes in MetaQ
}

// String returns partition and offset as "access/0-3@4711".
func (o Origin) String() string {
	return o.Partition + "@" + strconv.FormatInt(o.Offset, 10)
}

// Task tells a spout, a bolt or a sink which of the parallel instances of its stage it is.
type Task struct {
	Topology string
	Stage    string
	Index    int // 0…Count-1
	Count    int // how many tasks the stage has
	Mode     Mode
}

// String returns topology, stage and index as "errors-per-route/count[2]".
func (t Task) String() string {
	return t.Topology + "/" + t.Stage + "[" + strconv.Itoa(t.Index) + "]"
}

// Mode says what a topology promises about order and about who sees a tuple.
type Mode uint8

const (
	// Unordered delivers every tuple at least once, in any order, over all tasks of a stage: the fastest mode.
	Unordered Mode = iota
	// Ordered keeps the order of the tuples of one partition, behind a Stream.By of one key, through every stage.
	Ordered
	// Broadcast runs Config.Instances copies of the topology in one process, each of which sees every tuple.
	Broadcast
)

// String returns the mode as one lower-case word.
func (m Mode) String() string {
	switch m {
	case Unordered:
		return "unordered"
	case Ordered:
		return "ordered"
	case Broadcast:
		return "broadcast"
	default:
		return "mode " + strconv.Itoa(int(m))
	}
}
