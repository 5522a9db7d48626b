package app

import (
	"math"
	"slices"

	"github.com/foregate/foregate/gateway/config"
	"github.com/foregate/foregate/tiers"
	"github.com/foregate/foregate/tiers/plan"
)

// fallbacks returns the hosted last resorts of a route.
func (r *routing) fallbacks(def config.Route) []tiers.Fallback {
	var out []tiers.Fallback
	for _, fb := range def.Fallbacks {
		p := r.file.Pools[fb.Pool]
		t := tiers.Fallback{
			Pool: r.pool(fb.Pool), NanoUSDPerHour: int64(math.Round(fb.MaxUSDPerHour * 1e9)), Names: namesOf(r.file, p),
			Price: plan.TokenPrice{Input: p.USDPerMillionInput / 1e6, Output: p.USDPerMillionOutput / 1e6},
		}
		for _, w := range fb.When {
			t.When = append(t.When, plan.FailureCause(w))
		}
		out = append(out, t)
	}
	return out
}

// namesOf returns the routes that offer the model of a hosted pool at one of its servers, by a pool of their own.
func namesOf(f *config.File, hosted config.Pool) []string {
	var names []string
	for _, rt := range f.Routes {
		for _, name := range []string{rt.Draft, rt.Target} {
			p := f.Pools[name]
			same := func(url string) bool { return slices.Contains(hosted.Backends, url) }
			if p.Model == hosted.Model && slices.ContainsFunc(p.Backends, same) && !slices.Contains(names, rt.Model) {
				names = append(names, rt.Model)
			}
		}
	}
	return names
}
