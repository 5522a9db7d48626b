// Package sharing is what the replicas of a run share by way of Redis, in virtual time: the answers that
// are kept ([Answers]).
package sharing

import (
	"context"
	"time"

	"github.com/foregate/foregate/cache"
	"github.com/foregate/foregate/loadtest/virtual/engines"
	"github.com/foregate/foregate/tiers"
)

// Answers are the answers that the replicas keep together: what Redis would hold. A question to it takes a
// hop there, and one back where there is nothing. Without the way to Redis nothing is found or kept, and what is
// there is used again once purges are heard. Left out are the copies that a replica keeps for itself,
// purges, and what Redis has no memory for.
type Answers struct {
	Link  *Link
	Seed  uint64
	by    map[cache.Key]*cache.Entry
	drawn uint64
}

var _ tiers.Store = (*Answers)(nil)

// Epochs implements [tiers.Store].
func (a *Answers) Epochs(string, string) (cache.Epochs, bool) {
	return cache.Epochs{}, a.Link.age(250*time.Millisecond) <= cache.MaxEpochAge
}

// Local implements [tiers.Store].
func (a *Answers) Local(cache.Key) (*cache.Entry, bool) { return nil, false }

// Count implements [tiers.Store].
func (a *Answers) Count(string, cache.Result, *cache.Entry) {}

// Look implements [tiers.Store].
func (a *Answers) Look(ctx context.Context, key cache.Key) (*cache.Entry, cache.Result) {
	switch loop := a.Link.Loop; {
	case a.Link.Away():
		return nil, cache.ResultError
	case !a.Link.asked():
		return nil, cache.ResultAway
	default:
		_ = loop.Sleep(ctx, engines.Hop)
	}
	if e := a.by[key]; e != nil {
		return e, cache.ResultHit
	}
	_ = a.Link.Loop.Sleep(ctx, engines.Hop)
	return nil, cache.ResultMiss
}

// Put implements [tiers.Store]: an answer is kept for as long as ttl says, less up to a tenth by chance.
func (a *Answers) Put(key cache.Key, e *cache.Entry, ttl time.Duration, then func()) {
	if !a.Link.asked() {
		if then != nil {
			then()
		}
		return
	}
	a.drawn++
	ttl = time.Duration(float64(ttl) * (0.9 + 0.1*engines.Unit(a.Seed, 2<<32, a.drawn)))
	if a.by == nil {
		a.by = map[cache.Key]*cache.Entry{}
	}
	a.by[key] = e
	a.Link.Loop.After(ttl, func() {
		if a.by[key] == e { // not one that came later
			delete(a.by, key)
		}
	})
	if then != nil {
		then()
	}
}
