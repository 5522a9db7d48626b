package breaker

import "time"

const (
	// maxLead is by how many faults within the window one tenant may be ahead of all others together. It is less than
	// what opens a breaker (minFinished), whatever else the tenant sends.
	maxLead = 2
	// aloneAfter is how long no other tenant has called any backend before all faults of one count.
	aloneAfter = time.Minute
)

// blame decides which faults count against a backend. An error may be the request's doing, such as one that every engine
// fails at: what one tenant provokes must not take the backend from the others. Faults of several tenants are the
// backend's. It holds the tenant that is ahead with faults, as in Boyer and Moore's majority vote.
type blame struct {
	tenant string
	lead   int
	at     time.Time // of the last fault
}

// counts reports whether a fault counts. alone says that no other tenant is about, so that nobody else could confirm it. A
// call without a tenant's name always counts.
func (b *blame) counts(tenant string, alone bool, now time.Time) bool {
	if now.Sub(b.at) > Bucket*Buckets {
		*b = blame{}
	}
	b.at = now
	switch {
	case tenant == "":
	case b.lead == 0:
		b.tenant, b.lead = tenant, 1
	case b.tenant != tenant:
		b.lead--
	case b.lead < maxLead:
		b.lead++
	default:
		return alone
	}
	return true
}

// callers are the last two tenants with a call that has ended.
type callers [2]struct {
	tenant string
	at     time.Time
}

func (c *callers) note(tenant string, now time.Time) {
	if c[0].tenant != tenant {
		c[1] = c[0]
		c[0].tenant = tenant
	}
	c[0].at = now
}

// alone reports whether only this tenant is about.
func (c *callers) alone(tenant string, now time.Time) bool {
	other := c[0]
	if other.tenant == tenant {
		other = c[1]
	}
	return other.at.IsZero() || now.Sub(other.at) > aloneAfter
}
