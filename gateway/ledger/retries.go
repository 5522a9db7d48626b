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
)

// retryBudget is the budget of one tenant's retries after a 5xx: of those with X-Should-Retry: true. Each gets a place of its own,
// so that those that obey arrive no faster than the budget, however long clients wait. The zero value works.
type retryBudget struct {
	firsts float64 // recent, decaying
	at     time.Time
	free   time.Time // the next place
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

// advise gives a refused client that would come again after wait a place, and returns the wait until then. False: it is too far.
func (r *retryBudget) advise(wait time.Duration, now time.Time) (time.Duration, bool) {
	r.forget(now)
	turn := max(wait, r.free.Sub(now))
	if turn > max(wait, maxPromise) {
		return wait, false
	}
	each := retryShare * max(r.firsts, retryMinTries) * math.Ln2 / retryHalfLife.Seconds() // places in a second
	r.free = now.Add(turn + time.Duration(float64(time.Second)/each))
	return turn, true
}

// maxPromise is the longest wait after which clients are told to retry. With the spread that the gateway adds it is less than the
// minute that the SDKs obey.
const maxPromise = 50 * time.Second

// promise gives a refused client a place of its own behind those that wait already, a step after the one before it, and sets the wait
// until then. So no more clients are told to retry than the limit admits, and those that obey are admitted, if nobody else takes
// their places. If the place is too far, the wait stays, and the client is not told to retry.
func (t *tenant) promise(e *LimitError, step time.Duration, now time.Time) {
	turn := max(e.Wait, t.promised[e.Limit].Sub(now))
	if turn > maxPromise {
		return
	}
	if t.promised == nil {
		t.promised = map[Kind]time.Time{}
	}
	e.Retry, e.Wait, t.promised[e.Limit] = true, turn, now.Add(turn+step)
}
