package estimate

import (
	"math/bits"
	"sync/atomic"
	"time"

	"github.com/foregate/foregate/tiers/prefix"
)

const (
	// tail is the expected remaining length of an answer that has passed its expected length, as a share of that.
	// Answer lengths have long tails.
	tail = 4
	// forecastFor is how long a forecast is valid while no request begins or ends.
	forecastFor = 50 * time.Millisecond
)

// Request is one request in flight on a backend. Exported fields are set before it starts and do not change. It must not
// be copied after its start.
type Request struct {
	Began     time.Time
	Ahead     float64                      // prompt tokens that were queued before its own
	Shared    int                          // tokens of its prompt that another request there held already
	Answers   int                          // how many it asks for; each is a sequence in the engine, and in [Totals]. 0 is 1
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

// CountToken counts one token, or chunk, of the answer. It is safe for concurrent use.
func (r *Request) CountToken() { r.came.Add(1) }

// Totals returns what is counted for the request; after its end, the last values.
func (r *Request) Totals() Totals { return r.totals }

// FirstToken returns the time of the first token; zero until then.
func (r *Request) FirstToken() time.Time { return r.first }

// IsEnded reports whether the request has ended.
func (r *Request) IsEnded() bool { return r.ended }

// remaining returns the expected rest of r's answers in tokens, and the tokens generated so far. For an answer in one
// piece both are estimated by time, and so is whether its prompt has been computed.
func (r *Request) remaining(now time.Time, s Speed) (remaining, generated int, prefilled bool) {
	generated, prefilled = int(r.came.Load()), !r.first.IsZero()
	if r.Whole {
		if since := now.Sub(r.Began) - r.prefill(s); since > 0 {
			generated, prefilled = int(since.Seconds()/s.Decode)*max(r.Answers, 1), true
		}
	}
	remaining = max(r.Output-generated, r.Output/tail, 1)
	if r.MaxOutput > 0 {
		generated = min(generated, r.MaxOutput)
		remaining = min(remaining, r.MaxOutput-generated)
	}
	return remaining, generated, prefilled
}

// prefill returns the estimated time until the first token.
func (r *Request) prefill(s Speed) time.Duration {
	return time.Duration((r.Ahead + float64(r.totals.Queued)) * s.Prefill * float64(time.Second))
}

// forecast is what the requests of an account will still add to the KV cache.
type forecast struct {
	growth    float64 // tokens, at the worst moment
	variance  float64 // of what they will have at the end
	partly    float64 // prompt tokens of those that have not begun to answer
	beginning int     // answers to these
	at        time.Time
	stale     bool // something has begun or ended since
}

// of computes the forecast, or returns the last one while it is valid. All answers are assumed to grow at the same
// speed, and each frees its memory at its end: when the k longest remain, each has grown by the rest of the shortest of
// them. So the maximum is max over k of (tokens that the k longest hold + k × the rest of the k-th). This is the rule of
// the past-future scheduler (Gong et al. 2025), with rests rounded up to half-octaves, so that nothing is sorted.
func (f *forecast) of(requests []*Request, now time.Time, s Speed) *forecast {
	if age := now.Sub(f.at); !f.stale && age >= 0 && age < forecastFor {
		return f
	}
	var count, held [spans]int
	all := 0
	*f = forecast{at: now}
	for _, r := range requests {
		left, generated, prefilled := r.remaining(now, s)
		if !prefilled {
			f.partly += float64(r.totals.PromptTokens)
			f.beginning += max(r.Answers, 1)
		}
		f.variance += r.Variance
		i := span(left / max(r.Answers, 1))
		count[i] += max(r.Answers, 1)
		held[i] += r.totals.PromptTokens + generated
		all += r.totals.PromptTokens + generated
	}
	maximum, k, holds := 0, 0, 0
	for i := spans - 1; i >= 0; i-- {
		if count[i] == 0 {
			continue
		}
		k += count[i]
		holds += held[i]
		maximum = max(maximum, holds+k*spanEnd(i))
	}
	f.growth = float64(max(maximum-all, 0))
	return f
}

// half-octaves of what is left of an answer, up to a million tokens.
const spans = 42

// span returns the half-octave of n, spanEnd the upper end of one.
func span(n int) int {
	if n < 2 {
		return 0
	}
	o := bits.Len(uint(n)) - 1
	return min(2*o+(n>>(o-1))&1, spans-1)
}

func spanEnd(s int) int { return 1<<(s/2) + (s%2+1)<<(s/2)/2 }
