// Package strategy holds the ways to answer a request, one type each. relay passes a pool's own answer on.
// speculate streams a draft while it is judged, verifyWhole judges all of it first, callTools one that comes
// in one piece. verifyBlocks and verifySampled have the target check what the draft pool writes. resume carries
// on with an answer that was lost. Start at [Answer.Run].
//
// Whoever goes on with a part of an answer does so through a [continuation]: after a rejected draft, a lost
// backend, a lost leader, a verified block.
package strategy

import (
	"context"
	"errors"

	"github.com/foregate/foregate/tiers/plan"
)

// strategy is a way to answer. Its run returns errNoDraft where the target is to answer as if nothing had been done.
type strategy interface {
	run(ctx context.Context) error
}

// Run answers, by the request's plan. An error before the first byte means that nothing was written; after
// it, it is a *[BrokenError] or the sink's own.
func (a *Answer) Run(ctx context.Context) error {
	err := a.strategy().run(ctx)
	if errors.Is(err, errNoDraft) {
		return (&relay{a, a.Target}).run(ctx)
	}
	return err
}

// strategy is the way to answer that the plan says.
func (a *Answer) strategy() strategy {
	p := &a.Plan
	demanded := p.Tier == plan.Draft && !p.Judged
	switch {
	case len(a.sent) > 0 && !demanded && a.Config.MidstreamFailover && plan.CanContinue(a.Body):
		return &resume{a, a.sent}
	case demanded:
		return &relay{a, a.Draft}
	case !p.Judged:
		return &relay{a, a.Target}
	case p.Calls:
		return &callTools{a}
	case p.Sampled:
		return &verifySampled{Answer: a}
	case p.Block > 0:
		if b := a.blocks(); b != nil {
			return b
		}
	}
	if p.Whole {
		return &verifyWhole{draftRun{Answer: a}}
	}
	return &speculate{draftRun{Answer: a}}
}
