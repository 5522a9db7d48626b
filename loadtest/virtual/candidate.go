package virtual

import (
	"github.com/foregate/foregate/loadtest/virtual/engines"
	"github.com/foregate/foregate/tiers"
	"github.com/foregate/foregate/tiers/accept"
	"github.com/foregate/foregate/tiers/economy"
	"github.com/foregate/foregate/tiers/openai"
	"github.com/foregate/foregate/tiers/pool"
)

// candidatePool is the name of the pool of the target that is compared with the one in force.
const candidatePool = "candidate"

// score returns what a pool says of ids behind a prompt.
func (l *lab) score(p *engines.Pool, prompt, ids []int32) []accept.Choice {
	if p.Name == candidatePool {
		return l.candidate.Choices(prompt, ids)
	}
	return l.judge.Choices(prompt, ids)
}

// compares adds the candidate to a replica's route, as a variant, as a mirror or as both.
func (r *replica) compares(candidate *pool.Pool) {
	l, rt := r.lab, r.route
	spec := l.spec.Candidate
	prices := func() (p economy.Prices) {
		p = l.prices()
		p.TargetPrefill, p.TargetDecode = l.pools[candidatePool].Prices()
		return p
	}
	if spec.Mirror > 0 {
		rt.Mirror = &tiers.Mirror{Pool: candidate, Serves: spec.Model, Share: spec.Mirror, Prices: prices}
	}
	if spec.Canary > 0 {
		own := *rt
		own.Target, own.Serves.Target, own.Prices, own.Mirror = candidate, spec.Model, prices, nil
		rt.Weight, rt.Variants = 1-spec.Canary, []tiers.Variant{{Weight: spec.Canary, Route: &own}}
	}
}

// variantOf returns the variant of a route that a request's conversation gets.
func variantOf(rt *tiers.Route, tenant string, body *openai.Request) *tiers.Route {
	if len(rt.Variants) == 0 {
		return rt
	}
	return rt.For(tiers.Conversation(tenant, body))
}
