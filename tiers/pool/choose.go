package pool

import (
	"math"

	"github.com/foregate/foregate/tiers/prefix"
)

// Policies of choosing. Fit is the one to use; round robin is the baseline that it is compared with.
const (
	PolicyFit        = "fit"         // where it is warm and fits, with the least expected wait
	PolicyRoundRobin = "round_robin" // each in turn
)

const (
	// kvUsageWeight is the price of a full KV cache: seconds per 1,000 prompt tokens at k/(1−k) = 1, which is a
	// half-full cache. It grows with the prompt, so that large prompts look for room and small ones pack.
	kvUsageWeight = 0.05
	// maxUsage bounds k in k/(1−k): a full cache is very dear, not infinitely so.
	maxUsage = 0.99
	// doubleBatch is the number of running requests at which a decode step takes twice as long as alone. Our estimate:
	// at a batch of 64 an 8B model's step on one GPU has roughly doubled.
	doubleBatch = 64
	// faultSeconds is what a call that fails for certain costs: it is more than any wait worth taking, so that a backend
	// that answers errors at once does not look like the fastest one before its breaker opens.
	faultSeconds = 10
)

// wait is the number of seconds that a request is expected to lose on c, or to cost others there:
//
//	  uncached prompt tokens / prefill rate                         its own prefill
//	+ the greater of (waiting × mean prompt + own queued tokens)
//	  and own unfinished prefill / prefill rate                     the queue before it
//	+ output tokens / decode rate × n/(n+64)                        its share of a crowded batch
//	+ 0.05 × prompt tokens/1000 × k/(1−k)                           the price of a full cache
//	+ tokens of warm prefixes that it pushes out / prefill rate     what others will compute again
//	+ 10 × share of failed calls                                    the tries that follow
//
// n is the number of running requests and k the KV usage, both with our own added. The third term is the part of the
// decode time that the others cause: if a step takes 1 + n/64 times as long as alone, that is the share n/(n+64) of the
// time per token as observed. The fourth is a price, not a measurement: what preemption and queueing for blocks will
// cost, growing without a step.
func (c *candidate) wait(r *need) float64 {
	seconds := (c.uncached(r) + c.ahead() + c.displaced(r)) / c.prefillRate
	n := c.running + c.ownRequests
	seconds += float64(r.output) / c.decodeRate * n / (n + doubleBatch)
	k := min(c.filled(), maxUsage)
	seconds += kvUsageWeight * float64(r.prompt) / 1000 * k / (1 - k)
	return seconds + c.faultShare*faultSeconds
}

// ahead returns the prompt tokens that are computed before a new one's.
func (c *candidate) ahead() float64 {
	return max(c.waiting*c.meanPrompt+c.ownQueued, c.ownPrefill)
}

const (
	// Waits that differ by less than tieShare of the least plus tieSeconds count as equal. One engine step takes 5–100 ms
	// and learned rates are noisy, so a smaller difference says nothing, and without the band the luckiest backend would
	// take every request of an idle pool.
	tieShare   = 0.10
	tieSeconds = 0.005
	// worthCached is the least cached prompt tokens for which a backend is preferred: 16 blocks, some tens of
	// milliseconds of prefill.
	worthCached = 256
	// asWarm is the tolerance within which two backends count as having equally much cached.
	asWarm = 8
	// maxLoadRatio is how busy a backend may be, as a multiple of the pool's mean, while it still gets every request
	// that is warm there. Above it the expected wait decides.
	maxLoadRatio = 1.25
	// few is how many requests above the mean never count as crowded.
	few = 3
	// packed times maxLoadRatio is the load at which a backend gets no more requests while there are others, whatever
	// it has cached: 1.5 times its share.
	packed = 1.2
	// starting is how many times its fair share a candidate may take at the end of its ramp: it is idle, and would take
	// everything it is offered.
	starting = 2
)

// choice is one decision.
type choice struct {
	cands       []candidate
	need        *need
	turn        uint64
	required    fit     // what a candidate must offer
	maxRequests float64 // requests that a candidate may have before this one; 0 is no bound
}

// choose returns the index of the candidate to use, −1 if none may be used. Equal values and an equal turn give an equal
// result. The caller increments turn, which decides between equals.
//
// If all usable candidates exceed the request's limit, none is chosen. With CanWaitForWarm this also holds if the backend
// with the cached prefix exceeds it, as long as waiting costs less than computing the prompt elsewhere.
//
// The policy fit, which an unknown one is, too, takes the candidate with most of the prompt cached if it is not too busy
// (maxLoadRatio), else the one with the least expected wait. If the prompt fits nowhere, a backend that would queue it is
// better than none.
func choose(policy string, cands []candidate, n *need, turn uint64) int {
	c := choice{cands: cands, need: n, turn: turn}
	best := c.rate(true)
	if best <= full {
		best = c.rate(false) // one that has just started is better than one that hangs or is full
	}
	if policy == PolicyRoundRobin {
		c.required = max(min(best, queue), risky)
		return c.inTurn(math.Inf(1))
	}
	c.required = max(best, risky)
	return c.fit()
}

