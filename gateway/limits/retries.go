package limits

import (
	"math"
	"time"
)

const (
	// retryHalfLife is the half-life of the counts.
	retryHalfLife = 10 * time.Second
	// retryShare is the share of a tenant's first tries that may be told to retry.
	retryShare = 0.1
	// retryMinTries is the number of first tries below which the budget does not fall: a tenant that sends
	// little may retry once.
	retryMinTries = 10
	// retryResidue is the rest of an earlier retry below which it counts as none: its value after 43 s.
	retryResidue = 0.05
)

// retryBudget is the budget of one tenant's retries after a 5xx: of those with X-Should-Retry: true. A retry is
// counted when the client is told, not when it arrives, so the budget holds however long clients wait. The
// zero value works.
type retryBudget struct {
	firsts, advised float64 // recent, decaying
	at              time.Time
}

// forget lets the counts decay until now. A clock that steps back changes nothing.
func (r *retryBudget) forget(now time.Time) {
	if passed := now.Sub(r.at); passed > 0 {
		kept := math.Exp2(-passed.Seconds() / retryHalfLife.Seconds())
		r.firsts, r.advised, r.at = r.firsts*kept, r.advised*kept, now
	}
}

// first counts a first try.
func (r *retryBudget) first(now time.Time) {
	r.forget(now)
	r.firsts++
}

// advise reports whether a refused client may be told to retry, and counts it if so.
func (r *retryBudget) advise(now time.Time) bool {
	r.forget(now)
	if r.advised+1 > retryShare*max(r.firsts, retryMinTries)+retryResidue {
		return false
	}
	r.advised++
	return true
}

// maxPromise is the longest wait after which clients are told to retry. With the spread that the gateway adds it is less than the
// minute that the SDKs obey.
const maxPromise = 50 * time.Second

// promise gives a refused client a place of its own behind those that wait already, a step after the one before it, and sets the wait
// until then. So no more clients are told to retry than the limit admits, and those that obey are admitted, if nobody else takes
// their places. If the place is too far, the wait stays, and the client is not told to retry.
func (t *tenant) promise(e *Error, step time.Duration, now time.Time) {
	at := now.Add(e.Wait)
	if next := t.promised[e.Limit]; next.After(at) {
		at = next
	}
	if at.Sub(now) > maxPromise {
		return
	}
	if t.promised == nil {
		t.promised = map[Kind]time.Time{}
	}
	e.Retry, e.Wait, t.promised[e.Limit] = true, at.Sub(now), at.Add(step)
}
