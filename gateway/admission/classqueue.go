package admission

import (
	"cmp"
	"maps"
	"slices"
	"strings"
)

// classQueue holds the waiting requests of one class. Tenants take turns by the tokens that were admitted for
// them (start-time fair queueing, Goyal et al. 1996): the tenant with the fewest tokens is next, and a new
// tenant starts with the lowest count of the others. Requests of one tenant are served in order of arrival.
type classQueue struct {
	n       int
	tenants map[string]*tenantQueue
}

// tenantQueue holds the waiting requests of one tenant.
type tenantQueue struct {
	tickets      []*Ticket
	servedTokens float64 // tokens admitted, counted from the start value
}

func (q *classQueue) join(w *Ticket) {
	t := q.tenants[w.Tenant]
	if t == nil {
		if q.tenants == nil {
			q.tenants = map[string]*tenantQueue{}
		}
		t = &tenantQueue{}
		if next := q.next(); next != nil {
			t.servedTokens = next.servedTokens
		}
		q.tenants[w.Tenant] = t
	}
	t.tickets = append(t.tickets, w)
	q.n++
}

// next returns the tenant whose turn it is, nil if none waits.
func (q *classQueue) next() *tenantQueue {
	if q.n == 0 {
		return nil
	}
	return slices.MinFunc(slices.Collect(maps.Values(q.tenants)), (*tenantQueue).compare)
}

// waitingForWarm is the number of requests at the head of the tenant's queue that wait only for their warm
// backends. The request behind them is next.
func (t *tenantQueue) waitingForWarm() int {
	n := 0
	for n < len(t.tickets) && t.tickets[n].lastFull.FreeElsewhere {
		n++
	}
	return n
}

// candidates returns the requests to try, in the order of the tenants' turns. For each tenant: those that
// wait for their warm backends, the first other one, and the first one behind it that is so much smaller that
// it may pass.
func (q *classQueue) candidates() []*Ticket {
	var all []*Ticket
	for _, t := range slices.SortedFunc(maps.Values(q.tenants), (*tenantQueue).compare) {
		n := t.waitingForWarm()
		all = append(all, t.tickets[:n]...)
		if n == len(t.tickets) {
			continue
		}
		first := t.tickets[n]
		all = append(all, first)
		if i := slices.IndexFunc(t.tickets[n:], func(w *Ticket) bool { return w.Tokens < first.Tokens/passingFactor }); i > 0 {
			all = append(all, t.tickets[n+i])
		}
	}
	return all
}

// compare orders tenants by their turns. With equal tokens, the tenant that waits longest is first, so that the order
// does not depend on the map's.
func (t *tenantQueue) compare(o *tenantQueue) int {
	if c := cmp.Compare(t.servedTokens, o.servedTokens); c != 0 {
		return c
	}
	return t.tickets[0].compare(o.tickets[0])
}

// full reports whether the queue has no place for w. A tenant with few waiting requests still gets a place,
// so that no tenant can fill the queue for others.
func (q *classQueue) full(w *Ticket) bool {
	if q.n < maxWaiting {
		return false
	}
	t := q.tenants[w.Tenant]
	return q.n >= 2*maxWaiting || t != nil && len(t.tickets) >= guaranteedPerTenant
}

// compare orders tickets by the ends of their waits.
func (t *Ticket) compare(o *Ticket) int {
	return cmp.Or(t.deadline.Compare(o.deadline), strings.Compare(t.Tenant, o.Tenant))
}

// served removes an admitted request.
func (q *classQueue) served(w *Ticket) {
	q.tenants[w.Tenant].servedTokens += float64(max(w.Tokens, 1))
	q.leave(w)
}

// leave removes w and reports whether it was in the queue.
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

// expired returns the requests whose wait is over, the longest waiting first.
func (q *classQueue) expired(is func(*Ticket) bool) []*Ticket {
	var over []*Ticket
	for _, t := range q.tenants {
		for _, w := range t.tickets {
			if is(w) {
				over = append(over, w)
			}
		}
	}
	slices.SortFunc(over, (*Ticket).compare)
	return over
}
