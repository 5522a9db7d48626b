package main

import (
	"fmt"
	"slices"

	"github.com/foregate/foregate/gateway/display"
	"github.com/foregate/foregate/internal/words"
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
	if err := b.knownRoute(c.Route); err != nil {
		return err
	}
	known, err := b.book.All(b.ctx)
	if err != nil {
		return err
	}
	known = slices.DeleteFunc(known, func(k risk.KeyState) bool {
		return k.Key.Route != c.Route || c.TrafficClass != "" && k.Key.TrafficClass != c.TrafficClass
	})
	if len(known) == 0 {
		return fmt.Errorf("%s has no such evidence; foregate risk show --route tells what there is", words.Clip(c.Route, 60))
	}
	verb := "forgot"
	if !c.Yes {
		verb = "would forget"
	}
	for i := range known {
		k := &known[i]
		if c.Yes {
			if err := b.book.Reset(b.ctx, k.Key); err != nil {
				return fmt.Errorf("%s: %w", k.Key, err)
			}
		}
		s := k.Summary(k.State.Used, 0)
		_, _ = fmt.Fprintf(e.stdout, "%s %s: %s, certified threshold %d\n", verb, k.Key, display.Count(s.Audits, "audit", "audits"), s.Op) // whoever reads may be gone
	}
	if !c.Yes {
		_, _ = fmt.Fprintln(e.stderr, "nothing was forgotten; give --yes to do it: the target, or a warm-up, then answers until audits have certified a threshold anew")
		return errSilent
	}
	return nil
}
