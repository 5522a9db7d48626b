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

// head is whose turn it is, nil when nobody waits. Between tenants that have had the
// same, the one that waits longest, so that the order does not hang on the map's.
func (q *queue) head() *Waiter {
	var next *turns
	for _, t := range q.tenants {
		if next == nil || t.had < next.had || t.had == next.had && earlier(t.waiters[0], next.waiters[0]) {
			next = t
		}
	}
	if next == nil {
		return nil
	}
	return next.waiters[0]
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

// over takes out whose wait is over, the longest waiting first.
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
	for _, w := range over {
		q.leave(w)
	}
	return over
}
