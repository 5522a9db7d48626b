package pool

import (
	"maps"
	"time"
)

// order is one to drain a backend.
type order struct {
	why   string
	until time.Time // zero is without end
}

// maxDrains bounds the orders that a pool keeps for backends that may yet come.
const maxDrains = 4096

// drains are why a backend gets no new requests: what all replicas know, and what only
// this one could be told because the others were out of reach.
type drains struct {
	fleet string
	here  order
	told  string // what was logged last
}

// why is "" when it is not drained.
func (d *drains) why(now time.Time) string {
	switch {
	case d.fleet != "":
		return d.fleet
	case d.here.why != "" && (d.here.until.IsZero() || now.Before(d.here.until)):
		return d.here.why
	}
	return ""
}

// drainChange is a change of a backend's drain that is to be logged.
type drainChange struct {
	backend, why string
	inflight     int
}

// redrain takes in that b's drain may have changed, and appends to changes if it has. One that has
// come back takes its turns gradually. The caller holds the pool's lock.
func (b *backend) redrain(changes []drainChange, now time.Time) []drainChange {
	why := b.drained.why(now)
	switch why {
	case b.drained.told:
		return changes
	case "":
		b.vitals.Came(now)
		b.metrics.drained.Set(0)
	default:
		b.metrics.drained.Set(1)
	}
	b.drained.told = why
	return append(changes, drainChange{b.id, why, b.account.All().Requests})
}

func (p *Pool) logDrains(changes []drainChange) {
	for _, c := range changes {
		p.log.Info().Str("backend", c.backend).Str("why", c.why).Bool("drained", c.why != "").Int("inflight", c.inflight).Msg("backend's drain changed")
	}
}

// HearDrains takes in which backends are drained, by id, and why: all of them, such as
// are to come among them. Those that are not named get requests again. What all know
// of a backend stands in the place of what only this replica was told.
func (p *Pool) HearDrains(drained map[string]string) {
	now := p.now()
	var changes []drainChange
	p.locked(func() {
		p.fleetDrains = maps.Clone(drained)
		for id := range drained {
			delete(p.ownDrains, id)
		}
		for _, b := range *p.set.Load() {
			b.drained.fleet, b.drained.here = drained[b.id], p.ownDrains[b.id]
			changes = b.redrain(changes, now)
		}
	})
	p.logDrains(changes)
}

// Drain gives a backend no new requests for d (0: until Undrain), and lets what runs
// there finish. Only this replica knows. It reports whether there is such a backend.
func (p *Pool) Drain(id, why string, d time.Duration) bool {
	now := p.now()
	o := order{why: why}
	if d > 0 {
		o.until = now.Add(d)
	}
	var changes []drainChange
	var b *backend
	p.locked(func() {
		if b = p.byID[id]; b == nil {
			return
		}
		if len(p.ownDrains) < maxDrains {
			p.ownDrains[id] = o // it may leave and come back
		}
		b.drained.here = o
		changes = b.redrain(changes, now)
	})
	p.logDrains(changes)
	return b != nil
}

// Undrain ends this replica's own Drain. It reports whether the backend gets requests
// now: not if all replicas hold it drained, or there is none such.
func (p *Pool) Undrain(backend string) (undrained bool) {
	now := p.now()
	var changes []drainChange
	p.locked(func() {
		delete(p.ownDrains, backend)
		if b := p.byID[backend]; b != nil {
			b.drained.here = order{}
			changes = b.redrain(changes, now)
			undrained = b.drained.fleet == ""
		}
	})
	p.logDrains(changes)
	return undrained
}
