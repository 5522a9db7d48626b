package config

import (
	"fmt"
	"slices"
)

// WeightedTarget is one of several target pools of a route.
type WeightedTarget struct {
	Pool   string  `yaml:"pool"`
	Weight float64 `yaml:"weight" min:"0.001" max:"1000000"` // above 0; its share of the conversations is its part of the sum
}

const (
	minTargets = 2
	maxTargets = 4 // of a route
)

// TargetPools returns the names of the route's target pools, the one in force first.
func (t Route) TargetPools() []string {
	if len(t.Targets) == 0 {
		return []string{t.Target}
	}
	names := make([]string, 0, len(t.Targets))
	for _, w := range t.Targets {
		names = append(names, w.Pool)
	}
	return names
}

// Variants returns the route once for each of its target pools, each with that one as its only target.
func (t Route) Variants() []Route {
	var out []Route
	for _, name := range t.TargetPools() {
		v := t
		v.Target, v.Targets = name, nil
		out = append(out, v)
	}
	return out
}

// checkTargets checks the target pools of a route: one by target, or several by targets.
func (r reader) checkTargets(path string, f *File, t Route) {
	one, several := path+".target", path+".targets"
	switch {
	case !r.Has(several) && !r.Has(one):
		r.Fail(one, "missing; name a pool (defined: %s)", poolNames(f))
	case !r.Has(several):
		r.checkPoolName(one, t.Target, f)
	case r.Has(one):
		r.Fail(several, "target is given as well; give one of both")
	case !r.Sound(several):
	case len(t.Targets) < minTargets || len(t.Targets) > maxTargets:
		r.Fail(several, "there are %d; want %d … %d, or target for one", len(t.Targets), minTargets, maxTargets)
	default:
		r.checkWeightedTargets(several, f, t)
	}
}

func (r reader) checkWeightedTargets(path string, f *File, t Route) {
	seen := map[string]int{}
	for i, w := range t.Targets {
		at := fmt.Sprintf("%s[%d]", path, i)
		if !r.Sound(at) {
			continue
		}
		if !r.Has(at + ".weight") {
			r.Fail(at+".weight", "missing; give its weight beside the others, such as 95 and 5")
		}
		name := at + ".pool"
		if !r.Has(name) {
			r.Fail(name, "missing; name a pool (defined: %s)", poolNames(f))
			continue
		}
		r.checkPoolName(name, w.Pool, f)
		switch first, twice := seen[w.Pool]; {
		case !r.Sound(name):
		case twice:
			r.Fail(name, "%s[%d] is this pool already; remove one", path, first)
		case w.Pool == t.Draft:
			r.Fail(name, "is the draft as well; name another pool")
		case f.Pools[w.Pool].PaidByToken():
			r.Fail(name, "pool %s is paid by the token, as only fallbacks are; define a second pool without these prices", w.Pool)
		default:
			seen[w.Pool] = i
		}
	}
}

// ProbedPools returns the names of the pools whose engines' capabilities the route needs, sorted: of a route that drafts,
// or that has several targets. It is empty for a route with one target and nothing else.
func (t Route) ProbedPools() []string {
	var names []string
	if t.Draft != "" {
		names = append(names, t.Draft)
	}
	if all := t.TargetPools(); t.Draft != "" || len(all) > 1 {
		names = append(names, all...)
	}
	slices.Sort(names)
	return names
}
