package config

import (
	"slices"
)

// Mirror is a target pool that answers a share of a route's requests in the background, for comparison.
type Mirror struct {
	Pool  string  `yaml:"pool"`                         // "": none
	Share float64 `yaml:"share" min:"0.000001" max:"1"` // of the route's requests, above 0 … 1
}

// ComparedPools returns the names of the pools that answer as a target: the target pools, the one in force first, and the
// mirror's.
func (t Route) ComparedPools() []string {
	names := t.TargetPools()
	if t.Mirror.Pool != "" {
		names = append(names, t.Mirror.Pool)
	}
	return names
}

// ProbedPools returns the names of the pools whose engines' capabilities the route needs, sorted: of those that draft, and
// those that are compared. It is empty for a route with one target and nothing else.
func (t Route) ProbedPools() []string {
	var names []string
	if t.Draft != "" {
		names = append(names, t.Draft)
	}
	if all := t.ComparedPools(); t.Draft != "" || len(all) > 1 {
		names = append(names, all...)
	}
	slices.Sort(names)
	return names
}

// checkMirror checks the mirror of a route, whose pool has no other use there.
func (r reader) checkMirror(path string, f *File, t Route) {
	if !r.Has(path) || !r.Sound(path) {
		return
	}
	if !r.Has(path + ".share") {
		r.Fail(path+".share", "missing; give the share of the route's requests, such as 0.02")
	}
	name := path + ".pool"
	if !r.Has(name) {
		r.Fail(name, "missing; name a pool (defined: %s)", poolNames(f))
		return
	}
	r.checkPoolName(name, t.Mirror.Pool, f)
	switch {
	case !r.Sound(name):
	case t.Mirror.Pool == t.Draft:
		r.Fail(name, "is the draft as well; name another pool")
	case slices.Contains(t.TargetPools(), t.Mirror.Pool):
		r.Fail(name, "is a target of the route as well; name another pool")
	case f.Pools[t.Mirror.Pool].PaidByToken():
		r.Fail(name, "pool %s is paid by the token, as only fallbacks are; define a second pool without these prices", t.Mirror.Pool)
	}
}
