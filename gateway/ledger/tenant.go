package ledger

import (
	"math"
	"strconv"
	"time"
)

const (
	maxTenants = 10_000 // bounds the memory
	maxPassed  = 64     // tenants that a new one looks at for one to forget
)

// tenant is this replica's state of one tenant. The ledger's lock guards it.
type tenant struct {
	name, field string    // field is that of its windows in Redis
	used        time.Time // last

	limit       Limit  // of its last request
	local       levels // of this replica by itself
	slots       int    // answers in progress that count
	corrections cost   // of levels, that Redis must be told
	retries     retryBudget

	windows windows
	version int64 // of the last call about the windows
	heard   int64 // of the newest call whose reply was used
	pending int   // requests that wait for a reply
}

// tenantOf returns or makes the tenant of a request; room is false if there are too many. The caller holds the lock.
func (l *Ledger) tenantOf(a *Request, replicas int, now time.Time) (t *tenant, room bool) {
	t, room = l.tenants[a.Tenant], true
	if t == nil {
		l.made++
		t = &tenant{name: a.Tenant, field: l.process + "." + strconv.FormatInt(l.made, 36)}
		if l.redis != nil { // without Redis, the levels of a new tenant are 0
			t.start(a.Limit.local(replicas), now)
		}
		room = len(l.tenants) < maxTenants || l.forgetOne()
		l.tenants[a.Tenant] = t
	}
	t.used = now
	if !a.Fallback {
		t.limit = a.Limit
	}
	return t, room
}

// forgetOne forgets the tenant that was silent longest of some that may be forgotten: no request may change it, and Redis knows its
// budgets. False: none of those may. The caller holds the lock.
func (l *Ledger) forgetOne() bool {
	var oldest *tenant
	passed := 0
	for _, t := range l.tenants {
		_, unsent := l.unsent[t]
		budgeted, quiet := t.budgeted(l.now())
		if t.slots == 0 && t.pending == 0 && !unsent && quiet && (!budgeted || l.redis != nil) && (oldest == nil || t.used.Before(oldest.used)) {
			oldest = t
		}
		if passed++; passed == maxPassed {
			break
		}
	}
	if oldest != nil {
		delete(l.tenants, oldest.name)
	}
	return oldest != nil
}

// budgeted reports whether a window of the tenant is not over; quiet that none has a request in progress.
func (t *tenant) budgeted(now time.Time) (budgeted, quiet bool) {
	quiet = true
	for i := range t.windows {
		w := &t.windows[i]
		if now.Unix() < w.end {
			budgeted, quiet = true, quiet && w.own.reserved == cost{}
		}
	}
	return budgeted, quiet
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
		err = &LimitError{Tenant: a.Tenant, Limit: Concurrency, Max: a.Limit.Concurrent, Here: most, Requested: max(a.Answers, 1), Wait: time.Second}
		step := time.Second * time.Duration(want) / time.Duration(most) // an answer takes about a second
		err.Wait, err.Retry = t.retries.place(Concurrency, err.Wait, step, now)
		return 0, err
	}
	t.slots += want
	return want, nil
}

// start sets the levels of a new tenant: half of the slack of w, with capacity for at least two requests. Redis may know
// more, but did not answer, and a replica that has just started must not refuse a tenant that others admit.
func (t *tenant) start(w rates, now time.Time) {
	t.local.at = now
	t.local.now[ofRequests] = math.Max(0, math.Min(w[ofRequests].slack/2, w[ofRequests].burst()-2))
	t.local.now[ofTokens] = w[ofTokens].slack / 2
}
