// Package blame tells faults of one tenant's making from faults that concern all. Start at [Blame].
package blame

import "time"

const (
	// maxLead is by how many faults within the window one tenant may be ahead of all others together. It is less than what opens
	// a breaker, whatever else the tenant sends.
	maxLead = 2
	// Window is how long faults and good answers are remembered.
	Window = 10 * time.Second
)

// Blame decides which faults count against a backend, or against the scores of a pool. A request can cause an error at every
// engine. What one tenant provokes must not take the backend from the others, to whom it answers well. Faults of several
// tenants are the backend's. Blame holds the tenant that is ahead with faults, as in Boyer and Moore's majority vote.
type Blame struct {
	tenant string
	lead   int
	at     time.Time // of the last fault

	well [2]answered // the last two tenants to whom it has answered well, the last first
}

type answered struct {
	tenant string
	at     time.Time
}

// Counts reports whether a fault counts. Beyond the lead it does if no other tenant was answered well within the window: then
// nobody is known for whom the backend works. A call without a tenant's name always counts.
func (b *Blame) Counts(tenant string, now time.Time) bool {
	if now.Sub(b.at) > Window {
		b.tenant, b.lead = "", 0
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
		other := b.well[0]
		if other.tenant == tenant {
			other = b.well[1]
		}
		return other.at.IsZero() || now.Sub(other.at) > Window
	}
	return true
}

// AnsweredWell notes a good answer to a tenant.
func (b *Blame) AnsweredWell(tenant string, now time.Time) {
	if b.well[0].tenant != tenant {
		b.well[1] = b.well[0]
	}
	b.well[0] = answered{tenant, now}
}
