package ledger

import (
	"math"
	"strconv"
	"time"

	"github.com/foregate/foregate/gateway/identity"
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
	corrections charge // of levels, that Redis must be told
	untold      charge // what was admitted without Redis
	retries     retryBudget
	promised    map[Kind]time.Time // the next place that no client was told to wait for, by limit

	windows [len(periods)]window
	version int64 // of the last call about the windows
	heard   int64 // of the newest call whose reply was used
	pending int   // requests that wait for a reply

	shared      [numHeard]float64 // levels in Redis as heard last
	lease       lease
	asked, last int // requests since Redis was told of the tenant last, and in the time before
}

// tenantOf returns or makes the tenant of a request; room is false if there are too many. The caller holds the lock.
func (l *Ledger) tenantOf(a *Request, now time.Time) (t *tenant, room bool) {
	t, room = l.tenants[a.Tenant], true
	if t == nil {
		l.made++
		t = &tenant{name: a.Tenant, field: l.process + "." + strconv.FormatInt(l.made, 36)}
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
			budgeted, quiet = true, quiet && w.own.reserved == amounts{}
		}
	}
	return budgeted, quiet
}

// begins opens the windows of budgets.
func (t *tenant) begins(budgets []identity.Budget, now time.Time) (all begins) {
	for _, b := range budgets {
		w := &t.windows[indexOf(b)]
		w.open(b.Per, now)
		all[indexOf(b)] = w.begin
	}
	return all
}

// reserve reserves n times an amount in windows, or frees it, n below 0, where they are not over. It reports whether one is not.
func (t *tenant) reserve(in begins, a amounts, n int64) (changed bool) {
	for i := range t.windows {
		w := &t.windows[i]
		switch r := &w.own.reserved; {
		case in[i] == 0 || w.begin != in[i]:
			continue
		case n < 0:
			*r = r.minus(a)
		default:
			*r = r.plus(amounts{a.tokens * n, a.nanos * n})
		}
		changed = true
	}
	return changed
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

// everything is more than any level: after a loss of data Redis must be told all.
const everything = 1 << 40

// tellAlone returns what Redis must be told of what was admitted without it: as much as has not drained since.
func (t *tenant) tellAlone(here rates, now time.Time) (n charge) {
	if t.untold == n {
		return n
	}
	t.local.add(charge{}, here, now)
	for i, level := range t.local.now {
		n[i] = min(t.untold[i], int(math.Round(level)))
	}
	t.untold = charge{}
	return n
}
