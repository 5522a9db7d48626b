package limits

import (
	"container/list"
	"math"
	"time"
)

// maxTenants bounds the memory. The tenant silent longest is forgotten first, unless it has
// requests under way; the gateway's own bound on those is lower.
const maxTenants = 10_000

// tenant is what a replica itself knows of one.
type tenant struct {
	name                   string
	requests, tokens, high bucket
	slotsUsed              int  // requests under way that count
	hasUnsynced            bool // this replica let in what Redis may not have heard of
	wasAway                bool // and was on its own for longer than a few failures

	retries retryBudget
}

// tenants are those heard of last; the caller holds the lock.
type tenants struct {
	byName map[string]*list.Element
	recent list.List // of *tenant, the last heard of in front
}

// known finds a tenant; nil is one that is not among those heard of last.
func (ts *tenants) known(name string) *tenant {
	if e, ok := ts.byName[name]; ok {
		return e.Value.(*tenant)
	}
	return nil
}

// of finds or makes a tenant. One that is new has half of the slack of w, and room for two requests
// at least: Redis may know of more, but was not heard, and a replica that has just started must not
// refuse whom others let in.
func (ts *tenants) of(name string, w rates, now time.Time) *tenant {
	if e, ok := ts.byName[name]; ok {
		ts.recent.MoveToFront(e)
		return e.Value.(*tenant)
	}
	if ts.byName == nil {
		ts.byName = map[string]*list.Element{}
	}
	for range ts.recent.Len() {
		if ts.recent.Len() < maxTenants {
			break
		}
		oldest := ts.recent.Back()
		if oldest.Value.(*tenant).slotsUsed > 0 {
			ts.recent.MoveToFront(oldest)
			continue
		}
		ts.recent.Remove(oldest)
		delete(ts.byName, oldest.Value.(*tenant).name)
	}
	t := &tenant{name: name, high: bucket{0, now}}
	t.requests = bucket{math.Max(0, math.Min(w.requests.burstSlack/2, w.requests.burst()-2)), now}
	t.tokens = bucket{w.tokens.burstSlack / 2, now}
	ts.byName[name] = ts.recent.PushFront(t)
	return t
}

// acquireSlot takes a place for a request, or refuses it.
func (t *tenant) acquireSlot(a Request, replicas int) *Error {
	if a.Limit.Concurrent <= 0 {
		return nil
	}
	if most := a.Limit.slots(replicas); t.slotsUsed >= most {
		return &Error{Tenant: a.Tenant, Limit: Concurrency, Max: most, Requested: 1, Wait: time.Second}
	}
	t.slotsUsed++
	return nil
}

// decide is the law of a replica that counts for itself.
func (t *tenant) decide(a Request, w rates, now time.Time) answer {
	t.drain(w, now)
	got := answer{requests: t.requests.level, tokens: t.tokens.level}
	r, k := w.requests.wait(t.requests.level), w.tokens.wait(t.tokens.level)
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
	if a.High && w.high.perMinute > 0 {
		if got.demoted = w.high.wait(t.high.level) > 0; !got.demoted {
			t.high.add(w.high, 1)
		}
	}
	got.requests, got.tokens = t.requests.level, t.tokens.level
	return got
}

// add charges amounts, or gives them back where they are negative.
func (t *tenant) add(n amounts, w rates, now time.Time) {
	t.drain(w, now)
	t.requests.add(w.requests, float64(n.requests))
	t.tokens.add(w.tokens, float64(n.tokens))
	t.high.add(w.high, float64(n.high))
}

// drain brings the buckets to now.
func (t *tenant) drain(w rates, now time.Time) {
	t.requests.drain(w.requests, now)
	t.tokens.drain(w.tokens, now)
	t.high.drain(w.high, now)
}

// applyRedis takes over what Redis answered under its laws, as one of n replicas: should it not
// answer the next time, the tenant goes on here with this replica's part of the room.
func (t *tenant) applyRedis(got answer, there, here rates, n int, now time.Time) {
	t.wasAway = false
	if there.requests.perMinute > 0 {
		t.requests = bucket{localLevel(got.requests, there.requests, here.requests, n), now}
	}
	if there.tokens.perMinute > 0 {
		t.tokens = bucket{localLevel(got.tokens, there.tokens, here.tokens, n), now}
	}
}

// takeUnsynced is what Redis is to take over after requests were let in without it: it counts no
// less than if all n replicas were owed as much as this one, and if it was away, it first adds
// what is owed here. It is handed out once, unless apart is set again.
func (t *tenant) takeUnsynced(there, here rates, n int, now time.Time) (u unsynced) {
	if !t.hasUnsynced {
		return unsynced{}
	}
	t.hasUnsynced = false
	if there.requests.perMinute > 0 {
		t.requests.drain(here.requests, now)
		u.minRequests = sharedLevel(t.requests.level, there.requests, here.requests, n)
	}
	if there.tokens.perMinute > 0 {
		t.tokens.drain(here.tokens, now)
		u.minTokens = sharedLevel(t.tokens.level, there.tokens, here.tokens, n)
	}
	if t.wasAway {
		u.requests, u.tokens = t.requests.level, t.tokens.level
	}
	return u
}
