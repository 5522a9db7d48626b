package virtual

import (
	"errors"
	"slices"
	"time"

	"github.com/foregate/foregate/tiers/plan"

	"github.com/foregate/foregate/loadtest/vllmsim"
	"github.com/foregate/foregate/tiers/accept"
	"github.com/foregate/foregate/tiers/pool"
	"github.com/foregate/foregate/tiers/scoring"
)

// scoreUnit is the length in tokens up to which the time-out of a score holds.
const scoreUnit = 1000

// ask has one backend of the target score ids behind a prompt, as the gateway does: at
// once or not at all, within the bounds of scoring, and once. The engine computes all of
// it; what it says comes from the model. done is told at the end: nil is no word. warm is
// a backend that has just scored the same prompt.
func (r *request) ask(prompt, ids []int32, warm string, done func(backend string, said []accept.Choice)) {
	cfg := r.lab.values.Tiers
	tokens := len(prompt) + len(ids)
	c := &call{
		request: r, tier: r.lab.tiers["target"], demand: plan.DemandOf(r.shape, r.head()), prompt: slices.Concat(prompt, ids),
		limit: 1, attempts: 1, now: true, score: true, before: r.before,
		patience: time.Duration(float64(cfg.Scoring.Timeout) * max(1, float64(tokens)/scoreUnit)),
	}
	if c.tier.def.Reuse {
		c.scoreFrom = len(prompt) - 1
	}
	c.demand.PromptTokens, c.demand.PromptBytes, c.demand.OutputTokens, c.demand.MostOutput = tokens, 0, 1, 1
	c.demand.Answers, c.demand.Whole, c.demand.Warm = 1, true, warm
	c.onToken = func(a *attempt, _ int32, _ bool) {
		r.check = nil
		r.out.Asked = true
		r.out.Scored += tokens - a.seq.Cached
		done(a.lease.Backend(), r.lab.judge.Choices(prompt, ids))
	}
	c.onFail = func(failure, bool) {
		r.check = nil
		done("", nil)
	}
	r.check = c
	c.start()
}

// rule judges what the target said by the mode's rule.
func (r *request) rule(said []accept.Choice) *accept.Check {
	cfg := r.lab.values.Tiers
	span := make([]accept.Opinion, len(said))
	for i := range said {
		span[i] = said[i].Opinion
	}
	var c accept.Check
	if r.plan.Mode == plan.ModeVerify {
		c = accept.Greedy(span, cfg.Tie)
	} else {
		c = cfg.Strictness.Leniency(r.req.Temperature).Check(span)
	}
	return &c
}

// pick takes a place at a backend; a score takes one that scoring's own bounds allow.
func (c *call) pick() (*pool.Lease, error) {
	own := c.request.replica
	for tried := len(c.demand.Exclude); ; {
		lease, err := own.pools[c.tier.name].Pick(c.demand)
		if err != nil || !c.score {
			c.demand.Exclude = c.demand.Exclude[:tried]
			return lease, err
		}
		leave, err := own.scores.Enter(c.request.lab.values.Tiers.Scoring, c.tier.name, lease.Backend(), len(c.prompt), own.lab.clock.wall())
		if err == nil {
			c.left = func(o scoring.Outcome) { leave(o, own.lab.clock.wall()) }
			return lease, nil
		}
		lease.Done(0)
		if refused, ok := errors.AsType[*scoring.RefusedError](err); ok && !refused.Backend {
			return nil, err
		}
		c.demand.Exclude = append(c.demand.Exclude, lease.Backend())
	}
}

// scored makes a's sequence one that is scored: it ends with the one token that an
// engine cannot but generate.
func (a *attempt) scored() {
	a.seq = vllmsim.Seq{Prompt: a.call.prompt, Source: a, NoCacheRead: a.call.scoreFrom == 0, ScoreFrom: a.call.scoreFrom}
}
