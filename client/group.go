package client

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/metaq-go/metaq/internal/coord"
	"github.com/metaq-go/metaq/protocol"
)

const (
	refreshEvery = 30 * time.Second       // partitions are looked up again without a hint
	claimEvery   = 200 * time.Millisecond // a partition that another member still holds is tried again
	missingEvery = 2 * time.Second        // so is a topic that the broker does not have
	revokeWithin = 30 * time.Second       // OnRevoke may take so long
)

// belong makes the consumer a member, keeps its partitions those it should have, and gives all up at the end.
func (co *Consumer) belong() {
	m := &member{co: co, id: co.cfg.Group + "_" + co.cfg.Member, first: make(map[string]map[Partition]bool)}
	pause := firstPause
	for co.ctx.Err() == nil {
		wait, err := m.balance(co.ctx)
		switch {
		case err == nil:
			m.wait(co.ctx, wait)
			pause = firstPause
		case co.ctx.Err() != nil:
		case errors.Is(err, ErrClosed): // the client was closed before us
			co.cancel(ErrClosed)
		default:
			co.client.cfg.Log.Warn("can't balance the group, trying again", "group", co.cfg.Group, "err", err)
			sleep(co.ctx, pause)
			pause = min(2*pause, lastPause)
		}
	}
	co.left = m.leave()
}

// member is a consumer's place in its group.
type member struct {
	co      *Consumer
	id      string
	layout  coord.Layout
	session coord.Session // nil: not joined
	changed <-chan struct{}
	unwatch func()
	first   map[string]map[Partition]bool // of each topic, the partitions it had when the member came
	missing map[string]bool               // topics that the broker does not have
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

// balance brings the held partitions in line with the group. It returns how long that is good for without a hint.
func (m *member) balance(ctx context.Context) (wait time.Duration, err error) {
	if err := m.join(ctx); err != nil {
		return 0, err
	}
	wait = refreshEvery
	want := make(map[TopicPartition]bool)
	for _, topic := range m.co.cfg.Topics {
		parts, err := m.partitions(ctx, topic)
		if err != nil {
			return 0, err
		}
		if m.missing[topic] {
			wait = missingEvery
			continue
		}
		if !m.co.cfg.Broadcast {
			if parts, err = m.share(ctx, topic, parts); err != nil {
				return 0, err
			}
		}
		for _, p := range parts {
			want[TopicPartition{topic, p}] = true
		}
	}
	var lose []*claim
	for _, cl := range m.co.held() {
		if !want[cl.TopicPartition] && !m.missing[cl.Topic] {
			lose = append(lose, cl)
		}
		delete(want, cl.TopicPartition)
	}
	changed := len(lose) > 0
	defer func() {
		if changed {
			m.co.rebalances.Add(1)
		}
	}()
	if err := m.revoke(lose, false); err != nil {
		return 0, err
	}
	for tp := range want {
		ok, err := m.claim(ctx, tp)
		if err != nil {
			return 0, err
		}
		changed = changed || ok
		if !ok {
			wait = claimEvery
		}
	}
	return wait, nil
}

// partitions returns the partitions of a topic. One that does not exist, yet or any more, is noted as missing; it is no
// reason to leave the others alone.
func (m *member) partitions(ctx context.Context, topic string) ([]Partition, error) {
	parts, err := m.co.client.Partitions(ctx, topic)
	var status *protocol.StatusError
	missing := errors.As(err, &status) && status.Code == protocol.NotFound
	if err != nil && !missing {
		return nil, err
	}
	if missing && !m.missing[topic] {
		m.co.client.cfg.Log.Warn("topic does not exist, waiting for it", "group", m.co.cfg.Group, "topic", topic, "err", err)
	}
	if m.missing == nil {
		m.missing = make(map[string]bool)
	}
	m.missing[topic] = missing
	if m.first[topic] == nil {
		m.first[topic] = make(map[Partition]bool)
		for _, p := range parts {
			m.first[topic][p] = true
		}
	}
	return parts, nil
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
	return m.revoke(m.co.held(), true)
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
	return rangeOf(parts, i, len(members)), nil
}

// rangeOf returns the share of member i of n.
func rangeOf(parts []Partition, i, n int) []Partition {
	parts = slices.SortedFunc(slices.Values(parts), func(a, b Partition) int { return strings.Compare(a.String(), b.String()) })
	each, rest := len(parts)/n, len(parts)%n
	start := each*i + min(i, rest)
	if i < rest {
		each++
	}
	return parts[start : start+each]
}

// leave gives everything up.
func (m *member) leave() error {
	err := m.revoke(m.co.held(), false)
	if m.session != nil {
		m.unwatch()
		err = errors.Join(err, m.session.Close())
	}
	return err
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
