package admission

import (
	"math"
	"slices"
)

// queue is who waits of one class. Tenants take turns by the tokens that they were let
// in with (start-time fair queueing, Goyal et al. 1996): the one that has had the least
// is next, and who comes anew begins where the one with the least is. Within a tenant
// it is first come, first served.
type queue struct {
	n       int
	tenants map[string]*turns

	order []*turns  // memory of heads
	first []*Waiter // the same
}

// turns are one tenant's requests that wait.
type turns struct {
	waiters []*Waiter
	had     float64 // tokens let in, counted from where it began
}

func (q *queue) join(w *Waiter) {
	t := q.tenants[w.Tenant]
	if t == nil {
		if q.tenants == nil {
			q.tenants = map[string]*turns{}
		}
		t = &turns{had: q.least()}
		q.tenants[w.Tenant] = t
	}
	t.waiters = append(t.waiters, w)
	q.n++
}

// least is what the tenant with the least has had.
func (q *queue) least() float64 {
	least := math.Inf(1)
	for _, t := range q.tenants {
		least = min(least, t.had)
	}
	if math.IsInf(least, 1) {
		return 0
	}
	return least
}

// head is whose turn it is, nil when nobody waits.
func (q *queue) head() *Waiter {
	var next *turns
	for _, t := range q.tenants {
		if next == nil || t.before(next) {
			next = t
		}
	}
	if next == nil {
		return nil
	}
	return next.waiters[0]
}

// patient is how many of the tenant's first requests wait only for the backends where they
// are warm: whoever is behind them is next.
func (t *turns) patient() int {
	n := 0
	for n < len(t.waiters) && t.waiters[n].last.FreeElsewhere {
		n++
	}
	return n
}

// heads are the first of each tenant, in the order of the tenants' turns: those that are
// patient, the first that is not, and the first behind it that is so much smaller that it
// may pass.
func (q *queue) heads() []*Waiter {
	q.order = q.order[:0]
	for _, t := range q.tenants {
		q.order = append(q.order, t)
	}
	slices.SortFunc(q.order, func(a, b *turns) int {
		if a.before(b) {
			return -1
		}
		return 1
	})
	q.first = q.first[:0]
	for _, t := range q.order {
		n := t.patient()
		q.first = append(q.first, t.waiters[:n]...)
		if n == len(t.waiters) {
			continue
		}
		first := t.waiters[n]
		q.first = append(q.first, first)
		if i := slices.IndexFunc(t.waiters[n:], func(w *Waiter) bool { return w.Tokens < first.Tokens/muchSmaller }); i > 0 {
			q.first = append(q.first, t.waiters[n+i])
		}
	}
	return q.first
}

// before tells whose turn is first. Between tenants that have had the same it is the one
// that waits longest, so that the order does not hang on the map's.
func (t *turns) before(o *turns) bool {
	return t.had < o.had || t.had == o.had && earlier(t.waiters[0], o.waiters[0])
}

// crowded reports whether there is no place for w. A tenant of whom few wait still finds
// one, so that nobody fills the line for others.
func (q *queue) crowded(w *Waiter) bool {
	if q.n < maxWaiting {
		return false
	}
	t := q.tenants[w.Tenant]
	return q.n >= 2*maxWaiting || t != nil && len(t.waiters) >= fewWaiting
}

func earlier(a, b *Waiter) bool {
	if !a.until.Equal(b.until) {
		return a.until.Before(b.until)
	}
	return a.Tenant < b.Tenant
}

// served takes w out, as one that was let in.
func (q *queue) served(w *Waiter) {
	t := q.tenants[w.Tenant]
	t.had += float64(max(w.Tokens, 1))
	q.leave(w)
}

// leave takes w out and reports whether it was in.
func (q *queue) leave(w *Waiter) bool {
	t := q.tenants[w.Tenant]
	if t == nil {
		return false
	}
	i := slices.Index(t.waiters, w)
	if i < 0 {
		return false
	}
	t.waiters = slices.Delete(t.waiters, i, i+1)
	q.n--
	if len(t.waiters) == 0 {
		delete(q.tenants, w.Tenant)
	}
	return true
}

// over are those whose wait is over, the longest waiting first.
func (q *queue) over(is func(*Waiter) bool) []*Waiter {
	var over []*Waiter
	for _, t := range q.tenants {
		for _, w := range t.waiters {
			if is(w) {
				over = append(over, w)
			}
		}
	}
	slices.SortFunc(over, func(a, b *Waiter) int {
		if earlier(a, b) {
			return -1
		}
		return 1
	})
	return over
}
