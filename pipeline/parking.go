package pipeline

import (
	"container/heap"
	"time"
)

// parking holds the tuples of one task that wait for their next attempt. In Ordered mode later tuples of the same order
// key wait behind them.
type parking[T any] struct {
	ordered bool
	lots    lots[T]
	byKey   map[uint32]*lot[T] // Ordered mode only
	size    int                // tuples in all lots
}

// lot is one failed tuple and what waits behind it.
type lot[T any] struct {
	due     time.Time
	attempt int // the next one of the first
	values  []T
	anchors []anchor
}

// A task takes no more input while it has so many failed tuples, or so many waiting behind them. When everything fails,
// because what a bolt depends on is away, this keeps all but a few tuples from using up their attempts.
const (
	maxLots   = 128
	maxParked = 8192
)

func (p *parking[T]) empty() bool { return p.size == 0 }
func (p *parking[T]) full() bool  { return len(p.lots) >= maxLots || p.size >= maxParked }

// next is when the first lot is due; there must be one.
func (p *parking[T]) next() time.Time { return p.lots[0].due }

// behind parks a tuple if one of its key is parked already.
func (p *parking[T]) behind(v T, a anchor) bool {
	if !p.ordered {
		return false
	}
	l, ok := p.byKey[a.key()]
	if ok {
		l.values, l.anchors = append(l.values, v), append(l.anchors, a)
		p.size++
	}
	return ok
}

func (p *parking[T]) park(v T, a anchor, attempt int, due time.Time) {
	l := &lot[T]{due: due, attempt: attempt, values: []T{v}, anchors: []anchor{a}}
	heap.Push(&p.lots, l)
	p.size++
	if p.ordered {
		if p.byKey == nil {
			p.byKey = make(map[uint32]*lot[T])
		}
		p.byKey[a.key()] = l
	}
}

// due removes a lot whose time has come; nil if there is none.
func (p *parking[T]) due() *lot[T] {
	if len(p.lots) == 0 || time.Now().Before(p.lots[0].due) {
		return nil
	}
	l := heap.Pop(&p.lots).(*lot[T])
	if p.ordered {
		delete(p.byKey, l.anchors[0].key())
	}
	p.size -= len(l.values)
	return l
}

// lots is a heap by due time.
type lots[T any] []*lot[T]

func (l lots[T]) Len() int           { return len(l) }
func (l lots[T]) Less(i, j int) bool { return l[i].due.Before(l[j].due) }
func (l lots[T]) Swap(i, j int)      { l[i], l[j] = l[j], l[i] }
func (l *lots[T]) Push(x any)        { *l = append(*l, x.(*lot[T])) }
func (l *lots[T]) Pop() any {
	last := len(*l) - 1
	x := (*l)[last]
	(*l)[last] = nil
	*l = (*l)[:last]
	return x
}
