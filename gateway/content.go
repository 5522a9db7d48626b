package gateway

import (
	"github.com/foregate/foregate/tiers"
	"github.com/foregate/foregate/tiers/plan"
)

// modelOf returns the model of the pool that wrote an answer: of the draft if it wrote all of it, otherwise of the target,
// or of the fallback, whose call is the last one. It is "" if that is not known. The key of a cached answer contains the
// models of its route, so that they are those of rt.
func modelOf(rt *tiers.Route, d *RequestSummary) string {
	if rt == nil {
		return ""
	}
	switch plan.Tier(d.Tier) {
	case plan.Target, plan.Mixed:
		return rt.Target.Model()
	case plan.Draft:
		if rt.Draft != nil {
			return rt.Draft.Model()
		}
	case plan.Fallback:
		if d.Receipt == nil || len(d.Receipt.Tries) == 0 {
			return ""
		}
		answered := d.Receipt.Tries[len(d.Receipt.Tries)-1].Pool
		for i := range rt.Fallbacks {
			if p := rt.Fallbacks[i].Pool; p.Name() == answered {
				return p.Model()
			}
		}
	}
	return ""
}
