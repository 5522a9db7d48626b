package app

import (
	"fmt"

	"github.com/foregate/foregate/gateway"
	"github.com/foregate/foregate/gateway/config"
	"github.com/foregate/foregate/gateway/display"
	"github.com/foregate/foregate/tiers"
	"github.com/foregate/foregate/tiers/plan"
	"github.com/foregate/foregate/tiers/pool"
)

// targetViews returns the routes with several targets, in the order of the file.
func (a *App) targetViews() []gateway.TargetsView {
	var out []gateway.TargetsView
	for _, def := range a.file().Routes {
		rt, err := a.cascade.Route(def.Model)
		if err != nil || len(rt.Variants) == 0 {
			continue
		}
		out = append(out, gateway.TargetsView{Route: def.Model, Targets: a.variantViews(rt)})
	}
	return out
}

// variantViews returns the targets of a route, the incumbent first.
func (a *App) variantViews(rt *tiers.Route) []gateway.TargetView {
	sum := rt.Weight
	for _, v := range rt.Variants {
		sum += v.Weight
	}
	possible := a.cascade.Modes(rt)
	out := []gateway.TargetView{{Pool: rt.Target.Name(), Share: rt.Weight / sum}}
	for _, v := range rt.Variants {
		out = append(out, gateway.TargetView{
			Pool: v.Route.Target.Name(), Share: v.Weight / sum, Diverted: rt.PassesOver(v.Route),
			UnavailableModes: lostModes(possible, a.cascade.Modes(v.Route)),
		})
	}
	return out
}

// lostModes returns the modes that the incumbent's engines allow and the variant's do not. Both lists have the same order.
func lostModes(incumbent, variant []plan.ModeState) []gateway.UnavailableView {
	var out []gateway.UnavailableView
	for i, m := range variant {
		if m.Missing != "" && incumbent[i].Missing == "" {
			out = append(out, gateway.UnavailableView{Name: string(m.Mode), Reason: m.Reason})
		}
	}
	return out
}

// targetWarnings names routes whose targets cannot be told apart as the operator wants to.
func targetWarnings(f *config.File) []string {
	var out []string
	for _, rt := range f.Routes {
		pools := rt.TargetPools()
		if len(pools) < 2 {
			continue
		}
		if w := unequalPrices(f, pools); w != "" {
			out = append(out, fmt.Sprintf("route %s: %s", rt.Model, w))
		}
		if w := sharedAnswers(f, rt); w != "" {
			out = append(out, fmt.Sprintf("route %s: %s", rt.Model, w))
		}
	}
	return out
}

// unequalPrices says which pools have no price beside others that have one, "" if all or none of them have.
func unequalPrices(f *config.File, pools []string) string {
	var free []string
	for _, name := range pools {
		if f.Pools[name].USDPerHour == 0 {
			free = append(free, "pools."+name)
		}
	}
	if len(free) == 0 || len(free) == len(pools) {
		return ""
	}
	return fmt.Sprintf("%s %s no usd_per_hour and other targets have one, so costs cannot be compared", display.List(free), display.Plural(len(free), "has", "have"))
}

// sharedAnswers says which target pools serve the same model in the same revision as another one of the route, "" for none:
// a cached answer of one is then an answer of the other, too.
func sharedAnswers(f *config.File, rt config.Route) string {
	seen, alike := map[string]bool{}, []string(nil)
	for _, v := range rt.Variants() {
		serves := served(f, v).Target
		if seen[serves] {
			alike = append(alike, "pools."+v.Target)
		}
		seen[serves] = true
	}
	if len(alike) == 0 {
		return ""
	}
	return fmt.Sprintf("%s %s the model and revision of another target, so they share cached answers; if their weights differ, set revision", display.List(alike), display.Plural(len(alike), "has", "have"))
}

// rolesOf returns the pools of a route by their role, which is the index.
func rolesOf(rt config.Route) [][]string {
	return [][]string{{rt.Draft}, {rt.Target}, rt.TargetPools()[1:]}
}

// hasBackends reports whether a pool has backends; nil has none.
func hasBackends(p *pool.Pool) bool { return p != nil && len(p.Snapshot()) > 0 }
