package estimate

import "time"

// Totals are sums over requests of this replica.
type Totals struct {
	Requests     int // sequences: one for each answer
	Waiting      int // those of requests whose first token has not come
	Queued       int // prompt tokens that are still to be computed, without those expected in the prefix cache
	PromptTokens int // prompt tokens: what fills the KV cache soon after the start
	Tokens       int // prompt tokens and half of the expected output: what fills it on average
}

func (t *Totals) add(o Totals) {
	t.Requests += o.Requests
	t.Waiting += o.Waiting
	t.Queued += o.Queued
	t.PromptTokens += o.PromptTokens
	t.Tokens += o.Tokens
}

func (t *Totals) sub(o Totals) {
	t.Requests -= o.Requests
	t.Waiting -= o.Waiting
	t.Queued -= o.Queued
	t.PromptTokens -= o.PromptTokens
	t.Tokens -= o.Tokens
}

const (
	slice = 50 * time.Millisecond
	kept  = 128 // 6.4 s: older readings say almost nothing
)

// recent sums requests by their start time in slices, so that those a reading cannot include are known however late it
// arrives. A request of the reading's own slice counts as not included: counting twice is safer than not at all.
type recent struct {
	base  time.Time // before every request
	by    [kept]Totals
	now   int64  // number of the newest slice
	since int64  // requests of this slice and later are not in the reading
	sum   Totals // of those
}

// slice returns the number of the slice of a time.
func (r *recent) slice(at time.Time) int64 { return max(int64(at.Sub(r.base)/slice), 0) }

// start adds a request.
func (r *recent) start(t Totals, at time.Time) {
	n := r.advance(r.slice(at))
	r.by[n%kept].add(t)
	if n >= r.since {
		r.sum.add(t)
	}
}

// end subtracts a part of a request that began at the given time.
func (r *recent) end(t Totals, at time.Time) {
	n := r.slice(at)
	if n > r.now {
		return // it began before the clock was set back
	}
	if n > r.now-kept {
		r.by[n%kept].sub(t)
	}
	if n >= r.since {
		r.sum.sub(t)
	}
}

// read says that a reading taken at the given time is in force. Requests older than the slices count as included.
func (r *recent) read(at time.Time) {
	r.since = max(r.slice(at), r.now-kept+1)
	r.sum = Totals{}
	for n := r.since; n <= r.now; n++ {
		r.sum.add(r.by[n%kept])
	}
}

// advance makes n the newest slice and returns the slice to use. If the clock was set back, older requests are
// forgotten.
func (r *recent) advance(n int64) int64 {
	if n <= r.now-kept {
		r.now, r.since, r.sum = n, n, Totals{}
		clear(r.by[:]) // in place: a new value would take 5 KiB of the request's stack
		return n
	}
	if n <= r.now {
		return n
	}
	for i := max(r.now+1, n-kept+1); i <= n; i++ {
		r.by[i%kept] = Totals{}
	}
	r.now = n
	return n
}
