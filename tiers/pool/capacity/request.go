package capacity

import (
	"math/bits"
	"sync/atomic"
	"time"

	"github.com/foregate/foregate/tiers/pool/estimate"
	"github.com/foregate/foregate/tiers/prefix"
)

const (
	// tail is the share of its expected length that an answer which has passed it is
	// expected to go on for. Lengths of answers have long tails.
	tail = 4
	// forecastFor is how long a forecast is good for while nothing begins or ends.
	forecastFor = 50 * time.Millisecond
)

// Request is one request in flight on a backend. What is exported is set before it starts and
// does not change after. It must not be copied once it has started.
type Request struct {
	Began     time.Time
	Ahead     float64                      // prompt tokens that were queued before its own
	Shared    int                          // tokens of its prompt that another request there held already
	Output    int                          // tokens that all its answers are expected to have
	Variance  float64                      // of that
	MaxOutput int                          // tokens that they may have; 0 is unknown
	Whole     bool                         // they come in one piece, so that nobody sees them begin
	Parts     [prefix.MaxParts]prefix.Part // what the prompt begins with
	Owner     any                          // for whoever asks the account what is in flight

	came   atomic.Int32 // tokens of the answer so far, about
	index  int          // its place among the account's requests
	totals Totals       // what is counted of it
	first  time.Time    // when the first token came; zero until then
	ended  bool
}

// CountToken says that one more token, or chunk of the answer, has come. It may be called at any time,
// also beside other calls.
func (r *Request) CountToken() { r.came.Add(1) }

// Totals is what is counted of the request; once it has ended, what was at last.
func (r *Request) Totals() Totals { return r.totals }

// FirstToken is when the first token came, zero until then.
func (r *Request) FirstToken() time.Time { return r.first }

// IsEnded reports whether the request has ended.
func (r *Request) IsEnded() bool { return r.ended }

// remaining is how many tokens r is expected to have still to come, and generated how
// many have come. Of an answer that comes in one piece that is a guess by time.
func (r *Request) remaining(now time.Time, s estimate.Speed) (remaining, generated int) {
	generated = int(r.came.Load())
	if r.Whole && now.After(r.begins(s)) {
		generated = int(now.Sub(r.begins(s)).Seconds() / s.Decode)
	}
	remaining = max(r.Output-generated, r.Output/tail, 1)
	if r.MaxOutput > 0 {
		generated = min(generated, r.MaxOutput)
		remaining = min(remaining, r.MaxOutput-generated)
	}
	return remaining, generated
}

// begins is when the prompt of an answer that comes in one piece must have been
// computed.
func (r *Request) begins(s estimate.Speed) time.Time {
	prefill := (r.Ahead + float64(r.totals.Queued)) * s.Prefill
	return r.Began.Add(time.Duration(prefill * float64(time.Second)))
}

// begun reports whether the prompt has been computed.
func (r *Request) begun(now time.Time, s estimate.Speed) bool {
	return !r.first.IsZero() || r.Whole && now.After(r.begins(s))
}

// forecast is what the requests of an account will still add to its KV cache.
type forecast struct {
	growth    float64 // tokens, at the worst moment
	variance  float64 // of what they will have at the end
	partly    float64 // prompt tokens of those that have not begun to answer
	beginning int     // how many these are
	at        time.Time
	stale     bool // something has begun or ended since
}

// of is the forecast of some requests, made anew where it is old. All answers grow at one pace, and each frees
// what it holds when it ends: when the k longest are still there, they have grown by what the
// shortest of them had left. So the worst moment holds max over k of (what the k longest hold +
// k × what the k-th has left). It is the rule of the past-future scheduler (Gong et al. 2025), with
// what is left rounded up to half-octaves, so that nothing is sorted.
func (f *forecast) of(requests []*Request, now time.Time, s estimate.Speed) *forecast {
	if age := now.Sub(f.at); !f.stale && age >= 0 && age < forecastFor {
		return f
	}
	var count, held [spans]int
	all := 0
	*f = forecast{at: now}
	for _, r := range requests {
		if !r.begun(now, s) {
			f.partly += float64(r.totals.Held)
			f.beginning++
		}
		left, generated := r.remaining(now, s)
		f.variance += r.Variance
		i := span(left)
		count[i]++
		held[i] += r.totals.Held + generated
		all += r.totals.Held + generated
	}
	most, k, holds := 0, 0, 0
	for i := spans - 1; i >= 0; i-- {
		if count[i] == 0 {
			continue
		}
		k += count[i]
		holds += held[i]
		most = max(most, holds+k*spanEnd(i))
	}
	f.growth = float64(max(most-all, 0))
	return f
}

// half-octaves of what is left of an answer, up to a million tokens.
const spans = 42

// span is the half-octave of n, and spanEnd its upper end.
func span(n int) int {
	if n < 2 {
		return 0
	}
	o := bits.Len(uint(n)) - 1
	return min(2*o+(n>>(o-1))&1, spans-1)
}

func spanEnd(s int) int { return 1<<(s/2) + (s%2+1)<<(s/2)/2 }
