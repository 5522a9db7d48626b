package ledger

import (
	"container/list"
	"math"
	"time"
)

// maxTenants bounds the memory, and maxPassed how many tenants that cannot be forgotten a new one looks at.
const (
	maxTenants = 10_000
	maxPassed  = 64
)

// charge is what a request adds to a tenant's buckets; negative numbers are refunds.
type charge struct{ requests, tokens, high int }

func (a charge) plus(b charge) charge {
	return charge{a.requests + b.requests, a.tokens + b.tokens, a.high + b.high}
}

func (a charge) negative() charge { return charge{-a.requests, -a.tokens, -a.high} }

// unsynced is what Redis must take over from a replica that counted for itself: amounts to add, and then minimum levels.
type unsynced struct{ requests, tokens, minRequests, minTokens float64 }

// tenant is this replica's state of one tenant. The ledger's lock guards it.
type tenant struct {
	name, field string // field is that of its windows in Redis

	limit                  Limit // of its last request
	requests, tokens, high bucket
	slots                  int    // answers in progress that count
	corrections            charge // corrections that Redis must be told
	alone                  bool   // this replica admitted requests that Redis may not know
	away                   bool   // it was also without Redis for longer than a few failures
	retries                retryBudget
	promised               map[Kind]time.Time // the next place that no client was told to wait for, by limit

	windows [len(periods)]window
	version int64     // of the last call about the windows
	known   int64     // the highest that Redis has confirmed
	heard   int64     // of the newest call whose reply was used
	doubt   time.Time // until then Redis' sums lack something
	pending int       // requests that wait for a reply
}

// budgeted reports whether a window of the tenant is not over; quiet that none has a request in progress.
func (t *tenant) budgeted(now time.Time) (budgeted, quiet bool) {
	quiet = true
	for i := range t.windows {
		w := &t.windows[i]
		if now.Unix() < w.end {
			budgeted, quiet = true, quiet && w.own.reserved == amounts{}
		}
	}
	return budgeted, quiet
}

// tenants holds the most recent tenants; the caller holds the lock.
type tenants struct {
	byName map[string]*list.Element
	recent list.List // of *tenant, the most recent first
}

// find returns a tenant, nil if it is not among the recent ones.
func (ts *tenants) find(name string) *tenant {
	e := ts.byName[name]
	if e == nil {
		return nil
	}
	ts.recent.MoveToFront(e)
	return e.Value.(*tenant)
}

// insert adds a tenant. If there are too many, the one that was silent longest is forgotten of those that may be; false:
// there was none among those that were looked at, which are not looked at again soon.
func (ts *tenants) insert(t *tenant, forgettable func(*tenant) bool) (room bool) {
	if ts.byName == nil {
		ts.byName = map[string]*list.Element{}
	}
	room = ts.recent.Len() < maxTenants
	for passed := 0; !room && passed < maxPassed; passed++ {
		e := ts.recent.Back()
		if room = forgettable(e.Value.(*tenant)); room {
			ts.recent.Remove(e)
			delete(ts.byName, e.Value.(*tenant).name)
		} else {
			ts.recent.MoveToFront(e)
		}
	}
	ts.byName[t.name] = ts.recent.PushFront(t)
	return room
}

// start sets the buckets of a new tenant: half of the slack of w, with capacity for at least two requests. Redis may know
// more, but did not answer, and a replica that has just started must not refuse a tenant that others admit.
func (t *tenant) start(w rates, now time.Time) {
	t.requests = bucket{math.Max(0, math.Min(w.requests.slack/2, w.requests.burst()-2)), now}
	t.tokens, t.high = bucket{w.tokens.slack / 2, now}, bucket{0, now}
}

// acquireSlots takes a slot for each answer that a request asks for, or refuses it. One that asks for more than this
// replica's share takes all of them.
func (t *tenant) acquireSlots(a *Request, replicas int, now time.Time) (taken int, err *LimitError) {
	want, most := max(a.Answers, 1), a.Limit.slots(replicas)
	switch {
	case a.Limit.Concurrent <= 0:
		return 0, nil
	case want > a.Limit.Concurrent:
		return 0, &LimitError{Tenant: a.Tenant, Limit: Concurrency, Max: a.Limit.Concurrent, Requested: want, NeverFits: true}
	}
	want = min(want, most)
	if a.HasSlot {
		want--
	}
	if t.slots+want > most && want > 0 {
		err = &LimitError{Tenant: a.Tenant, Limit: Concurrency, Max: most, Requested: max(a.Answers, 1), Wait: time.Second}
		t.promise(err, time.Second*time.Duration(want)/time.Duration(most), now) // an answer takes about a second
		return 0, err
	}
	t.slots += want
	return want, nil
}

// admit decides about a request from this replica's own buckets.
func (t *tenant) admit(n charge, w rates, now time.Time) (got answer) {
	t.drain(w, now)
	r, k := w.requests.wait(t.requests.level), w.tokens.wait(t.tokens.level)
	switch {
	case r == 0 && k == 0:
		got.demoted = n.high > 0 && w.high.wait(t.high.level) > 0
		if got.demoted {
			n.high = 0
		}
		t.add(n, w, now)
	case k > r:
		got.refused = refusedTokens
	default:
		got.refused = refusedRequests
	}
	got.requests, got.tokens = t.requests.level, t.tokens.level
	return got
}

// add charges the buckets.
func (t *tenant) add(n charge, w rates, now time.Time) {
	t.drain(w, now)
	t.requests.add(w.requests, n.requests)
	t.tokens.add(w.tokens, n.tokens)
	t.high.add(w.high, n.high)
}

// drain updates the buckets to now.
func (t *tenant) drain(w rates, now time.Time) {
	t.requests.drain(w.requests, now)
	t.tokens.drain(w.tokens, now)
	t.high.drain(w.high, now)
}

// follow takes over the levels that Redis returned, as one of n replicas: if Redis fails next, the tenant
// continues here with this replica's share of the free part.
func (t *tenant) follow(got answer, there, here rates, n int, now time.Time) {
	t.away = false
	if there.requests.perMinute > 0 {
		t.requests = bucket{localLevel(got.requests, there.requests, here.requests, n), now}
	}
	if there.tokens.perMinute > 0 {
		t.tokens = bucket{localLevel(got.tokens, there.tokens, here.tokens, n), now}
	}
}

// takeUnsynced returns what Redis must take over after requests were admitted without it, or data were lost: at least the
// level that results if all n replicas are at this one's level, and, if Redis was unavailable for longer, this
// replica's level in addition. It is returned once, until alone is set again.
func (t *tenant) takeUnsynced(there, here rates, n int, now time.Time) (u unsynced) {
	if !t.alone {
		return unsynced{}
	}
	t.alone = false
	t.drain(here, now)
	if there.requests.perMinute > 0 {
		u.minRequests = sharedLevel(t.requests.level, there.requests, here.requests, n)
	}
	if there.tokens.perMinute > 0 {
		u.minTokens = sharedLevel(t.tokens.level, there.tokens, here.tokens, n)
	}
	if t.away {
		u.requests, u.tokens = t.requests.level, t.tokens.level
	}
	return u
}
