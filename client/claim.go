package client

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/metaq-go/metaq/internal/coord"
)

// claim is a partition that a consumer holds.
type claim struct {
	TopicPartition
	ctx     context.Context // ends when it is given up
	stop    context.CancelFunc
	stopped chan struct{} // the fetcher has ended
	leaving atomic.Bool   // begin nothing new with it
	turn    atomic.Int64  // goes up when the broker lost what was handed out: batches from before are void
	busy    sync.RWMutex  // read: Run is in a batch of it

	mu      sync.Mutex
	revoked bool  // the position is settled
	offset  int64 // everything below is done
	id      int64 // of the last message below, -1 if not known
	stored  int64 // as last stored
	handed  int64 // behind the last message that was handed out
}

// holds reports whether messages of a batch of that turn may be begun.
func (c *claim) holds(turn int64) bool { return !c.leaving.Load() && c.turn.Load() == turn }

// hand notes that messages up to end are handed out, and returns the present turn.
func (c *claim) hand(end int64) int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.handed = end
	return c.turn.Load()
}

// done moves the position, for a batch of that turn, and reports whether the claim still lives. What was not handed out
// can't be done: it is a position from before a reset.
func (c *claim) done(turn, next, id int64) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.revoked || c.turn.Load() != turn {
		return false
	}
	if next > c.offset && next <= c.handed {
		c.offset, c.id = next, id
	}
	return true
}

// reset is told that the broker can serve from to on only, and returns where to go on reading. Ahead, because of
// retention or a filter, the position follows at once if nothing is in flight, otherwise with the next commit. Back,
// because the broker has lost the end of the partition, what is not done of the rest is read again, and what is in
// flight is void.
func (c *claim) reset(to int64) int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	if to < c.handed {
		c.turn.Add(1)
		if to < c.offset {
			c.offset, c.id = to, -1
		}
		c.handed = c.offset
		return c.offset
	}
	if c.offset == c.handed {
		c.offset, c.id = to, -1
	}
	c.handed = to
	return to
}

// claim takes a partition, unless another member still holds it, and begins to fetch it.
func (m *member) claim(ctx context.Context, tp TopicPartition) (bool, error) {
	if !m.co.cfg.Broadcast {
		node := m.layout.Owner(m.co.cfg.Group, tp.Topic, tp.Partition.String())
		err := m.session.Create(ctx, node, []byte(m.id), coord.Ephemeral)
		if errors.Is(err, coord.ErrExists) {
			return false, nil
		}
		if err != nil {
			return false, err
		}
	}
	offset, err := m.position(ctx, tp)
	if err != nil {
		return false, errors.Join(err, m.disown(tp))
	}
	cl := &claim{TopicPartition: tp, stopped: make(chan struct{}), offset: offset, id: -1, stored: offset, handed: offset}
	cl.ctx, cl.stop = context.WithCancel(m.co.ctx)
	m.co.mu.Lock()
	m.co.claims[tp] = cl
	m.co.mu.Unlock()
	m.co.wait.Go(func() { m.co.fetch(cl.ctx, cl, offset) })
	return true, nil
}

// position is where to begin: the stored one, else by configuration, which is then stored at once, so that a member that
// dies before its first commit does not begin elsewhere. Latest is for partitions that were there when the member came;
// what is in a later one came after it.
func (m *member) position(ctx context.Context, tp TopicPartition) (int64, error) {
	co := m.co
	offset, found, err := co.cfg.Offsets.Load(ctx, co.group, tp)
	if err != nil || found {
		return offset, err
	}
	start, end, err := co.client.Offsets(ctx, tp.Topic, tp.Partition)
	if err != nil {
		return 0, err
	}
	offset = start
	if co.cfg.Start == Latest && m.first[tp.Topic][tp.Partition] {
		offset = end
	}
	return offset, co.cfg.Offsets.Store(ctx, co.group, []Position{{TopicPartition: tp, Offset: offset, ID: -1}})
}

