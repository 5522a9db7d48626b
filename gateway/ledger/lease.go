package ledger

import "time"

// lease is a part of a tenant's limits and budgets that this replica has reserved in Redis beyond its requests: for as many as it
// had lately, until Redis is told of the tenant next. Requests that it covers do not ask Redis. So far from its limits a
// tenant costs a few commands in each beat, not four for each request.
type lease struct {
	charge charge
	ask    amounts
	begins begins    // of the windows in which it is reserved
	until  time.Time // it is not used any more
}

const (
	leaseTime  = 2 * flushInterval
	leaseShare = 10 // at most this part of what is left, or of a burst, so that others get the rest
)

// take has a request covered by the lease, or reports that it is not.
func (t *tenant) take(g *Reservation, now time.Time) bool {
	l := &t.lease
	rest, fits := l.charge.plus(g.charge, -1), amounts{l.ask.tokens - g.ask.tokens, l.ask.nanos - g.ask.nanos}
	if !now.Before(l.until) || l.begins != g.begins || g.charge[ofHigh] > 0 || min(rest[ofRequests], rest[ofTokens]) < 0 ||
		g.begins != (begins{}) && min(fits.tokens, fits.nanos) < 0 {
		return false
	}
	l.charge, l.ask = rest, fits
	g.shared = true
	return true
}

// worth is for how many requests like this one a lease is asked for: none where the tenant is near a limit or the end of a budget.
func (t *tenant) worth(g *Reservation, w rates) int64 {
	n := int64(t.last)
	if g.charge[ofHigh] > 0 || t.lease.begins != (begins{}) && t.lease.begins != g.begins {
		return 0
	}
	for i, level := range t.shared {
		if each := float64(g.charge[i]); w[i].perMinute > 0 && each > 0 {
			n = min(n, int64((w[i].slack-level)/leaseShare/each))
		}
	}
	for _, b := range g.request.Budgets {
		if each := g.ask.of(b); each > 0 {
			n = min(n, t.windows[indexOf(b)].left(b)/leaseShare/each)
		}
	}
	return max(n, 0)
}

// grant adds to the lease what Redis has reserved for n requests.
func (t *tenant) grant(g *Reservation, n int64, now time.Time) {
	l := &t.lease
	l.charge, l.until, l.begins = l.charge.plus(g.charge, int(n)), now.Add(leaseTime), g.begins
	l.ask = l.ask.plus(amounts{g.ask.tokens * n, g.ask.nanos * n})
}

// release ends the lease: Redis must be told what is left of it.
func (t *tenant) release() {
	t.reserve(t.lease.begins, t.lease.ask, -1)
	if t.limit.perMinute() {
		t.corrections = t.corrections.plus(t.lease.charge, -1)
	}
	t.lease, t.asked, t.last = lease{}, 0, t.asked
}

// unlease gives back the lease of a call that was refused, and the tenant's. It reports whether there was one: then the call is a
// new one.
func (l *Ledger) unlease(g *Reservation, c *call) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	t := g.tenant
	if c.leased == 0 && t.lease == (lease{}) {
		return false
	}
	t.reserve(g.begins, g.ask, -c.leased)
	t.release()
	l.send(t)
	*c = *l.newCall(t, g, 0, l.replicas(), l.now())
	return true
}

// sharedLevels are the levels that Redis told last, without the lease.
func (t *tenant) sharedLevels() (levels [numHeard]float64) {
	for i := range levels {
		levels[i] = max(0, t.shared[i]-float64(t.lease.charge[i]))
	}
	return levels
}
