package admission

import (
	"math"
	"slices"
)

// classQueue is who waits of one class. Tenants take turns by the tokens that they were let
// in with (start-time fair queueing, Goyal et al. 1996): the one that has had the least
// is next, and who comes anew begins where the one with the least is. Within a tenant
// it is first come, first served.
type classQueue struct {
	n       int
	tenants map[string]*tenantQueue

	tenantOrder     []*tenantQueue // memory of heads
	candidateBuffer []*Ticket      // the same
}

// tenantQueue are one tenant's requests that wait.
type tenantQueue struct {
	tickets      []*Ticket
	servedTokens float64 // tokens let in, counted from where it began
}

func (q *classQueue) join(w *Ticket) {
	t := q.tenants[w.Tenant]
	if t == nil {
		if q.tenants == nil {
			q.tenants = map[string]*tenantQueue{}
		}
		t = &tenantQueue{servedTokens: q.minServedTokens()}
		q.tenants[w.Tenant] = t
	}
	t.tickets = append(t.tickets, w)
	q.n++
}

// minServedTokens is what the tenant with the least has had.
func (q *classQueue) minServedTokens() float64 {
	least := math.Inf(1)
	for _, t := range q.tenants {
		least = min(least, t.servedTokens)
	}
	if math.IsInf(least, 1) {
		return 0
	}
	return least
}

// first is whose turn it is, nil when nobody waits.
func (q *classQueue) first() *Ticket {
	var next *tenantQueue
	for _, t := range q.tenants {
		if next == nil || t.before(next) {
			next = t
		}
	}
	if next == nil {
		return nil
	}
	return next.tickets[0]
}

// waitingForWarm is how many of the tenant's first requests wait only for the backends where they
// are warm: whoever is behind them is next.
func (t *tenantQueue) waitingForWarm() int {
	n := 0
	for n < len(t.tickets) && t.tickets[n].lastFull.FreeElsewhere {
		n++
	}
	return n
}

// candidates are the first of each tenant, in the order of the tenants' turns: those that are
// patient, the first that is not, and the first behind it that is so much smaller that it
// may pass.
func (q *classQueue) candidates() []*Ticket {
	q.tenantOrder = q.tenantOrder[:0]
	for _, t := range q.tenants {
		q.tenantOrder = append(q.tenantOrder, t)
	}
	slices.SortFunc(q.tenantOrder, func(a, b *tenantQueue) int {
		if a.before(b) {
			return -1
		}
		return 1
	})
	q.candidateBuffer = q.candidateBuffer[:0]
	for _, t := range q.tenantOrder {
		n := t.waitingForWarm()
		q.candidateBuffer = append(q.candidateBuffer, t.tickets[:n]...)
		if n == len(t.tickets) {
			continue
		}
		first := t.tickets[n]
		q.candidateBuffer = append(q.candidateBuffer, first)
		if i := slices.IndexFunc(t.tickets[n:], func(w *Ticket) bool { return w.Tokens < first.Tokens/passingFactor }); i > 0 {
			q.candidateBuffer = append(q.candidateBuffer, t.tickets[n+i])
		}
	}
	return q.candidateBuffer
}

// before tells whose turn is first. Between tenants that have had the same it is the one
// that waits longest, so that the order does not hang on the map's.
func (t *tenantQueue) before(o *tenantQueue) bool {
	return t.servedTokens < o.servedTokens || t.servedTokens == o.servedTokens && earlier(t.tickets[0], o.tickets[0])
}

// full reports whether there is no place for w. A tenant of whom few wait still finds
// one, so that nobody fills the line for others.
func (q *classQueue) full(w *Ticket) bool {
	if q.n < maxWaiting {
		return false
	}
	t := q.tenants[w.Tenant]
	return q.n >= 2*maxWaiting || t != nil && len(t.tickets) >= guaranteedPerTenant
}

func earlier(a, b *Ticket) bool {
	if !a.deadline.Equal(b.deadline) {
		return a.deadline.Before(b.deadline)
	}
	return a.Tenant < b.Tenant
}

// served takes w out, as one that was let in.
func (q *classQueue) served(w *Ticket) {
	t := q.tenants[w.Tenant]
	t.servedTokens += float64(max(w.Tokens, 1))
	q.leave(w)
}

// leave takes w out and reports whether it was in.
func (q *classQueue) leave(w *Ticket) bool {
	t := q.tenants[w.Tenant]
	if t == nil {
		return false
	}
	i := slices.Index(t.tickets, w)
	if i < 0 {
		return false
	}
	t.tickets = slices.Delete(t.tickets, i, i+1)
	q.n--
	if len(t.tickets) == 0 {
		delete(q.tenants, w.Tenant)
	}
	return true
}

// expired are those whose wait is over, the longest waiting first.
func (q *classQueue) expired(is func(*Ticket) bool) []*Ticket {
	var over []*Ticket
	for _, t := range q.tenants {
		for _, w := range t.tickets {
			if is(w) {
				over = append(over, w)
			}
		}
	}
	slices.SortFunc(over, func(a, b *Ticket) int {
		if earlier(a, b) {
			return -1
		}
		return 1
	})
	return over
}
