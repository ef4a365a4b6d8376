package client

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/metaq-go/metaq/internal/coord"
)

const (
	refreshEvery = 30 * time.Second       // partitions are looked up again without a hint
	claimEvery   = 200 * time.Millisecond // a partition that another member still holds is tried again
	revokeWithin = 30 * time.Second       // OnRevoke may take so long
)

// belong makes the consumer a member, keeps its partitions those it should have, and gives all up at the end.
func (co *Consumer) belong() {
	m := &member{co: co, kick: make(chan struct{}, 1), id: co.cfg.Group + "_" + co.cfg.Member}
	defer m.leave()
	pause := firstPause
	for co.ctx.Err() == nil {
		again, err := m.balance(co.ctx)
		switch {
		case err != nil:
			if co.ctx.Err() == nil {
				co.client.cfg.Log.Warn("can't balance the group, trying again", "group", co.cfg.Group, "err", err)
			}
			sleep(co.ctx, pause)
			pause = min(2*pause, lastPause)
			continue
		case again:
			m.wait(co.ctx, claimEvery)
		default:
			m.wait(co.ctx, refreshEvery)
		}
		pause = firstPause
	}
}

// member is a consumer's place in its group.
type member struct {
	co      *Consumer
	id      string
	layout  coord.Layout
	session coord.Session // nil: not joined
	changed <-chan struct{}
	unwatch func()
	kick    chan struct{}
}

// wait waits for d or a hint that the group changed.
func (m *member) wait(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	var ended <-chan struct{}
	if m.session != nil {
		ended = m.session.Done()
	}
	select {
	case <-t.C:
	case <-m.changed:
	case <-ended:
	case <-ctx.Done():
	}
}

// balance brings the held partitions in line with the group. It reports whether some could not be claimed yet.
func (m *member) balance(ctx context.Context) (again bool, err error) {
	if err := m.join(ctx); err != nil {
		return false, err
	}
	want := make(map[TopicPartition]bool)
	for _, topic := range m.co.cfg.Topics {
		parts, err := m.co.client.Partitions(ctx, topic)
		if err != nil {
			return false, err
		}
		if !m.co.cfg.Broadcast {
			if parts, err = m.share(ctx, topic, parts); err != nil {
				return false, err
			}
		}
		for _, p := range parts {
			want[TopicPartition{topic, p}] = true
		}
	}
	m.co.mu.Lock()
	var lose []*claim
	for tp, cl := range m.co.claims {
		if !want[tp] {
			lose = append(lose, cl)
		}
		delete(want, tp)
	}
	m.co.mu.Unlock()
	if len(lose)+len(want) > 0 {
		m.co.rebalances.Add(1)
	}
	if err := m.revoke(lose); err != nil {
		return false, err
	}
	for tp := range want {
		ok, err := m.claim(ctx, tp)
		if err != nil {
			return false, err
		}
		again = again || !ok
	}
	return again, nil
}

// join makes the member known, again if its session has ended.
func (m *member) join(ctx context.Context) error {
	if m.co.cfg.Broadcast {
		return nil
	}
	if m.session != nil {
		select {
		case <-m.session.Done():
			if err := m.forget(); err != nil {
				return err
			}
		default:
			return nil
		}
	}
	s := m.co.client.coord.Session()
	node := m.layout.Member(m.co.cfg.Group, m.id)
	if err := s.Create(ctx, node, []byte(strings.Join(m.co.cfg.Topics, ",")), coord.Ephemeral); err != nil {
		return errors.Join(fmt.Errorf("join group %s: %w", m.co.cfg.Group, err), s.Close())
	}
	m.session = s
	m.changed, m.unwatch = s.Watch(m.layout.Members(m.co.cfg.Group))
	return nil
}

// forget gives up what was held under a session that has ended: others may hold it by now.
func (m *member) forget() error {
	m.unwatch()
	m.session = nil
	m.co.mu.Lock()
	var all []*claim
	for _, cl := range m.co.claims {
		all = append(all, cl)
	}
	m.co.mu.Unlock()
	return m.revoke(all)
}

