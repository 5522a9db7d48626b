package ledger

import (
	"math"
	"time"
)

const (
	// retryHalfLife is the half-life of the count.
	retryHalfLife = 10 * time.Second
	// retryShare is the share of a tenant's first tries that may be told to retry.
	retryShare = 0.1
	// retryMinTries is the number of first tries below which the budget does not fall.
	retryMinTries = 10
	// maxPromise is the longest wait after which clients are told to retry. With the spread that the gateway adds it is less than
	// the minute that the SDKs obey.
	maxPromise = 50 * time.Second
)

// after5xx is what is refused in [Ledger.AdviseRetry], beside the limits.
const after5xx Kind = ""

// retryBudget is the budget of one tenant's retries: of those with X-Should-Retry: true. Each gets a place of its own, so that
// those that obey arrive no faster than the limit or, after a 5xx, than the budget, however long clients wait. So those that a
// limit has refused are admitted, if nobody else takes their places. The zero value works.
type retryBudget struct {
	firsts float64 // recent, decaying
	at     time.Time
	free   map[Kind]time.Time // the next place that no client was told to wait for
}

// forget lets the count decay until now. A clock that steps back changes nothing.
func (r *retryBudget) forget(now time.Time) {
	if passed := now.Sub(r.at); passed > 0 {
		r.firsts, r.at = r.firsts*math.Exp2(-passed.Seconds()/retryHalfLife.Seconds()), now
	}
}

// first counts a first try.
func (r *retryBudget) first(now time.Time) {
	r.forget(now)
	r.firsts++
}

// AdviseRetry reports whether a client may be told to retry after a 5xx, and after which wait, which is never shorter than the given
// one. Those of a tenant that obey arrive no faster than a tenth of its recent first tries, or one in 14 s if there were fewer than
// ten. Each replica counts for itself. Callers that were refused before Reserve, "" among them, share one budget; retry says that
// such a caller was refused before.
func (l *Ledger) AdviseRetry(tenant string, retry bool, wait time.Duration) (time.Duration, bool) {
	now := l.now()
	l.mu.Lock()
	defer l.mu.Unlock()
	budget := &l.unknownRetries
	if t := l.tenants[tenant]; t != nil {
		budget = &t.retries
	} else if !retry {
		budget.first(now)
	}
	budget.forget(now)
	each := retryShare * max(budget.firsts, retryMinTries) * math.Ln2 / retryHalfLife.Seconds() // places in a second
	return budget.place(after5xx, wait, time.Duration(float64(time.Second)/each), now)
}

// place gives a refused client that would come again after wait a place of its own behind those that wait already, a step after
// the one before it, and returns the wait until then. False: it is further off than most, so the client is not told to retry.
func (r *retryBudget) place(of Kind, wait, step time.Duration, now time.Time) (time.Duration, bool) {
	turn, most := max(wait, r.free[of].Sub(now)), maxPromise
	if of == after5xx {
		most = max(wait, most)
	}
	if turn > most {
		return wait, false
	}
	if r.free == nil {
		r.free = map[Kind]time.Time{}
	}
	r.free[of] = now.Add(turn + step)
	return turn, true
}
