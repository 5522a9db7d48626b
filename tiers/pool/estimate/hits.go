package estimate

import "github.com/foregate/foregate/tiers/pressure"

// CacheHits compares what was expected to be in a prefix cache with what its engine found
// there, both as shares of prompt tokens that follow the last few requests.
type CacheHits struct {
	expected, found   float64
	queries, counted  float64 // the engine's counters by the last reading
	expects, measures float64 // tokens behind expected and found, bounded
}

// hitWindow is how many prompt tokens are followed: of the order of ten long prompts.
const hitWindow = 32_000

// Expect notes how much of a prompt is expected to be found.
func (h *CacheHits) Expect(cached, prompt float64) {
	follow(&h.expected, &h.expects, cached, prompt)
}

// See takes the engine's own counters in; restarted says that they began anew.
func (h *CacheHits) See(r pressure.Reading, restarted bool) {
	queries, found := r.PrefixQueries-h.queries, r.PrefixHits-h.counted
	if !restarted && queries > 0 && found >= 0 && h.queries > 0 {
		follow(&h.found, &h.measures, found, queries)
	}
	h.queries, h.counted = r.PrefixQueries, r.PrefixHits
}

// follow moves a share by a sample of so many tokens of all.
func follow(share, weight *float64, part, all float64) {
	if all <= 0 {
		return
	}
	*weight = min(*weight+all, hitWindow)
	*share += (min(part/all, 1) - *share) * min(all / *weight, 1)
}

// minTrust is the share of an expectation below which it is wrong: a few prompts
// more or less in the window move the share by less than that.
const minTrust = 0.6

// Trust is how much of an expectation comes true: 1, unless it is clearly wrong.
func (h *CacheHits) Trust() float64 {
	if h.expects < hitWindow || h.measures < hitWindow || h.found >= minTrust*h.expected {
		return 1
	}
	return h.found / h.expected
}

// Forgive begins anew to compare.
func (h *CacheHits) Forgive() { h.expects, h.measures = 0, 0 }