// revoke gives partitions up: no more fetching, what is handed out is finished, the position is stored, and only then
// another member can have them. expired: another one may have them already.
func (m *member) revoke(claims []*claim, expired bool) error {
	if len(claims) == 0 {
		return nil
	}
	tps := make([]TopicPartition, len(claims))
	for i, cl := range claims {
		tps[i] = cl.TopicPartition
		cl.leaving.Store(true)
		cl.stop()
	}
	for _, cl := range claims {
		<-cl.stopped
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(m.co.ctx), revokeWithin)
	defer cancel()
	if m.co.cfg.OnRevoke != nil {
		m.co.cfg.OnRevoke(ctx, tps)
	}
	for _, cl := range claims {
		cl.settle()
	}
	var errs []error
	if expired {
		errs = append(errs, m.co.yield(ctx, claims))
	}
	errs = append(errs, m.co.surrender(ctx, claims))
	for _, tp := range tps {
		errs = append(errs, m.disown(tp))
	}
	return errors.Join(errs...)
}

// settle waits until Run has left its batch, and then lets the position move no more.
func (c *claim) settle() {
	c.busy.Lock()
	defer c.busy.Unlock()
	c.mu.Lock()
	defer c.mu.Unlock()
	c.revoked = true
}

func (m *member) disown(tp TopicPartition) error {
	if m.session == nil {
		return nil
	}
	err := m.session.Delete(context.Background(), m.layout.Owner(m.co.cfg.Group, tp.Topic, tp.Partition.String()))
	if errors.Is(err, coord.ErrNoNode) {
		return nil
	}
	return err
}

// yield takes over stored positions that are ahead of ours: they are those of a member that has a partition after us.
func (co *Consumer) yield(ctx context.Context, claims []*claim) error {
	var errs []error
	for _, cl := range claims {
		offset, found, err := co.cfg.Offsets.Load(ctx, co.group, cl.TopicPartition)
		errs = append(errs, err)
		cl.mu.Lock()
		if err != nil || found && offset > cl.offset {
			cl.offset = cl.stored
		}
		cl.mu.Unlock()
	}
	return errors.Join(errs...)
}

// surrender stores positions for the last time and forgets the claims.
func (co *Consumer) surrender(ctx context.Context, claims []*claim) error {
	co.storing.Lock()
	defer co.storing.Unlock()
	err := co.store(ctx, claims)
	co.mu.Lock()
	defer co.mu.Unlock()
	for _, cl := range claims {
		delete(co.claims, cl.TopicPartition)
	}
	return err
}

// flush stores the positions of everything held.
func (co *Consumer) flush(ctx context.Context) error {
	co.storing.Lock()
	defer co.storing.Unlock()
	return co.store(ctx, co.held())
}

// held returns the claims there are.
func (co *Consumer) held() []*claim {
	co.mu.Lock()
	defer co.mu.Unlock()
	claims := make([]*claim, 0, len(co.claims))
	for _, cl := range co.claims {
		claims = append(claims, cl)
	}
	return claims
}

// store stores those positions of claims that have changed since they were stored. co.storing is held: what is stored of
// a partition later must not be older, and nothing may be stored of one that is given away.
func (co *Consumer) store(ctx context.Context, claims []*claim) error {
	var changed []Position
	var of []*claim
	for _, cl := range claims {
		cl.mu.Lock()
		if cl.offset != cl.stored {
			changed = append(changed, Position{TopicPartition: cl.TopicPartition, Offset: cl.offset, ID: cl.id})
			of = append(of, cl)
		}
		cl.mu.Unlock()
	}
	if len(changed) == 0 {
		return nil
	}
	if err := co.cfg.Offsets.Store(ctx, co.group, changed); err != nil {
		return fmt.Errorf("store positions of group %s: %w", co.group, err)
	}
	for i, cl := range of {
		cl.mu.Lock()
		cl.stored = changed[i].Offset
		cl.mu.Unlock()
	}
	return nil
}
