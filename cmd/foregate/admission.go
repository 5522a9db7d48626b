package main

import (
	"github.com/foregate/foregate/gateway/admission"
	"github.com/foregate/foregate/tiers"
	"github.com/foregate/foregate/tiers/pool"
)

// loads are those of the pools that a request so planned could go to.
func (r *replica) loads(route string, plan tiers.Plan) []admission.PoolLoad {
	draft, target := r.routePools(route)
	var out []admission.PoolLoad
	if draft != nil && plan.MayUse(tiers.Draft) {
		out = append(out, poolLoad(draft))
	}
	if target != nil && plan.MayUse(tiers.Target) {
		out = append(out, poolLoad(target))
	}
	return out
}

// poolLoad is the load of a pool's live backends.
func poolLoad(p *pool.Pool) admission.PoolLoad {
	l := admission.PoolLoad{Pool: p.Name()}
	for _, b := range p.Snapshot() {
		if b.Down || b.Drained || b.Open || b.Suspect {
			continue
		}
		l.Loads = append(l.Loads, admission.Load{Usage: b.KVUsage, Known: b.HasReading, Waiting: b.Reading.Waiting})
	}
	return l
}
