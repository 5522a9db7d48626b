package estimate

import (
	"math"
	"time"
)

const (
	// marginSigmas is the margin for answers longer than the mean, in standard deviations of their sum: with 3, one
	// forecast in 700 is too low.
	marginSigmas = 3
	// unmodelled is the share of the KV cache kept free for what the forecast cannot include: requests that other
	// replicas send between two readings, and prompts longer than estimated.
	unmodelled = 0.05
)

// Inputs are what is known of a backend besides the account's requests.
type Inputs struct {
	ReadAt    time.Time // when its reading was taken
	Running   float64   // requests running there, by the reading, aged
	Waiting   float64   // requests queued there, likewise
	Capacity  int       // tokens of one engine's KV cache; 0 is unknown
	BlockSize int       // tokens
	Engines   int       // behind its URL; below 1 is 1

	Replicas int // of the gateway, this one included; below 1 is 1

	Speed  Speed   // as learned of this backend alone
	Pooled Speed   // the same within the bounds of its pool
	Pace   float64 // seconds per token of one request between its last two readings; 0 is unknown

	Prompt   float64 // tokens of a mean prompt
	Output   float64 // tokens of a mean answer
	Variance float64 // of that
}

// Forecast is the KV memory that the requests on a backend will need, in tokens of one engine.
type Forecast struct {
	Growth       float64 // by which the requests there are expected to fill the cache further, at the worst moment
	Margin       float64 // by how much more than expected that may be
	OwnPartly    float64 // of own prompts, not computed yet
	OthersTokens float64 // by other replicas' requests, beyond the reading
}

// Forecast computes the forecast for the account's requests and those of other replicas, which are assumed to be like
// ours, or like the mean if we have none.
func (a *Account) Forecast(now time.Time, f *Inputs) Forecast {
	own := float64(a.all.Requests)
	// An engine updates its metrics after each step, so a reading misses the requests sent during the step, ours and
	// those of other replicas.
	unseen := max(own-f.Running-f.Waiting, float64(a.recent.sum.Requests), 0)
	others := max(unseen-1, 0) * (float64(max(f.Replicas, 1)) - 1) // a single request of ours says nothing about others
	all := max(f.Running+f.Waiting+unseen+others, own)

	// The slower of two estimates: fewer tokens have been generated.
	g := a.forecast.of(a.requests, now, Speed{Prefill: f.Speed.Prefill, Decode: max(f.Pooled.Decode, f.Pace)})
	growth, variance := all*f.Output/2, all*f.Variance
	if own > 0 {
		growth, variance = g.growth*all/own, g.variance*all/own
	}
	growth += all * float64(f.BlockSize) / 2 // the last block of each is half full

	partly, each := g.partly, f.Prompt // tokens of a prompt that is not computed yet
	if g.beginning > 0 {
		each = g.partly / float64(g.beginning)
		computed := f.ReadAt.Sub(a.prefillSince).Seconds() / f.Pooled.Prefill // computed part of the current prompt at the reading's time
		partly = max(partly-max(computed, 0), 0)
	}
	waits := max(f.Waiting-float64(max(g.beginning-a.recent.sum.Waiting, 0)), 0) // waiting requests of other replicas

	engines := float64(max(f.Engines, 1)) // the capacity is one engine's
	return Forecast{
		Growth:       growth / engines,
		Margin:       marginSigmas*math.Sqrt(variance/engines) + unmodelled*float64(f.Capacity),
		OwnPartly:    partly / engines,
		OthersTokens: (waits + others) * each / engines,
	}
}
