package main

import (
	"fmt"
	"slices"

	"github.com/foregate/foregate/gateway/display"

	"github.com/foregate/foregate/tiers/evidence"
	"github.com/foregate/foregate/tiers/plan"
	"github.com/foregate/foregate/tiers/risk"
)

type riskResetCmd struct {
	redisFlags
	Route        string `required:"" help:"The route." placeholder:"NAME"`
	TrafficClass string `help:"Only this kind of request, as foregate risk show names it." placeholder:"NAME"`
	Yes          bool   `help:"Do it; without this it is only told what would be forgotten."`
}

// Run forgets thresholds and evidence. The log of audits stays.
func (c *riskResetCmd) Run(e *env) error {
	b, err := c.openEvidence(e)
	if err != nil {
		return err
	}
	defer b.close()
	known, err := b.readStates(c.Route)
	if err != nil {
		return err
	}
	known = slices.DeleteFunc(known, func(k evidence.KeyState) bool {
		return c.TrafficClass != "" && k.Key.TrafficClass != c.TrafficClass
	})
	if len(known) == 0 {
		return fmt.Errorf("%s has no such evidence; foregate risk show --route tells what there is", display.Clip(c.Route, 60))
	}
	verb := "forgot"
	if !c.Yes {
		verb = "would forget"
	}
	for i := range known {
		k := &known[i]
		if c.Yes {
			if err := b.book.Reset(b.ctx, k.Key); err != nil {
				_, _ = fmt.Fprintf(e.stderr, "note: of %d, %d were forgotten\n", len(known), i)
				return err
			}
		}
		s := k.State.Summarise(k.Rule)
		what := "nothing certified"
		switch {
		case s.Op > 0:
			what = fmt.Sprintf("threshold %d certified", s.Op)
		case s.Infeasible:
			what = "found infeasible"
		case k.State.Warmup.Ended == risk.WarmupWrong:
			what = "its warm-up stopped, as too many drafts were wrong"
		}
		_, _ = fmt.Fprintf(e.stdout, "%s %s: %s, %s\n", verb, k.Key, display.Count(s.Audits, "audit", "audits"), what) // whoever reads may be gone
	}
	if !c.Yes {
		then := "answered by the target"
		if t := &b.snapshot.Route(c.Route).Tiers; t.Mode == plan.ModeRisk && t.Risk.Warmup {
			then = "answered by the target, or by a warm-up (risk.warmup) in replicas that have not seen one of them end,"
		}
		_, _ = fmt.Fprintln(e.stderr, "nothing was forgotten; give --yes to do it: these requests are then "+then+" until audits have certified a threshold anew")
		return errSilent
	}
	return nil
}
