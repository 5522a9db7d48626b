package virtual

import (
	"github.com/foregate/foregate/loadtest/virtual/engines"
	"github.com/foregate/foregate/tiers"
	"github.com/foregate/foregate/tiers/accept"
	"github.com/foregate/foregate/tiers/economy"
	"github.com/foregate/foregate/tiers/openai"
	"github.com/foregate/foregate/tiers/pool"
)

// rivalPool is the name of the pool of the target that is compared with the one in force.
const rivalPool = "rival"

// score returns what a pool says of ids behind a prompt.
func (l *lab) score(p *engines.Pool, prompt, ids []int32) []accept.Choice {
	if p.Name == rivalPool {
		return l.rival.Choices(prompt, ids)
	}
	return l.judge.Choices(prompt, ids)
}

// compares adds the rival to a replica's route, as a variant, as a mirror or as both.
func (r *replica) compares(rival *pool.Pool) {
	l, rt := r.lab, r.route
	spec := l.spec.Rival
	prices := func() (p economy.Prices) {
		p = l.prices()
		p.TargetPrefill, p.TargetDecode = l.pools[rivalPool].Prices()
		return p
	}
	if spec.Mirror > 0 {
		rt.Mirror = &tiers.Mirror{Pool: rival, Serves: spec.Model, Share: spec.Mirror, Prices: prices}
	}
	if spec.Canary > 0 {
		own := *rt
		own.Target, own.Serves.Target, own.Prices, own.Mirror = rival, spec.Model, prices, nil
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
