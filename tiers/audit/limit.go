package audit

import (
	"time"

	"github.com/foregate/foregate/tiers/plan"
	"github.com/foregate/foregate/tiers/risk"
)

// limitEvery is after how many requests of a class it is computed again what is served of its mix, once a second at most: it
// takes up to 5 ms.
const limitEvery = 32

// mix is what this replica's requests of a class are made of, and what is served of it.
type mix struct {
	traffic risk.Sketch
	limit   risk.Limit
	since   int       // requests since it was computed
	seen    time.Time // when the evidence was read by which it was
}

// MixKey is what a request counts as in a mix: its application, and its mode, which may differ between applications of a class.
type MixKey struct {
	Application string
	Shadow      bool // its drafts are never served: it is no part of the mix of those that are
}

// CountInMix counts a request whose draft may be served as far as evidence says: one that the cost guard or scarcity keeps from its
// draft is no part of the mix that is served.
func (cs *Classes) CountInMix(k risk.Key, by MixKey) {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	m := cs.mixOf(k, by.Shadow)
	m.traffic.Add(by.Application)
	m.since++
}

// Limit returns the evidence as it holds for a request of an application: what is served keeps to the bound for the mix of
// applications that came to this replica last in the same mode.
func (cs *Classes) Limit(k risk.Key, v risk.View, by MixKey, state func(risk.Key) *risk.KeyState) risk.View {
	limit, due := cs.limit(k, v, by)
	if due != nil {
		limit = state(k).Limit(due)
		cs.mu.Lock()
		cs.mixOf(k, by.Shadow).limit = limit
		cs.mu.Unlock()
	}
	return limit.Of(v, by.Application)
}

// limit returns the limit that is known, and the traffic to compute it by if that is due.
func (cs *Classes) limit(k risk.Key, v risk.View, by MixKey) (risk.Limit, *risk.Sketch) {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	m := cs.mixOf(k, by.Shadow)
	if !v.Mixed {
		return risk.Limit{}, nil
	}
	if m.limit.IsFor(v) && (m.since < limitEvery || !v.Seen.After(m.seen)) {
		return m.limit, nil
	}
	m.since, m.seen = 0, v.Seen
	return m.limit, new(m.traffic.Clone())
}

// mixOf returns the mix of a class, which is the same whatever score judges its drafts. The caller holds mu.
func (cs *Classes) mixOf(k risk.Key, shadow bool) *mix {
	c := cs.of(plan.ScoredBy(k, 0))
	if shadow {
		return &c.shadow
	}
	return &c.mix
}