// share returns which of a topic's partitions are this member's: contiguous ranges over the sorted members, the first
// ones getting one more if the division leaves a rest (client.md 19, the default strategy). Members and partitions are
// sorted as text, as MetaQ's clients do, so that all members come to the same result.
func (m *member) share(ctx context.Context, topic string, parts []Partition) ([]Partition, error) {
	names, err := m.session.Children(ctx, m.layout.Members(m.co.cfg.Group))
	if err != nil {
		return nil, err
	}
	var members []string
	for _, name := range names {
		topics, err := m.session.Get(ctx, m.layout.Member(m.co.cfg.Group, name))
		if errors.Is(err, coord.ErrNoNode) {
			continue // left meanwhile; the watch will say so
		}
		if err != nil {
			return nil, err
		}
		if slices.Contains(strings.Split(string(topics), ","), topic) {
			members = append(members, name)
		}
	}
	i, found := slices.BinarySearch(members, m.id)
	if !found {
		return nil, fmt.Errorf("group %s: member %s is not listed", m.co.cfg.Group, m.id)
	}
	slices.SortFunc(parts, func(a, b Partition) int { return strings.Compare(a.String(), b.String()) })
	n, rest := len(parts)/len(members), len(parts)%len(members)
	start := n*i + min(i, rest)
	if i < rest {
		n++
	}
	return parts[start : start+n], nil
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
	offset, err := m.co.position(ctx, tp)
	if err != nil {
		return false, errors.Join(err, m.disown(tp))
	}
	fctx, stop := context.WithCancel(m.co.ctx)
	cl := &claim{TopicPartition: tp, stop: stop, stopped: make(chan struct{}), offset: offset, id: -1, stored: offset}
	m.co.mu.Lock()
	m.co.claims[tp] = cl
	m.co.mu.Unlock()
	m.co.wait.Go(func() { m.co.fetch(fctx, cl, offset) })
	return true, nil
}

// position is where to begin: the stored one, else by configuration, which is then stored at once, so that a member that
// dies before its first commit does not begin elsewhere.
func (co *Consumer) position(ctx context.Context, tp TopicPartition) (int64, error) {
	offset, found, err := co.cfg.Offsets.Load(ctx, co.group, tp)
	if err != nil || found {
		return offset, err
	}
	start, end, err := co.client.Offsets(ctx, tp.Topic, tp.Partition)
	if err != nil {
		return 0, err
	}
	offset = start
	if co.cfg.Start == Latest {
		offset = end
	}
	return offset, co.cfg.Offsets.Store(ctx, co.group, []Position{{TopicPartition: tp, Offset: offset, ID: -1}})
}

// revoke gives partitions up: no more fetching, what is handed out is finished, the position is stored, and only then
// another member can have them.
func (m *member) revoke(claims []*claim) error {
	if len(claims) == 0 {
		return nil
	}
	tps := make([]TopicPartition, len(claims))
	for i, cl := range claims {
		tps[i] = cl.TopicPartition
		cl.leaving.Store(true)
		cl.stop()
		<-cl.stopped
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(m.co.ctx), revokeWithin)
	defer cancel()
	if m.co.cfg.OnRevoke != nil {
		m.co.cfg.OnRevoke(ctx, tps)
	}
	m.co.settle(claims)
	errs := []error{m.co.store(ctx, claims)}
	for _, cl := range claims {
		m.co.mu.Lock()
		delete(m.co.claims, cl.TopicPartition)
		m.co.mu.Unlock()
		errs = append(errs, m.disown(cl.TopicPartition))
	}
	return errors.Join(errs...)
}

// settle waits until Run has left a batch of one of the claims, and then lets their positions move no more.
func (co *Consumer) settle(claims []*claim) {
	co.busy.Lock()
	defer co.busy.Unlock()
	for _, cl := range claims {
		cl.revoked.Store(true)
	}
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

// leave gives everything up.
func (m *member) leave() {
	m.co.mu.Lock()
	var all []*claim
	for _, cl := range m.co.claims {
		all = append(all, cl)
	}
	m.co.mu.Unlock()
	if err := m.revoke(all); err != nil {
		m.co.client.cfg.Log.Error("leaving the group", "group", m.co.cfg.Group, "err", err)
	}
	if m.session != nil {
		m.unwatch()
		m.session.Close()
	}
}

// commitAll stores positions from time to time.
func (co *Consumer) commitAll() {
	t := time.NewTicker(co.cfg.CommitEvery)
	defer t.Stop()
	for {
		select {
		case <-t.C:
			if err := co.flush(co.ctx); err != nil && co.ctx.Err() == nil {
				co.client.cfg.Log.Warn("positions not stored, trying again", "group", co.group, "err", err)
			}
		case <-co.ctx.Done():
			return
		}
	}
}

// flush stores the positions of everything held.
func (co *Consumer) flush(ctx context.Context) error {
	co.mu.Lock()
	var claims []*claim
	for _, cl := range co.claims {
		claims = append(claims, cl)
	}
	co.mu.Unlock()
	return co.store(ctx, claims)
}

// store stores those positions of claims that have changed since they were stored.
func (co *Consumer) store(ctx context.Context, claims []*claim) error {
	var changed []Position
	for _, cl := range claims {
		cl.mu.Lock()
		if cl.offset != cl.stored {
			changed = append(changed, Position{TopicPartition: cl.TopicPartition, Offset: cl.offset, ID: cl.id})
		}
		cl.mu.Unlock()
	}
	if len(changed) == 0 {
		return nil
	}
	if err := co.cfg.Offsets.Store(ctx, co.group, changed); err != nil {
		return fmt.Errorf("store positions of group %s: %w", co.group, err)
	}
	for _, pos := range changed {
		for _, cl := range claims {
			if cl.TopicPartition == pos.TopicPartition {
				cl.mu.Lock()
				cl.stored = pos.Offset
				cl.mu.Unlock()
			}
		}
	}
	return nil
}
