package demo

import (
	"context"
	"time"

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
		classes, _ := d.replicas[0].Evidence.Summaries(ctx) // none while Redis is away
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
			n, name := int(m.GetCounter().GetValue()), f.GetName()
			if name == "foregate_shed_total" {
				t.shed += n
			}
			for _, l := range m.GetLabel() {
				switch name + "/" + l.GetName() + "=" + l.GetValue() {
				case "foregate_requests_total/route=" + d.route:
					t.requests += n
				case "foregate_acceptance_total/verdict=accepted":
					t.accepted += n
				case "foregate_acceptance_total/verdict=rejected":
					t.escalated += n
				case "llm_cache_requests_total/result=hit", "llm_cache_requests_total/result=local", "llm_cache_requests_total/result=coalesced":
					t.cached += n
				}
			}
		}
	}
	return t
}
