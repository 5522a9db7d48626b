package capacity

import (
	"math"
	"math/bits"
	"time"

	"github.com/foregate/foregate/tiers/pool/estimate"
)

const (
	// marginSigmas is how many standard deviations of what is there together are kept free for
	// answers that are longer than the mean: with 3, one forecast in 700 is too low.
	marginSigmas = 3
	// unmodelled is the share of the KV cache kept free for what no forecast sees: what
	// other replicas send between two readings, prompts longer than estimated.
	unmodelled = 0.05
	// tail is the share of its expected length that an answer which has passed it is
	// expected to go on for. Lengths of answers have long tails.
	tail = 4
	// forecastFor is how long a forecast is good for while nothing begins or ends.
	forecastFor = 50 * time.Millisecond
)

// Facts are what is known of a backend beside the requests of its account.
type Facts struct {
	ReadAt    time.Time // when its reading was taken
	Running   float64   // requests running there, by the reading, aged
	Waiting   float64   // requests queued there, likewise
	Capacity  int       // tokens of one engine's KV cache; 0 is unknown
	BlockSize int       // tokens
	Engines   int       // behind its URL; below 1 is 1

	Replicas int // of the gateway, this one included; below 1 is 1

	Speed  estimate.Speed // as learned of this backend alone
	Pooled estimate.Speed // the same within the bounds of its pool
	Pace   float64        // seconds per token of one request between its last two readings; 0 is unknown

	Prompt   float64 // tokens of a mean prompt
	Output   float64 // tokens of a mean answer
	Variance float64 // of that
}

// Outlook is what a backend's KV cache will be asked for by what is there, in tokens of one engine.
type Outlook struct {
	Growth     float64 // by which the requests there are expected to fill the cache further, at the worst moment
	Margin     float64 // by how much more than expected that may be
	OwnPartly  float64 // of own prompts, not computed yet
	OthersHeld float64 // by other replicas' requests, beyond the reading
}

// Outlook reckons with the requests of the account and with those of other replicas. These are
// taken to be like ours; without any of ours, like the mean.
func (a *Account) Outlook(now time.Time, f *Facts) Outlook {
	own := float64(len(a.requests))
	// An engine tells of a step when it is over: what we sent it in that time it does not
	// show, and so not what others have sent either.
	unseen := max(own-f.Running-f.Waiting, float64(a.recent.sum.Requests), 0)
	others := max(unseen-1, 0) * (float64(max(f.Replicas, 1)) - 1) // one request of ours is no sign of theirs
	all := max(f.Running+f.Waiting+unseen+others, own)

	// Of two paces the slower one: less has been generated.
	g := a.foresee(now, estimate.Speed{Prefill: f.Speed.Prefill, Decode: max(f.Pooled.Decode, f.Pace)})
	growth, variance := all*f.Output/2, all*f.Variance
	if own > 0 {
		growth, variance = g.growth*all/own, g.variance*all/own
	}
	growth += all * float64(f.BlockSize) / 2 // the last block of each is half full

	seen := f.ReadAt.Sub(a.prefillSince).Seconds() / f.Pooled.Prefill // of the prompt under way, by the reading
	each := f.Prompt                                                  // held by a request whose prompt is not computed yet
	if g.beginning > 0 {
		each = g.partly / float64(g.beginning)
	}
	waits := max(f.Waiting-float64(max(g.beginning-a.recent.sum.Waiting, 0)), 0) // those of others that the reading shows

	engines := float64(max(f.Engines, 1)) // the capacity is one engine's
	return Outlook{
		Growth:     growth / engines,
		Margin:     marginSigmas*math.Sqrt(variance/engines) + unmodelled*float64(f.Capacity),
		OwnPartly:  max(g.partly-max(seen, 0), 0) / engines,
		OthersHeld: (waits + others) * each / engines,
	}
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

// foresee is the forecast, made anew where it is old. All answers grow at one pace, and each frees
// what it holds when it ends: when the k longest are still there, they have grown by what the
// shortest of them had left. So the worst moment holds max over k of (what the k longest hold +
// k × what the k-th has left). It is the rule of the past-future scheduler (Gong et al. 2025), with
// what is left rounded up to half-octaves, so that nothing is sorted.
func (a *Account) foresee(now time.Time, s estimate.Speed) *forecast {
	f := &a.forecast
	if age := now.Sub(f.at); !f.stale && age >= 0 && age < forecastFor {
		return f
	}
	var count, held [spans]int
	all := 0
	*f = forecast{at: now}
	for _, r := range a.requests {
		if !r.begun(now, s) {
			f.partly += float64(r.tally.Held)
			f.beginning++
		}
		left, generated := r.remaining(now, s)
		f.variance += r.Variance
		i := span(left)
		count[i]++
		held[i] += r.tally.Held + generated
		all += r.tally.Held + generated
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
	prefill := (r.Ahead + float64(r.tally.Queued)) * s.Prefill
	return r.Began.Add(time.Duration(prefill * float64(time.Second)))
}

// begun reports whether the prompt has been computed.
func (r *Request) begun(now time.Time, s estimate.Speed) bool {
	return !r.first.IsZero() || r.Whole && now.After(r.begins(s))
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
