package limits

import (
	"container/list"
	"math"
	"time"
)

// mostTenants bounds the memory. The tenant silent longest is forgotten first, unless it has
// requests under way; the gateway's own bound on those is lower.
const mostTenants = 10_000

// tenant is what a replica itself knows of one.
type tenant struct {
	name                   string
	requests, tokens, high bucket
	under                  int  // requests under way that count
	away                   bool // requests did not ask Redis since it last answered

	tries, retries float64 // of late
	seen           time.Time
}

// tenants are those heard of last; the caller holds the lock.
type tenants struct {
	byName map[string]*list.Element
	recent list.List // of *tenant, the last heard of in front
}

// of finds or makes a tenant. One that is new has nothing saved up under w.
func (ts *tenants) of(name string, w laws, now time.Time) *tenant {
	if e, ok := ts.byName[name]; ok {
		ts.recent.MoveToFront(e)
		return e.Value.(*tenant)
	}
	if ts.byName == nil {
		ts.byName = map[string]*list.Element{}
	}
	for range ts.recent.Len() {
		if ts.recent.Len() < mostTenants {
			break
		}
		oldest := ts.recent.Back()
		if oldest.Value.(*tenant).under > 0 {
			ts.recent.MoveToFront(oldest)
			continue
		}
		ts.recent.Remove(oldest)
		delete(ts.byName, oldest.Value.(*tenant).name)
	}
	t := &tenant{name: name, seen: now, requests: bucket{w.requests.slack, now}, tokens: bucket{w.tokens.slack, now}, high: bucket{0, now}}
	ts.byName[name] = ts.recent.PushFront(t)
	return t
}

const (
	retryMemory = 10 * time.Second // in which half of what was counted is forgotten
	retryShare  = 0.1              // of the attempts, what may be retries (reliability.md C16)
	retryFew    = 10               // attempts that say nothing yet
)

// count takes in an attempt and says whether retries have become too many.
func (t *tenant) count(retry bool, now time.Time) (storm bool) {
	if passed := now.Sub(t.seen); passed > 0 {
		kept := math.Exp2(-passed.Seconds() / retryMemory.Seconds())
		t.tries, t.retries, t.seen = t.tries*kept, t.retries*kept, now
	}
	t.tries++
	if retry {
		t.retries++
	}
	return t.tries >= retryFew && t.retries > retryShare*t.tries
}

// decide is the law of a replica that counts for itself.
func (t *tenant) decide(a Ask, w laws, now time.Time) answer {
	t.requests.drain(w.requests, now)
	t.tokens.drain(w.tokens, now)
	t.high.drain(w.high, now)
	got := answer{requests: t.requests.owed, tokens: t.tokens.owed}
	r, k := w.requests.wait(t.requests.owed), w.tokens.wait(t.tokens.owed)
	switch {
	case r == 0 && k == 0:
	case k > r:
		got.refused = Tokens
		return got
	default:
		got.refused = Requests
		return got
	}
	t.requests.add(w.requests, 1)
	t.tokens.add(w.tokens, float64(a.Tokens))
	if a.High && w.high.cap > 0 {
		if got.demoted = w.high.wait(t.high.owed) > 0; !got.demoted {
			t.high.add(w.high, 1)
		}
	}
	got.requests, got.tokens = t.requests.owed, t.tokens.owed
	return got
}

// heard takes over what Redis answered under its laws, in proportion: should it not answer the
// next time, the tenant has as much saved up here as it had there, and no second burst.
func (t *tenant) heard(got answer, there, here laws, now time.Time) {
	t.away = false
	t.requests = bucket{got.requests * (here.requests.slack + 1) / (there.requests.slack + 1), now}
	if there.tokens.cap > 0 {
		t.tokens = bucket{got.tokens * here.tokens.slack / there.tokens.slack, now}
	}
}
