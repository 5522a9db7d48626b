package choose

import "math"

// nth is the turn'th of those that may be used, counting round and round.
func (c *choice) nth(turn uint64) int {
	n := uint64(0)
	for i := range c.cands {
		if c.isUsable(i) {
			n++
		}
	}
	if n == 0 {
		return -1
	}
	skip := turn % n
	for i := range c.cands {
		if !c.isUsable(i) {
			continue
		}
		if skip == 0 {
			return i
		}
		skip--
	}
	return -1
}

// ofTwo draws two by a hash of the turn and takes the one with fewer requests.
func (c *choice) ofTwo() int {
	h := mix(c.turn)
	a, b := c.nth(h>>32), c.nth(h&math.MaxUint32)
	if a < 0 || b < 0 {
		return a
	}
	if crowd(c.cfg, &c.cands[b], c.request) < crowd(c.cfg, &c.cands[a], c.request) {
		return b
	}
	return a
}

// longPrompt is the prompt length in tokens above which weighted looks almost only
// at the free KV memory.
const longPrompt = 2048

// weighted is the score that KV-aware routers have published, turned into a cost:
// free share of the KV memory × w + headroom × (1−w), w 0.8, or 0.95 for long
// prompts. Headroom is the share of the free tokens that the prompt leaves. It sees
// the last reading alone, and so sends every burst to the emptiest backend.
func weighted(_ Config, c *Candidate, request Request) float64 {
	w := 0.8
	if request.PromptTokens > longPrompt {
		w = 0.95
	}
	free := min(max(1-c.Usage, 0), 1)
	headroom := free
	if tokens := free * float64(c.Capacity); tokens > 0 {
		headroom = max(1-float64(max(request.PromptTokens, 0))/tokens, 0)
	}
	return finiteCost(1 - free*w - headroom*(1-w))
}
