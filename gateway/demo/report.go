package demo

import (
	"context"
	"fmt"
	"os"
	"time"

	"github.com/foregate/foregate/gateway/display"
	"github.com/foregate/foregate/tiers/risk"
)

// report tells until ctx ends what happens, so that what was printed before stays in sight: on a terminal in one line that
// is written anew each second, else in a line a minute, if something has happened, and one for each change of the guarantee.
func (d *demo) report(ctx context.Context) {
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	terminal := isTerminal(d.Stdout)
	var last totals
	phases := map[string]risk.Phase{} // by traffic class
	for seconds := 1; ; seconds++ {
		select {
		case <-ctx.Done():
			d.say("\nstopping\n")
			return
		case <-tick.C:
		}
		now := d.totals()
		classes, _ := d.replicas[0].Evidence.Summaries(ctx) // none while Redis is away
		switch {
		case terminal:
			d.say("\r\x1b[K%s", statusLine(now, float64(now.requests-last.requests), classes))
			last = now
			continue
		case seconds%60 == 0 && now != last:
			d.say("%s  %s\n", time.Now().Format(time.TimeOnly), statusLine(now, float64(now.requests-last.requests)/60, classes))
			last = now
		}
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

// isTerminal reports whether lines that are written anew may be shown.
func isTerminal(w any) bool {
	f, ok := w.(*os.File)
	if !ok {
		return false
	}
	info, err := f.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0
}

// statusLine is how the demo is doing, in fewer than 80 characters, with the guarantee of the traffic class that has the
// most audits.
func statusLine(t totals, perSecond float64, classes []risk.Summary) string {
	line := fmt.Sprintf("%d requests, %.0f/s: %d drafts, %d cached, %d shed", t.requests, perSecond, t.accepted, t.cached, t.shed)
	if len(classes) == 0 {
		return line
	}
	c := &classes[0]
	for i := range classes {
		if classes[i].Audits > c.Audits {
			c = &classes[i]
		}
	}
	return line + "; guarantee " + string(c.Phase)
}

// totals are counts since the start, over all replicas.
type totals struct{ requests, accepted, cached, shed int }

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
				case "llm_cache_requests_total/result=hit", "llm_cache_requests_total/result=local", "llm_cache_requests_total/result=coalesced":
					t.cached += n
				}
			}
		}
	}
	return t
}
