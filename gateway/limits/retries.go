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

// retryBudget is the budget of one tenant's retries: of refusals without X-Should-Retry: false. A retry is
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
