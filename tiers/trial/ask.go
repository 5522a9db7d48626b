package trial

import (
	"context"

	"github.com/foregate/foregate/tiers/audit"
	"github.com/foregate/foregate/tiers/compare"
	"github.com/foregate/foregate/tiers/dispatch"
	"github.com/foregate/foregate/tiers/economy"
	"github.com/foregate/foregate/tiers/inflight"
	"github.com/foregate/foregate/tiers/plan"
	"github.com/foregate/foregate/tiers/verify"
)

// The kinds and results of trials, for metrics.
const (
	kindOpinion = "opinion"
	kindMirror  = "mirror"

	made             = "made"
	skippedPressure  = "pressure"   // a pool is short of memory
	skippedOff       = "audits_off" // risk.max_concurrent_audits is 0
	skippedBusy      = "busy"       // too many trials run, or the pool has no capacity
	skippedShape     = "not_plain"  // the answer is more than text
	skippedNoOpinion = "no_opinion" // the target in force did not or cannot say
	skippedFailed    = compare.MirrorFailed
	skippedStopped   = "stopped" // the gateway ends
)

// startOpinion asks the target in force in the background about an answer that a target wrote, or carried on.
func (t *Trial) startOpinion(d *Done) {
	if !t.asks || writerOf(d.Outcome) == plan.Draft {
		return
	}
	result := t.unfit(t.setup.Incumbent)
	if result == "" {
		started := t.start(func(ctx context.Context) { t.count(kindOpinion, t.giveOpinion(ctx)) })
		if started {
			return
		}
		result = skippedBusy
	}
	t.count(kindOpinion, result)
}

// unfit returns why no background work may go to a pool now, "" if it may.
func (t *Trial) unfit(p inflight.Pool) string {
	if t.request.Config.Risk.MaxConcurrentAudits < 1 {
		return skippedOff
	}
	if t.trials.UnderPressure(t.request.Route, p.Name(), 0) {
		return skippedPressure
	}
	return ""
}

// start runs the background work of the request. It reports whether there was room for it.
func (t *Trial) start(task func(context.Context)) bool {
	released := func() {}
	if t.retain != nil {
		released = t.retain()
	}
	started := t.trials.tasks.Start(maxTime, func(ctx context.Context) {
		defer released()
		task(ctx)
	})
	if !started {
		released()
	}
	return started
}

func (t *Trial) count(kind, result string) {
	t.trials.Metrics.CountTrial(t.request.Route, kind, result)
}

// giveOpinion records the opinion of the target in force about the answer. It returns the result.
func (t *Trial) giveOpinion(ctx context.Context) string {
	draft, ok := t.answer.draft(t.request.Body.IncludeStop)
	if !ok {
		return skippedShape
	}
	o := t.ask(ctx, t.setup.Incumbent, draft)
	t.countCost(o.computed)
	if !o.answered {
		return skippedNoOpinion
	}
	for _, p := range t.setup.Pairs {
		t.trials.Recorder.AddOpinion(p, t.setup.Side, o.good)
	}
	return made
}

// countCost counts tokens that the target in force computed.
func (t *Trial) countCost(tokens int) {
	var prices economy.Prices
	if t.setup.Prices != nil {
		prices = t.setup.Prices()
	}
	t.trials.Metrics.CountAudit(t.request.Route, tokens, float64(tokens)*prices.TargetPrefill)
}

// opinion is what a pool thinks of an answer.
type opinion struct {
	answered, good bool
	computed       int // tokens
}

// ask asks a pool about an answer, once, when it is its turn. It does not wait for capacity of the pool.
func (t *Trial) ask(ctx context.Context, p inflight.Pool, d verify.Draft) opinion {
	caller := t.caller(p)
	scorer, _ := plan.AuditorFor(caller.Config, plan.Facts{Request: caller.Body, HasDraft: true, Target: p.Capabilities})
	if scorer == plan.ScorerNone {
		return opinion{}
	}
	if !t.trials.tasks.Enter(ctx, maxQuestions(&caller.Config)) {
		return opinion{}
	}
	defer t.trials.tasks.Leave()
	r, err := audit.NewLabeler(caller, scorer).Verify(ctx, d)
	return opinion{answered: err == nil, good: err == nil && audit.IsGood(&r, &caller.Config.Risk, 0), computed: r.Computed}
}

// maxQuestions is how many trials may ask at once: as many as audits may, and as there are scores left for them at a backend.
func maxQuestions(c *plan.Config) int {
	n := c.Risk.MaxConcurrentAudits
	if scores := c.Scoring.MaxConcurrent; scores > 0 { // else only a judge can be asked
		n = min(n, scores)
	}
	return n
}

// caller returns a caller of the request at the lowest priority, whose target is a pool. It leaves half of the scores that a
// backend may compute at once to drafts that clients wait for.
func (t *Trial) caller(p inflight.Pool) inflight.Caller {
	r := *t.request
	r.Class, r.Target, r.Plan.Calls = 0, p, false
	r.Config.Scoring.MaxConcurrent = (r.Config.Scoring.MaxConcurrent + 1) / 2
	return inflight.Caller{Request: &r, Identity: r.Untraced(), Events: dispatch.IgnoreEvents{}}
}
