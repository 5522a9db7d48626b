// Package capacity reckons what one backend's KV cache holds for this replica's requests,
// what they have still to compute there, and what the cache must hold when all that is there
// has grown.
//
// Start at [Account]. The package is pure: it has no clock, no lock and no logger. Its callers
// bring the time, and make one call of an Account at a time. What is taken at [Account.Start]
// is given back at [Account.End], whatever came between.
package capacity

import (
	"time"

	"github.com/foregate/foregate/tiers/prefix"
)

// Account is what this replica's requests take of one backend. Make it with [NewAccount].
type Account struct {
	all      Totals
	recent   recent // of these, what the last reading cannot include
	requests []*Request
	using    map[prefix.Key]int // parts of their prompts

	prefillSince time.Time // when the prefill that is under way began, as far as one knows
	forecast     forecast
}

// NewAccount is an account without requests; base is before all that will start.
func NewAccount(base time.Time) Account {
	return Account{recent: recent{base: base}, using: map[prefix.Key]int{}}
}

// All sums the requests in flight. What it points at is only to be read.
func (a *Account) All() *Totals { return &a.all }

// Recent sums of these what the last reading cannot include. What it points at is only to be read.
func (a *Account) Recent() *Totals { return &a.recent.sum }

// Requests are the requests in flight. The slice is the account's own, good until its next call.
func (a *Account) Requests() []*Request { return a.requests }

// Start counts a request in, at r.Began.
func (a *Account) Start(r *Request, t Totals) {
	if a.all.Queued == 0 {
		a.prefillSince = r.Began
	}
	r.totals = t
	a.all.add(t)
	a.recent.start(t, r.Began)
	r.index = len(a.requests)
	a.requests = append(a.requests, r)
	for _, part := range r.Parts {
		if part.Key != 0 {
			a.using[part.Key]++
		}
	}
	a.forecast.stale = true
}

// FirstToken counts the prompt of a request as computed. It returns the prompt tokens that were
// computed since it began, its own and those ahead of it; first is false where there is nothing
// to count, because it had its first token before or has ended.
func (a *Account) FirstToken(r *Request, now time.Time) (tokens float64, first bool) {
	if r.ended || !r.first.IsZero() {
		return 0, false
	}
	r.first = now
	tokens = float64(r.totals.Queued) + r.Ahead
	a.giveBack(r, Totals{Queued: r.totals.Queued, Waiting: 1})
	a.prefillSince = now // one after the other: the next has only begun
	return tokens, true
}

// Count puts right what is held by a request whose prompt had so many tokens.
func (a *Account) Count(r *Request, prompt int) {
	if r.ended {
		return
	}
	held := r.totals.Held - max(prompt-r.Shared, 0)
	off := Totals{Held: held, Tokens: held}
	if r.first.IsZero() {
		off.Queued = min(held, r.totals.Queued)
	}
	a.giveBack(r, off)
}

// giveBack counts a part of a request out, or in where it is negative.
func (a *Account) giveBack(r *Request, part Totals) {
	r.totals.sub(part)
	a.all.sub(part)
	a.recent.end(part, r.Began)
}

// End counts a request out. Only the first call counts.
func (a *Account) End(r *Request) {
	if r.ended {
		return
	}
	r.ended = true
	a.all.sub(r.totals)
	a.recent.end(r.totals, r.Began)
	last := len(a.requests) - 1
	a.requests[r.index] = a.requests[last]
	a.requests[r.index].index = r.index
	a.requests[last] = nil
	a.requests = a.requests[:last]
	for _, part := range r.Parts {
		if a.using[part.Key]--; a.using[part.Key] <= 0 {
			delete(a.using, part.Key)
		}
	}
	a.forecast.stale = true
}

// Read says that a reading which was taken at the given time is in force.
func (a *Account) Read(at time.Time) { a.recent.read(at) }

// Uncomputed is how many prompt tokens are still to be computed, at so many tokens per second.
func (a *Account) Uncomputed(now time.Time, perSecond float64) float64 {
	if a.all.Queued == 0 {
		return 0
	}
	done := now.Sub(a.prefillSince).Seconds() * perSecond
	return max(float64(a.all.Queued)-done, 0)
}

// Using is how many tokens of a prompt the requests in flight are using, of those that are
// cached: one need not hold them a second time.
func (a *Account) Using(parts []prefix.Part, prompt, cached int) int {
	n := 0
	for _, part := range parts {
		if part.Key != 0 && a.using[part.Key] > 0 {
			n = max(n, int(part.Share*float64(prompt)))
		}
	}
	return min(n, cached)
}
