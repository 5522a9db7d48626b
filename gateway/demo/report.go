package demo

import (
	"context"
	"time"

	dto "github.com/prometheus/client_model/go"

	"github.com/foregate/foregate/gateway/display"
	"github.com/foregate/foregate/tiers/risk"
)

// report prints a line per second until ctx ends, and each change of the guarantee; with real engines only where something
// has happened.
func (d *demo) report(ctx context.Context) {
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	var last totals
	phases := map[string]risk.Phase{} // by traffic class
	for {
		select {
		case <-ctx.Done():
			d.say("\nstopping\n")
			return
		case <-tick.C:
		}
		now := d.totals()
		if d.Pair != nil && now == last {
			continue
		}
		d.say("%s  requests %3d (+%d)  accepted %3d  escalated %3d  cached %3d  shed %3d\n",
			time.Now().Format(time.TimeOnly), now.requests, now.requests-last.requests, now.accepted, now.escalated, now.cached, now.shed)
		last = now
		classes, _ := d.replicas[0].Guarantees(ctx) // none while Redis is away
		for i := range classes {
			c := &classes[i]
			if phases[c.TrafficClass] != c.Phase {
				phases[c.TrafficClass] = c.Phase
				d.say("          guarantee of %s, %s: %s after %s, disagreement below %s\n",
					c.Route, c.TrafficClass, c.Phase, display.Count(c.Audits, "audit", "audits"), display.Percent(c.Bound))
			}
		}
	}
}

// totals are counts since the start, over all replicas.
type totals struct{ requests, accepted, escalated, cached, shed int }

// totals sums the replicas' counters.
func (d *demo) totals() (t totals) {
	families, _ := d.registry.Gather()
	for _, f := range families {
		for _, m := range f.GetMetric() {
			n := int(m.GetCounter().GetValue())
			switch f.GetName() + "/" + label(m, "verdict") + label(m, "result") {
			case "foregate_requests_total/":
				if label(m, "route") == d.route {
					t.requests += n
				}
			case "foregate_acceptance_total/accepted":
				t.accepted += n
			case "foregate_acceptance_total/rejected":
				t.escalated += n
			case "llm_cache_requests_total/hit", "llm_cache_requests_total/local", "llm_cache_requests_total/coalesced":
				t.cached += n
			case "foregate_shed_total/":
				t.shed += n
			}
		}
	}
	return t
}

// label returns the value of a metric's label, "" if it has none.
func label(m *dto.Metric, name string) string {
	for _, l := range m.GetLabel() {
		if l.GetName() == name {
			return l.GetValue()
		}
	}
	return ""
}
