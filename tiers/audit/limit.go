package audit

import "github.com/foregate/foregate/tiers/risk"

// limitEvery is after how many requests of a class it is computed again what is served of its mix.
const limitEvery = 32

// mix is what this replica's requests of a class are made of, and what is served of it.
type mix struct {
	traffic risk.Sketch
	limit   risk.Limit
	since   int // requests since it was computed
}

// Limit counts a request of an application, and returns the evidence as it holds for that: what is served keeps to the bound
// for the mix of applications that came to this replica last.
func (cs *Classes) Limit(k risk.Key, v risk.View, application string, mixed func(risk.Key) *risk.Mixed) risk.View {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	m := &cs.of(k).mix
	m.traffic.Add(application)
	if !v.Mixed || !v.Serves() {
		return v
	}
	if m.since++; m.since >= limitEvery || !m.limit.IsFor(v) {
		m.limit, m.since = mixed(k).Limit(&m.traffic), 0
	}
	return m.limit.Of(v, application)
}
