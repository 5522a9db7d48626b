package limits

import (
	"container/list"
	"math"
	"time"
)

// maxTenants bounds the memory. The tenant that was silent longest is forgotten first, unless it has requests
// in progress; the gateway's own bound on those is lower.
const maxTenants = 10_000

// tenant is this replica's state of one tenant.
type tenant struct {
	name                   string
	requests, tokens, high bucket
	slotsUsed              int  // answers in progress that count
	hasUnsynced            bool // this replica admitted requests that Redis may not know
	wasAway                bool // it was also without Redis for longer than a few failures

	retries  retryBudget
	promised map[Kind]time.Time // the next place that no client was told to wait for, by limit
}

// tenants holds the most recent tenants; the caller holds the lock.
type tenants struct {
	byName map[string]*list.Element
	recent list.List // of *tenant, the most recent first
}

// find returns a tenant, nil if it is not among the recent ones.
func (ts *tenants) find(name string) *tenant {
	if e, ok := ts.byName[name]; ok {
		return e.Value.(*tenant)
	}
	return nil
}

// of returns or makes a tenant. A new one starts at half of the slack of w, with capacity for at least two
// requests: Redis may know more, but did not answer, and a replica that has just started must not refuse a
// tenant that others admit.
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

// acquireSlots takes a slot for each answer that a request asks for, or refuses it. One that asks for more than this
// replica's share takes all of them.
func (t *tenant) acquireSlots(a Request, replicas int, now time.Time) (taken int, err *Error) {
	want, most := max(a.Answers, 1), a.Limit.slots(replicas)
	switch {
	case a.Limit.Concurrent <= 0:
		return 0, nil
	case want > a.Limit.Concurrent:
		return 0, &Error{Tenant: a.Tenant, Limit: Concurrency, Max: a.Limit.Concurrent, Requested: want, NeverFits: true}
	}
	want = min(want, most)
	if a.HasSlot {
		want--
	}
	if t.slotsUsed+want > most && want > 0 {
		err = &Error{Tenant: a.Tenant, Limit: Concurrency, Max: most, Requested: max(a.Answers, 1), Wait: time.Second}
		t.promise(err, time.Second*time.Duration(want)/time.Duration(most), now) // an answer takes about a second
		return 0, err
	}
	t.slotsUsed += want
	return want, nil
}

// decide decides about a request from this replica's own buckets.
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

// add charges amounts; negative ones are refunds.
func (t *tenant) add(n amounts, w rates, now time.Time) {
	t.drain(w, now)
	t.requests.add(w.requests, float64(n.requests))
	t.tokens.add(w.tokens, float64(n.tokens))
	t.high.add(w.high, float64(n.high))
}

// drain updates the buckets to now.
func (t *tenant) drain(w rates, now time.Time) {
	t.requests.drain(w.requests, now)
	t.tokens.drain(w.tokens, now)
	t.high.drain(w.high, now)
}

// applyRedis takes over the levels that Redis returned, as one of n replicas: if Redis fails next, the tenant
// continues here with this replica's share of the free part.
func (t *tenant) applyRedis(got answer, there, here rates, n int, now time.Time) {
	t.wasAway = false
	if there.requests.perMinute > 0 {
		t.requests = bucket{localLevel(got.requests, there.requests, here.requests, n), now}
	}
	if there.tokens.perMinute > 0 {
		t.tokens = bucket{localLevel(got.tokens, there.tokens, here.tokens, n), now}
	}
}

// takeUnsynced returns what Redis must take over after requests were admitted without it: at least the level
// that results if all n replicas are at this one's level, and, if Redis was unavailable for longer, this
// replica's level in addition. It is returned once, until hasUnsynced is set again.
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
