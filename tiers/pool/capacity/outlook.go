package capacity

import (
	"math"
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
)

// Inputs are what is known of a backend beside the requests of its account.
type Inputs struct {
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

// Forecast is what a backend's KV cache will be asked for by what is there, in tokens of one engine.
type Forecast struct {
	Growth     float64 // by which the requests there are expected to fill the cache further, at the worst moment
	Margin     float64 // by how much more than expected that may be
	OwnPartly  float64 // of own prompts, not computed yet
	OthersHeld float64 // by other replicas' requests, beyond the reading
}

// Forecast reckons with the requests of the account and with those of other replicas. These are
// taken to be like ours; without any of ours, like the mean.
func (a *Account) Forecast(now time.Time, f *Inputs) Forecast {
	own := float64(len(a.requests))
	// An engine tells of a step when it is over: what we sent it in that time it does not
	// show, and so not what others have sent either.
	unseen := max(own-f.Running-f.Waiting, float64(a.recent.sum.Requests), 0)
	others := max(unseen-1, 0) * (float64(max(f.Replicas, 1)) - 1) // one request of ours is no sign of theirs
	all := max(f.Running+f.Waiting+unseen+others, own)

	// Of two paces the slower one: less has been generated.
	g := a.forecast.of(a.requests, now, estimate.Speed{Prefill: f.Speed.Prefill, Decode: max(f.Pooled.Decode, f.Pace)})
	growth, variance := all*f.Output/2, all*f.Variance
	if own > 0 {
		growth, variance = g.growth*all/own, g.variance*all/own
	}
	growth += all * float64(f.BlockSize) / 2 // the last block of each is half full

	partly, each := g.partly, f.Prompt // each is held by a request whose prompt is not computed yet
	if g.beginning > 0 {
		each = g.partly / float64(g.beginning)
		computed := f.ReadAt.Sub(a.prefillSince).Seconds() / f.Pooled.Prefill // of the prompt under way, by the reading
		partly = max(partly-max(computed, 0), 0)
	}
	waits := max(f.Waiting-float64(max(g.beginning-a.recent.sum.Waiting, 0)), 0) // those of others that the reading shows

	engines := float64(max(f.Engines, 1)) // the capacity is one engine's
	return Forecast{
		Growth:     growth / engines,
		Margin:     marginSigmas*math.Sqrt(variance/engines) + unmodelled*float64(f.Capacity),
		OwnPartly:  partly / engines,
		OthersHeld: (waits + others) * each / engines,
	}
}
