package estimate

import (
	"time"

	"github.com/foregate/foregate/tiers/prefix"
)

// Account sums this replica's requests on one backend. Make it with [NewAccount].
type Account struct {
	all      Totals
	recent   recent // requests that the last reading cannot include
	requests []*Request
	using    map[prefix.Key]int // use counts of prompt prefixes

	prefillSince time.Time // estimated start of the current prefill
	forecast     forecast
}

// NewAccount returns an account without requests. base is a time before all requests.
func NewAccount(base time.Time) Account {
	return Account{recent: recent{base: base}, using: map[prefix.Key]int{}}
}

// All returns the sums of all requests in flight, for reading only.
func (a *Account) All() *Totals { return &a.all }

// Recent returns the sums of those that the last reading cannot include, for reading only.
func (a *Account) Recent() *Totals { return &a.recent.sum }

// Requests returns the requests in flight. The slice is valid until the next call.
func (a *Account) Requests() []*Request { return a.requests }

// Start adds a request at r.Began.
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

// FirstToken counts the prompt of a request as computed. It returns the prompt tokens computed since the request began,
// including those queued before it. first is false if there is nothing to count: the request had its first token before,
// or has ended.
func (a *Account) FirstToken(r *Request, now time.Time) (tokens float64, first bool) {
	if r.ended || !r.first.IsZero() {
		return 0, false
	}
	r.first = now
	tokens = float64(r.totals.Queued) + r.Ahead
	a.giveBack(r, Totals{Queued: r.totals.Queued, Waiting: r.totals.Waiting})
	a.prefillSince = now // prefills run one after the other, so the next one starts now
	return tokens, true
}

// Count corrects the held tokens to the exact length of the prompt.
func (a *Account) Count(r *Request, prompt int) {
	if r.ended {
		return
	}
	held := r.totals.PromptTokens - max(prompt-r.Shared, 0)
	off := Totals{PromptTokens: held, Tokens: held}
	if r.first.IsZero() {
		off.Queued = min(held, r.totals.Queued)
	}
	a.giveBack(r, off)
}

// giveBack subtracts a part of a request, or adds it if negative.
func (a *Account) giveBack(r *Request, part Totals) {
	r.totals.sub(part)
	a.all.sub(part)
	a.recent.end(part, r.Began)
}

// End removes a request. Only the first call counts.
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

// Read says that a reading taken at the given time is in force.
func (a *Account) Read(at time.Time) { a.recent.read(at) }

// Uncomputed returns the prompt tokens that are still to be computed, at perSecond tokens per second.
func (a *Account) Uncomputed(now time.Time, perSecond float64) float64 {
	if a.all.Queued == 0 {
		return 0
	}
	done := now.Sub(a.prefillSince).Seconds() * perSecond
	return max(float64(a.all.Queued)-done, 0)
}

// Using returns how many cached tokens of a prompt other requests in flight use; they need no second copy.
func (a *Account) Using(parts []prefix.Part, prompt, cached int) int {
	n := 0
	for _, part := range parts {
		if part.Key != 0 && a.using[part.Key] > 0 {
			n = max(n, int(part.Share*float64(prompt)))
		}
	}
	return min(n, cached)
}
