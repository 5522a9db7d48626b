package virtual

import (
	"maps"
	"math"

	"github.com/foregate/foregate/tiers/choose"
)

// settingPolicy is the setting that names how a backend is chosen.
const settingPolicy = "route.policy"

// policies are baselines that the gateway's own policies are compared with and that no gateway runs. A
// scenario names one as its route.policy.
var policies = map[string]choose.Policy{
	"random":   func(u choose.Usable) int { return u.Nth(u.Random) },
	"p2c":      ofTwo,
	"weighted": func(u choose.Usable) int { return u.Cheapest(weighted) },
}

// policyOf takes the lab's policy out of a case's settings; nil if they name none.
func policyOf(all map[string]string) (rest map[string]string, policy choose.Policy) {
	policy = policies[all[settingPolicy]]
	if policy == nil {
		return all, nil
	}
	rest = maps.Clone(all)
	delete(rest, settingPolicy)
	return rest, policy
}

// ofTwo draws two and takes the one with fewer requests: the power of two choices (Mitzenmacher,
// IEEE Transactions on Parallel and Distributed Systems 12(10), 2001).
func ofTwo(u choose.Usable) int {
	a, b := u.Nth(u.Random>>32), u.Nth(u.Random&math.MaxUint32)
	if a >= 0 && b >= 0 && u.Requests(b) < u.Requests(a) {
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
func weighted(c *choose.Candidate, request choose.Request) float64 {
	w := 0.8
	if request.PromptTokens > longPrompt {
		w = 0.95
	}
	free := min(max(1-c.Usage, 0), 1)
	headroom := free
	if tokens := free * float64(c.Capacity); tokens > 0 {
		headroom = max(1-float64(max(request.PromptTokens, 0))/tokens, 0)
	}
	return 1 - free*w - headroom*(1-w)
}
