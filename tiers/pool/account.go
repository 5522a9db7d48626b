package pool

import (
	"time"

	"github.com/foregate/foregate/tiers/prefix"
)

// totals are sums over requests of this replica.
type totals struct {
	requests int // sequences: one for each answer
	waiting  int // those of requests whose first token has not come
	queued   int // prompt tokens that are still to be computed, without those expected in the prefix cache
	prompt   int // prompt tokens: what fills the KV cache soon after the start
}

// add adds o, or subtracts it if sign is −1.
func (t *totals) add(o totals, sign int) {
	t.requests += sign * o.requests
	t.waiting += sign * o.waiting
	t.queued += sign * o.queued
	t.prompt += sign * o.prompt
}

// account sums this replica's requests on one backend. Pool.mu guards it.
type account struct {
	all    totals
	recent totals    // of the requests that the last reading cannot include
	read   time.Time // requests that began then or later are recent
	leases []*Lease  // the requests in flight
	using  map[prefix.Key]int

	prefillSince time.Time // estimated start of the current prefill
	growth       growth
}

// isRecent reports whether the last reading cannot include a request. One that began in the slice of time that the reading
// shows counts as not included: counting twice is safer than not at all.
func (a *account) isRecent(l *Lease) bool { return !l.start.Before(a.read) }

// slice is the precision of a reading's time.
const slice = 50 * time.Millisecond

// sliceOf returns the beginning of the slice of time that contains t. The first slice begins at base.
func sliceOf(t, base time.Time) time.Time { return base.Add(t.Sub(base).Truncate(slice)) }

// noteRead says that a reading is in force that shows the engine as it was at the given time.
func (a *account) noteRead(at, base time.Time) {
	a.read, a.recent = sliceOf(at, base), totals{}
	for _, l := range a.leases {
		if a.isRecent(l) {
			a.recent.add(l.totals, 1)
		}
	}
}

// count adds a part of a request to the sums, or subtracts it if sign is −1.
func (a *account) count(l *Lease, part totals, sign int) {
	a.all.add(part, sign)
	if a.isRecent(l) {
		a.recent.add(part, sign)
	}
}

// begin adds a request.
func (a *account) begin(l *Lease) {
	if a.all.queued == 0 {
		a.prefillSince = l.start
	}
	a.count(l, l.totals, 1)
	l.index = len(a.leases)
	a.leases = append(a.leases, l)
	for _, part := range l.parts {
		if part.Key != 0 {
			a.using[part.Key]++
		}
	}
	a.growth.stale = true
}

// firstToken counts the prompt of a request as computed. It returns the prompt tokens computed since the request began,
// including those queued before it. first is false if there is nothing to count: the request had its first token before,
// or has ended.
func (a *account) firstToken(l *Lease, now time.Time) (tokens float64, first bool) {
	if l.ended || !l.first.IsZero() {
		return 0, false
	}
	l.first = now
	tokens = float64(l.totals.queued) + l.ahead
	a.giveBack(l, totals{queued: l.totals.queued, waiting: l.totals.waiting})
	a.prefillSince = now // prefills run one after the other, so the next one starts now
	return tokens, true
}

// correct corrects the held tokens to the exact length of the prompt.
func (a *account) correct(l *Lease, prompt int) {
	if l.ended {
		return
	}
	off := totals{prompt: l.totals.prompt - max(prompt-l.shared, 0)}
	if l.first.IsZero() {
		off.queued = min(off.prompt, l.totals.queued)
	}
	a.giveBack(l, off)
}

// giveBack subtracts a part of a request, or adds it if negative.
func (a *account) giveBack(l *Lease, part totals) {
	l.totals.add(part, -1)
	a.count(l, part, -1)
}

// end removes a request.
func (a *account) end(l *Lease) {
	l.ended = true
	a.count(l, l.totals, -1)
	last := len(a.leases) - 1
	a.leases[l.index] = a.leases[last]
	a.leases[l.index].index = l.index
	a.leases[last] = nil
	a.leases = a.leases[:last]
	for _, part := range l.parts {
		if a.using[part.Key]--; a.using[part.Key] <= 0 {
			delete(a.using, part.Key)
		}
	}
	a.growth.stale = true
}

// uncomputed returns the prompt tokens that are still to be computed, at perSecond tokens per second.
func (a *account) uncomputed(now time.Time, perSecond float64) float64 {
	if a.all.queued == 0 {
		return 0
	}
	done := now.Sub(a.prefillSince).Seconds() * perSecond
	return max(float64(a.all.queued)-done, 0)
}

// shares returns how many cached tokens of a prompt other requests in flight use; they need no second copy.
func (a *account) shares(parts []prefix.Part, prompt, cached int) int {
	n := 0
	for _, part := range parts {
		if part.Key != 0 && a.using[part.Key] > 0 {
			n = max(n, int(part.Share*float64(prompt)))
		}
	}
	return min(n, cached)
}