// rate sets how well each candidate fits, and returns the best. If ramps, one that has just started leaves most of its
// turns to others.
func (c *choice) rate(ramps bool) (best fit) {
	for i := range c.cands {
		k := &c.cands[i]
		k.fit = never
		if !ramps || !c.skipsStarting(i) {
			k.fit = k.fitFor(c.need)
		}
		best = max(best, k.fit)
	}
	return best
}

// skipsStarting reports whether a starting candidate leaves this turn to others.
func (c *choice) skipsStarting(i int) bool {
	ramp := c.cands[i].ramp
	if ramp <= 0 || ramp >= 1 {
		return false
	}
	chance := float64(prefix.Mix(c.turn*0x9e37+uint64(i))>>11) / (1 << 53)
	return chance >= ramp*min(starting/float64(len(c.cands)), 1)
}

// usable reports whether k may be used. If the best that there is exceeds the limit, nobody may: whoever asks must wait.
func (c *choice) usable(k *candidate) bool {
	return c.required != full && k.fit >= c.required && !c.isCrowded(k)
}

// mayWait reports whether k may be used, or waited for.
func (c *choice) mayWait(k *candidate) bool {
	return c.usable(k) || c.need.CanWaitForWarm && k.fit >= full && !c.isCrowded(k)
}

// isCrowded reports whether k has as many requests as it may have.
func (c *choice) isCrowded(k *candidate) bool {
	return c.maxRequests > 0 && k.requests() > c.maxRequests
}

// fit is the default policy.
func (c *choice) fit() int {
	mean := c.mean()
	c.maxRequests = max(maxLoadRatio*packed*mean-1, mean+few) // before this one
	best := c.cheapest()
	warm := c.warmest()
	if warm < 0 || best < 0 || warm == best {
		return best
	}
	// What is computed twice is time that the next ones wait, too; so it counts twice, or three times as long as it is
	// not crowded there. So much a patient request waits for room there, too.
	k := &c.cands[warm]
	again := max(float64(k.cached-c.cands[best].cached), 0) / k.prefillRate
	if k.requests() <= maxLoadRatio*(mean+few) {
		again *= 2
	}
	switch stay := k.wait(c.need) + c.need.Waited.Seconds(); {
	case stay > c.cands[best].wait(c.need)+again:
		return best
	case !c.usable(k):
		return -1
	default:
		return warm
	}
}

// mean returns the mean number of requests of the usable candidates.
func (c *choice) mean() float64 {
	sum, n := 0.0, 0.0
	for i := range c.cands {
		if k := &c.cands[i]; c.usable(k) {
			sum += k.requests()
			n++
		}
	}
	return sum / max(n, 1)
}

// warmest returns the candidate with most of the prompt cached, −1 if none has enough. Of those with about as much it is
// the main one, so that all replicas use the same and other copies expire. With CanWaitForWarm it may be one without
// capacity now.
func (c *choice) warmest() int {
	maximum := worthCached
	for i := range c.cands {
		if k := &c.cands[i]; k.cached > maximum && c.mayWait(k) {
			maximum = k.cached
		}
	}
	warm := -1
	for i := range c.cands {
		k := &c.cands[i]
		if k.cached < max(maximum-maximum/asWarm, worthCached) || !c.mayWait(k) {
			continue
		}
		if warm < 0 || k.main && !c.cands[warm].main || k.main == c.cands[warm].main && k.home > c.cands[warm].home {
			warm = i
		}
	}
	return warm
}

// cheapest returns the candidate of least expected wait. Among those within a band above it, the one nearest to the
// prompt's home wins, or they take turns if the prompt has none.
func (c *choice) cheapest() int {
	least := math.Inf(1)
	for i := range c.cands {
		if k := &c.cands[i]; c.usable(k) {
			k.cost = k.wait(c.need)
			least = min(least, k.cost)
		}
	}
	limit := least + least*tieShare + tieSeconds
	if !c.need.hasHome {
		return c.inTurn(limit)
	}
	near := -1
	for i := range c.cands {
		if k := &c.cands[i]; c.usable(k) && k.cost <= limit && (near < 0 || k.home > c.cands[near].home) {
			near = i
		}
	}
	return near
}

// inTurn returns the turn'th of the usable candidates whose cost is within the limit, counting round and round; −1 if there
// is none.
func (c *choice) inTurn(limit float64) int {
	n := uint64(0)
	for i := range c.cands {
		if k := &c.cands[i]; c.usable(k) && k.cost <= limit {
			n++
		}
	}
	if n == 0 {
		return -1
	}
	skip := c.turn % n
	for i := range c.cands {
		k := &c.cands[i]
		if !c.usable(k) || k.cost > limit {
			continue
		}
		if skip == 0 {
			return i
		}
		skip--
	}
	return -1
}
