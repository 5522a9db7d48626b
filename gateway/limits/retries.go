package limits

import (
	"math"
	"time"
)

const (
	// retryHalf is the time in which half of what was counted is forgotten.
	retryHalf = 10 * time.Second
	// retryShare is the share of a tenant's first tries that may be invited to retry.
	retryShare = 0.1
	// retryFew is the number of first tries below which the budget does not fall: a tenant
	// that sends little may be invited once.
	retryFew = 10
	// retryRest is the rest of an earlier invitation that counts as none. One that was made
	// 43 s ago is worth so little.
	retryRest = 0.05
)

// retries is the budget of one tenant's invitations to retry: what a refusal says without
// X-Should-Retry: false. An invitation is counted when it is made, not when the retry
// arrives; so the budget holds however long clients wait. The zero value works.
type retries struct {
	firsts, invited float64 // of late
	at              time.Time
}

// forget lets what was counted decay until now. A clock that steps back changes nothing.
func (r *retries) forget(now time.Time) {
	if passed := now.Sub(r.at); passed > 0 {
		kept := math.Exp2(-passed.Seconds() / retryHalf.Seconds())
		r.firsts, r.invited, r.at = r.firsts*kept, r.invited*kept, now
	}
}

// first counts a first try.
func (r *retries) first(now time.Time) {
	r.forget(now)
	r.firsts++
}

// invite reports whether a refused client may be invited to retry, and counts it if so.
func (r *retries) invite(now time.Time) bool {
	r.forget(now)
	if r.invited+1 > retryShare*max(r.firsts, retryFew)+retryRest {
		return false
	}
	r.invited++
	return true
}
