package demo

import (
	"context"
	"fmt"
	"regexp"
	"strings"
	"time"

	"github.com/foregate/foregate/gateway/display"
	"github.com/foregate/foregate/tiers/risk"
)

// guaranteeReport prints each change of the guarantee.
type guaranteeReport struct {
	say  func(line string)
	last map[string]risk.Phase // by traffic class
}

// tell prints the traffic classes whose phase has changed.
func (r *guaranteeReport) tell(classes []risk.Summary) {
	for i := range classes {
		c := &classes[i]
		if r.last[c.TrafficClass] == c.Phase {
			continue
		}
		r.last[c.TrafficClass] = c.Phase
		r.say(fmt.Sprintf("          guarantee of %s, %s: %s after %s, disagreement below %s",
			c.Route, c.TrafficClass, c.Phase, display.Count(c.Audits, "audit", "audits"), display.Percent(c.Bound)))
	}
}

// report prints a line per second until ctx ends; with real engines only where something has happened.
func (d *demo) report(ctx context.Context) {
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	var last totals
	guarantee := guaranteeReport{say: func(text string) { _, _ = fmt.Fprintln(d.Stdout, text) }, last: map[string]risk.Phase{}}
	for {
		select {
		case <-ctx.Done():
			_, _ = fmt.Fprintln(d.Stdout, "\nstopping")
			return
		case <-tick.C:
		}
		now := d.totals()
		if d.Pair != nil && now == last {
			continue
		}
		_, _ = fmt.Fprintf(d.Stdout, "%s  requests %3d (+%d)  accepted %3d  escalated %3d  cached %3d  shed %3d\n",
			time.Now().Format(time.TimeOnly), now.requests, now.requests-last.requests, now.accepted, now.escalated, now.cached, now.shed)
		last = now
		if classes, err := d.replicas[0].Guarantees(ctx); err == nil {
			guarantee.tell(classes)
		}
	}
}

// served are the results of look-ups that saved a generation.
var served = regexp.MustCompile(`\bresult=(hit|local|coalesced)\b`)

// totals are counts since the start, over all replicas.
type totals struct{ requests, accepted, escalated, cached, shed int }

// totals sums the replicas' counters.
func (d *demo) totals() totals {
	families, err := d.registry.Gather()
	if err != nil {
		return totals{}
	}
	var t totals
	for _, f := range families {
		for _, m := range f.GetMetric() {
			n := int(m.GetCounter().GetValue())
			labels := make([]string, 0, len(m.GetLabel()))
			for _, l := range m.GetLabel() {
				labels = append(labels, l.GetName()+"="+l.GetValue())
			}
			t.add(d.route, f.GetName(), strings.Join(labels, " "), n)
		}
	}
	return t
}

func (t *totals) add(route, name, labels string, n int) {
	switch {
	case name == "foregate_requests_total" && strings.Contains(labels, "route="+route):
		t.requests += n
	case name == "foregate_acceptance_total" && strings.Contains(labels, "verdict=accepted"):
		t.accepted += n
	case name == "foregate_acceptance_total" && strings.Contains(labels, "verdict=rejected"):
		t.escalated += n
	case name == "llm_cache_requests_total" && served.MatchString(labels):
		t.cached += n
	case name == "foregate_shed_total":
		t.shed += n
	}
}
