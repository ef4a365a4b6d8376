package pipeline

// Ack is how a spout hears that a tuple is done. It is a small value, so that handing out a tuple allocates nothing:
// a spout has one Acker for many tuples (a Tracker, or itself) and tells them apart by Seq.
//
// The zero Ack is for tuples nobody has to hear of.
type Ack struct {
	To  Acker
	Seq uint64
}

// Acker is told about tuples that are done.
type Acker interface {
	// Done is called exactly once for every tuple handed out: with nil when all that came of the tuple is safe,
	// otherwise with the reason why it is not; then the tuple must come again after a restart. Calls come from any goroutine, in
	// any order, several at a time. Done must be quick and must not block: it runs on the way of other tuples.
	Done(seq uint64, err error)
}

// Done tells the spout that the tuple is done. The topology calls it; a spout's own tests may.
func (a Ack) Done(err error) {
	if a.To != nil {
		a.To.Done(a.Seq, err)
	}
}

// DoneFunc makes an Acker of a function, for spouts that are not fast anyway: each closure is an allocation.
//
//	dst[0].Ack = pipeline.Ack{To: pipeline.DoneFunc(func(err error) { … })}
type DoneFunc func(error)

// Done calls f; the sequence number is not used.
func (f DoneFunc) Done(_ uint64, err error) { f(err) }
