package chaos

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"
)

// withinRedisBudget is a run whose load waits for Redis no longer than one budget, over all that a request asks there. What
// clients see of that, the machine adds to; so the waits that gateways tell of are checked, too: on a busy machine most
// are late by little, and none has a reason to be two budgets long.
func withinRedisBudget(run func(context.Context, *Testbed) error) func(context.Context, *Testbed) error {
	return func(ctx context.Context, w *Testbed) error {
		if err := run(ctx, w); err != nil {
			return err
		}
		added, bound := waited(w.Load.Outcomes(Before), w.Load.Outcomes(During), w.TimerLag.Worst())
		w.Note("99 of 100 streams waited %v outside the cascade", round(added))
		if added > bound {
			w.Fail("99 of 100 streams waited %v outside the cascade, promised %v (on this machine %v)", round(added), lookupBudget, round(bound))
		}
		return w.spentOnce(ctx)
	}
}

// waited is what 99 of 100 streams took longer outside the cascade than the median before, and what they may: the budget,
// and what the machine adds by itself, which is how late a timer was and how far the slowest was from the median before.
func waited(before, during []Outcome, late time.Duration) (added, bound time.Duration) {
	was, is := fronts(before), fronts(during)
	median := at(was, 50)
	return max(0, at(is, 99)-median), lookupBudget + late + at(was, 100) - median
}

// spentOnce checks by the gateways' receipts that those who waited for a whole budget did not wait for another.
func (w *Testbed) spentOnce(ctx context.Context) error {
	var all []time.Duration
	for _, g := range w.Gateways {
		page, err := g.Page(ctx, "/admin/receipts?n=1000")
		if err != nil {
			return fmt.Errorf("receipts of gateway %d: %w", g.Number, err)
		}
		waits, err := budgetWaits(page)
		if err != nil {
			return fmt.Errorf("receipts of gateway %d: %w", g.Number, err)
		}
		all = append(all, waits...)
	}
	slices.Sort(all)
	half := at(all, 50)
	w.Note("%d waited for a budget, by their receipts %v in the median, %v at most", len(all), round(half), round(at(all, 100)))
	if half > 3*lookupBudget/2 {
		w.Fail("half of those who waited for a budget waited %v, promised %v", round(half), lookupBudget)
	}
	return nil
}

// budgetWaits are the waits for Redis in receipts, one in a line, that were as long as a budget or longer.
func budgetWaits(receipts string) (out []time.Duration, err error) {
	for line := range strings.Lines(receipts) {
		var r struct {
			MS struct{ Limits, Cache float64 }
		}
		if err := json.Unmarshal([]byte(line), &r); err != nil {
			return nil, err
		}
		if d := time.Duration((r.MS.Limits + r.MS.Cache) * float64(time.Millisecond)); d >= lookupBudget {
			out = append(out, d)
		}
	}
	return out, nil
}
