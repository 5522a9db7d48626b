package choose

import "math"

const (
	// kvUsageWeight is the price of a full KV cache: seconds per 1,000 prompt tokens at
	// k/(1−k) = 1, which is a half-full cache. It grows with the prompt, so that large
	// prompts look for room and small ones pack.
	kvUsageWeight = 0.05
	// maxUsage bounds k in k/(1−k): a full cache is very dear, not infinitely so.
	maxUsage = 0.99
	// doubleBatch is the number of running requests at which a decode step takes
	// twice as long as alone. Our estimate: at a batch of 64
	// an 8B model's step on one GPU has roughly doubled.
	doubleBatch = 64
	// faultSeconds is what a call that fails for certain costs: it is more than any
	// wait worth taking, so that a backend that answers errors at once does not look
	// like the fastest one before its breaker opens.
	faultSeconds = 10
)

// Wait is the number of seconds that a request is expected to lose on c, or to cost
// others there:
//
//	  uncached prompt tokens / prefill rate                         its own prefill
//	+ the greater of (waiting × mean prompt + own queued tokens)
//	  and own unfinished prefill / prefill rate                     the queue before it
//	+ output tokens / decode rate × n/(n+64)                        its share of a crowded batch
//	+ 0.05 × prompt tokens/1000 × k/(1−k)                              the price of a full cache
//	+ tokens of warm prefixes that it pushes out / prefill rate     what others will compute again
//	+ 10 × share of failed calls                                    the tries that follow
//
// n is the number of running requests and k the KV usage, both with our own
// added. The third term is the part of the decode time that the others cause:
// if a step takes 1 + n/64 times as long as alone, that is the share n/(n+64)
// of the time per token as observed. The fourth is a price, not a measurement:
// what preemption and queueing for blocks will cost, growing without a step.
func Wait(c Candidate, request Request) float64 { return wait(&c, request) }

// wait takes a pointer because it runs three times per backend and pick.
func wait(c *Candidate, request Request) float64 {
	prompt := float64(max(request.PromptTokens, 0))
	seconds := (c.uncached(request) + c.Ahead() + c.displaced(request)) / c.PrefillRate
	n := c.Running + c.OwnRequests
	seconds += float64(max(request.OutputTokens, 0)) / c.DecodeRate * n / (n + doubleBatch)
	k := c.KVUsage()
	seconds += kvUsageWeight * prompt / 1000 * k / (1 - k)
	return finiteCost(seconds + c.FaultShare*faultSeconds)
}

// Score maps a wait to 0..1; 1 is no wait.
func Score(wait float64) float64 { return 1 / (1 + wait) }

// Ahead returns the prompt tokens that are computed before a new one's.
func (c *Candidate) Ahead() float64 { return max(c.Waiting*c.MeanPrompt+c.OwnQueued, c.OwnPrefill) }

// KVUsage returns the KV usage including own requests, 0..0.99.
func (c *Candidate) KVUsage() float64 { return min(c.Filled(), maxUsage) }

// requests returns the number of requests there, running and waiting.
func (c *Candidate) requests() float64 { return finiteCost(c.Waiting + c.Running + c.OwnRequests) }

// finiteCost replaces NaN and the like by the highest cost, so that it never wins a comparison.
func finiteCost(v float64) float64 {
	if v >= 0 && v < math.MaxFloat64 {
		return v
	}
	return math.MaxFloat64
}
