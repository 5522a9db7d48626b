package config

import (
	"slices"

	"github.com/foregate/foregate/internal/yamlfile"
)

// Mirror is a pool that is compared with a route's target by a share of its requests. No client gets its answers.
type Mirror struct {
	Pool  string  // "" is none
	Share float64 // of the requests that the route's own target gets, minMirrorShare … 1
}

// minMirrorShare is the smallest share of a mirror: one request in 10,000.
const minMirrorShare = 0.0001

// ProbedPools returns the names of the pools whose engines' capabilities the route needs, sorted: of those that draft, and
// those that are compared. It is empty for a route with one target and nothing else.
func (t Route) ProbedPools() []string {
	var names []string
	if t.Draft != "" {
		names = append(names, t.Draft)
	}
	if t.Mirror.Pool != "" {
		names = append(names, t.Mirror.Pool)
	}
	if len(names) > 0 || len(t.Targets) > 0 {
		names = append(names, t.TargetPools()...)
	}
	slices.Sort(names)
	return slices.Compact(names)
}

func readMirror(to *Mirror, b *yamlfile.Fields) {
	b.At("pool").Text(&to.Pool)
	b.At("share").Number(&to.Share, minMirrorShare, 1)
	b.Done()
}

// checkMirror checks a route's mirror.
func (r reader) checkMirror(path string, f *File, t Route) {
	pool, share := path+".pool", path+".share"
	if !r.Has(path) || !r.Sound(path) {
		return
	}
	if !r.Has(share) {
		r.Fail(share, "missing; give the share of the requests, such as 0.02")
	}
	if !r.Has(pool) {
		r.Fail(pool, "missing; name a pool (defined: %s)", poolNames(f))
		return
	}
	r.checkPoolName(pool, t.Mirror.Pool, f)
	switch {
	case !r.Sound(pool):
	case slices.Contains(t.TargetPools(), t.Mirror.Pool):
		r.Fail(pool, "is a target of this route as well; name another pool")
	case t.Mirror.Pool == t.Draft:
		r.Fail(pool, "is the draft as well; name another pool")
	case f.Pools[t.Mirror.Pool].PaidByToken():
		r.Fail(pool, "pool %s is paid by the token, as only fallbacks are; define a second pool without these prices", t.Mirror.Pool)
	}
}
