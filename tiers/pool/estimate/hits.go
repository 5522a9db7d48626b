package estimate

import "github.com/foregate/foregate/tiers/pressure"

// CacheHits compares the expected with the measured hits of a prefix cache, both as shares of prompt tokens over the
// last few requests.
type CacheHits struct {
	expected, found   float64
	queries, counted  float64 // the engine's counters by the last reading
	expects, measures float64 // tokens behind expected and found, bounded
}

// hitWindow is the size of the window in prompt tokens: about ten long prompts.
const hitWindow = 32_000

// Expect records the expected hits of a prompt.
func (h *CacheHits) Expect(cached, prompt float64) {
	follow(&h.expected, &h.expects, cached, prompt)
}

// See records the engine's own counters; restarted says that they restarted.
func (h *CacheHits) See(r pressure.Reading, restarted bool) {
	queries, found := r.PrefixQueries-h.queries, r.PrefixHits-h.counted
	if !restarted && queries > 0 && found >= 0 && h.queries > 0 {
		follow(&h.found, &h.measures, found, queries)
	}
	h.queries, h.counted = r.PrefixQueries, r.PrefixHits
}

// follow updates a share by a sample of so many tokens of all.
func follow(share, weight *float64, part, all float64) {
	if all <= 0 {
		return
	}
	*weight = min(*weight+all, hitWindow)
	*share += (min(part/all, 1) - *share) * min(all / *weight, 1)
}

// minTrust is the ratio of measured to expected hits below which the expectation is wrong; a few prompts more or less
// move it by less.
const minTrust = 0.6

// Trust returns the ratio of measured to expected hits if the expectation is clearly wrong, else 1.
func (h *CacheHits) Trust() float64 {
	if h.expects < hitWindow || h.measures < hitWindow || h.found >= minTrust*h.expected {
		return 1
	}
	return h.found / h.expected
}

// Forgive restarts the comparison.
func (h *CacheHits) Forgive() { h.expects, h.measures = 0, 0 }
