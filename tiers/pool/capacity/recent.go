package capacity

import "time"

// Totals sums requests of this replica.
type Totals struct {
	Requests int
	Waiting  int // requests whose first token has not come
	Queued   int // prompt tokens that are still to be computed, without those expected in the prefix cache
	Held     int // prompt tokens: what fills the KV cache soon after the start
	Tokens   int // prompt tokens and half of the expected output: what fills it on average
}

func (t *Totals) add(o Totals) {
	t.Requests += o.Requests
	t.Waiting += o.Waiting
	t.Queued += o.Queued
	t.Held += o.Held
	t.Tokens += o.Tokens
}

func (t *Totals) sub(o Totals) {
	t.Requests -= o.Requests
	t.Waiting -= o.Waiting
	t.Queued -= o.Queued
	t.Held -= o.Held
	t.Tokens -= o.Tokens
}

const (
	slice = 50 * time.Millisecond
	kept  = 128 // 6.4 s: a reading older than that is hardly one any more
)

// recent sums requests by when they began, so that what a reading cannot include yet
// is known whoever took it, and however late it comes. A request that began in the same
// slice as the reading counts as not included: better twice than never.
type recent struct {
	base  time.Time // before every request
	by    [kept]Totals
	now   int64  // number of the newest slice
	since int64  // requests of this slice and later are not in the reading
	sum   Totals // of those
}

// slice is the number of the slice that a time falls in, by the monotonic clock where
// the times have it.
func (r *recent) slice(at time.Time) int64 { return max(int64(at.Sub(r.base)/slice), 0) }

// start counts a request in.
func (r *recent) start(t Totals, at time.Time) {
	n := r.advance(r.slice(at))
	r.by[n%kept].add(t)
	if n >= r.since {
		r.sum.add(t)
	}
}

// end counts a part of a request out that began at the given time.
func (r *recent) end(t Totals, at time.Time) {
	n := r.slice(at)
	if n > r.now {
		return // it began before the clock went back
	}
	if n > r.now-kept {
		r.by[n%kept].sub(t)
	}
	if n >= r.since {
		r.sum.sub(t)
	}
}

// read says that a reading taken at the given time is in force. What began so long
// before that its slice is gone counts as included.
func (r *recent) read(at time.Time) {
	r.since = max(r.slice(at), r.now-kept+1)
	r.sum = Totals{}
	for n := r.since; n <= r.now; n++ {
		r.sum.add(r.by[n%kept])
	}
}

// advance makes n the newest slice, unless time went back a little, and returns the
// slice to use. When the clock was put back, what began before is forgotten.
func (r *recent) advance(n int64) int64 {
	if n <= r.now-kept {
		*r = recent{base: r.base, now: n, since: n}
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
