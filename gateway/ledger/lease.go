package ledger

import "time"

// lease is a part of a tenant's limits and budgets that this replica has reserved in Redis beyond its requests: for as many as it
// had lately, until Redis is told of the tenant next. Requests that it covers do not ask Redis. So far from its limits a
// tenant costs a few commands in each beat, not four for each request.
type lease struct {
	cost
	in    begins // of the windows in which it is reserved
	until time.Time
}

const (
	leaseTime  = 2 * flushInterval
	leaseShare = 10 // at most this part of what is left, or of a burst, so that others get the rest
)

// take has a request covered by the lease, or reports that it is not.
func (t *tenant) take(g *Reservation, now time.Time) bool {
	l := &t.lease
	rest := l.plus(g.cost.times(-1))
	if !now.Before(l.until) || l.in != g.in || g.cost[ofHigh] > 0 || min(rest[ofRequests], rest[ofTokens], rest[ofNanos]) < 0 {
		return false
	}
	l.cost, g.shared = rest, true
	return true
}

// worth is for how many requests like this one a lease is asked for: none where the tenant is near a limit or the end of a budget.
func (t *tenant) worth(g *Reservation, w rates) int64 {
	n := int64(t.last)
	if g.cost[ofHigh] > 0 || t.lease.in != (begins{}) && t.lease.in != g.in {
		return 0
	}
	for i, level := range t.shared {
		if each := float64(g.cost[i]); w[i].perMinute > 0 && each > 0 {
			n = min(n, int64((w[i].slack-level)/leaseShare/each))
		}
	}
	for _, b := range g.request.Budgets {
		if each := g.cost.of(b); each > 0 {
			n = min(n, t.windows[indexOf(b)].room(b, true)/leaseShare/each)
		}
	}
	return max(n, 0)
}

// release ends the lease: Redis must be told what is left of it.
func (t *tenant) release() {
	unused := t.lease.times(-1)
	t.windows.add(t.lease.in, cost{}, unused)
	if t.limit.perMinute() {
		t.corrections = t.corrections.plus(unused)
	}
	t.lease, t.asked, t.last = lease{}, 0, t.asked
}

// hold keeps reserved what a call that failed asked for a lease: Redis may have counted it, and others have not heard of what is
// left. It is free when Redis is believed again.
func (t *tenant) hold(c *call, in begins) {
	if t.held.in != in {
		t.unhold()
		t.held.in = in
	}
	t.held.cost = t.held.plus(c.leased)
}

// unhold frees what is held, and reports whether something was.
func (t *tenant) unhold() bool {
	held := t.held
	t.held = lease{}
	return held.cost != cost{} && t.windows.add(held.in, cost{}, held.times(-1))
}

// unlease gives back the lease of a call that was refused, and the tenant's. It reports whether there was one: then the call is a
// new one.
func (l *Ledger) unlease(g *Reservation, c *call) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	t := g.tenant
	if c.leased == (cost{}) && t.lease == (lease{}) {
		return false
	}
	t.windows.add(g.in, cost{}, c.leased.times(-1))
	t.release()
	l.send(t)
	*c = *l.newCall(t, g, 0, l.now())
	return true
}

// sharedLevels are the levels that Redis told last, without the lease.
func (t *tenant) sharedLevels() (levels [numHeard]float64) {
	for i := range levels {
		levels[i] = max(0, t.shared[i]-float64(t.lease.cost[i]))
	}
	return levels
}
