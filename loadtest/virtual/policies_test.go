package virtual

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/foregate/foregate/tiers/choose"
)

// idle is a candidate with nothing to do, changed.
func idle(change func(*choose.Candidate)) choose.Candidate {
	c := choose.Candidate{Capacity: 100_000, BlockSize: 16, MeanPrompt: 500, PrefillRate: 4000, DecodeRate: 40}
	change(&c)
	return c
}

func TestRandomIsUniform(t *testing.T) {
	const n, turns = 7, 70_000
	cands := make([]choose.Candidate, n+1)
	for i := range cands {
		cands[i] = idle(func(c *choose.Candidate) { c.Down = i == 3 })
	}
	var got [n + 1]float64
	for turn := range uint64(turns) {
		got[policies["random"].Choose(cands, choose.Request{PromptTokens: 10}, turn)]++
	}
	chi := 0.0
	for i, v := range got {
		if i != 3 {
			chi += (v - turns/n) * (v - turns/n) / (turns / n)
		}
	}
	if chi > 22.46 { // 6 degrees of freedom, one in a thousand
		t.Errorf("χ² %v of %v", chi, got)
	}
}

func TestWeightedPicksThePublishedScore(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 6))
	score := func(c *choose.Candidate, request choose.Request) float64 {
		w := 0.8
		if request.PromptTokens > 2048 {
			w = 0.95
		}
		free := 1 - c.Usage
		headroom := max(0, 1-float64(request.PromptTokens)/(free*float64(c.Capacity)))
		return free*w + headroom*(1-w)
	}
	for range 5000 {
		request := choose.Request{PromptTokens: []int{10, 1000, 2048, 2049, 9000}[rng.IntN(5)]}
		cands := make([]choose.Candidate, 2+rng.IntN(5))
		best := 0
		for i := range cands {
			cands[i] = idle(func(c *choose.Candidate) {
				c.Usage, c.Capacity = rng.Float64()*0.8, []int{50_000, 100_000, 800_000}[rng.IntN(3)]
				c.OwnRequests, c.OwnQueued = rng.Float64()*20, rng.Float64()*5000 // it does not see them
			})
			if score(&cands[i], request) > score(&cands[best], request) {
				best = i
			}
		}
		if got := policies["weighted"].Choose(cands, request, rng.Uint64()); got != best {
			t.Fatalf("%d tokens: took %d of score %v, best is %d of %v", request.PromptTokens, got, score(&cands[got], request), best, score(&cands[best], request))
		}
	}
}

func TestAboveTwoThousandTokensWeightedLooksAlmostOnlyAtFreeMemory(t *testing.T) {
	// A small cache that is emptier, and a large one with more room: 1,900 tokens left and 98,000.
	small := idle(func(c *choose.Candidate) { c.Usage, c.Capacity = 0.40, 4000 })
	large := idle(func(c *choose.Candidate) { c.Usage, c.Capacity = 0.46, 1_000_000 })
	cands := []choose.Candidate{small, large}
	if got := policies["weighted"].Choose(cands, choose.Request{PromptTokens: 2048}, 0); got != 1 {
		t.Errorf("2,048 tokens: %d", got)
	}
	if a, b := weighted(&small, choose.Request{PromptTokens: 2048}), weighted(&small, choose.Request{PromptTokens: 2049}); math.Abs(a-b) < 0.05 {
		t.Errorf("the weights are the same on both sides: %v, %v", a, b)
	}
}

func TestAPromptThatDoesNotFitLeavesNoHeadroomForWeighted(t *testing.T) {
	c := idle(func(c *choose.Candidate) { c.Usage = 0.96 }) // 4,000 tokens are free
	for prompt, headroom := range map[int]float64{3000: 0.25, 4000: 0, 5000: 0, 1_000_000: 0} {
		want := 1 - 0.04*0.95 - headroom*0.05
		if got := weighted(&c, choose.Request{PromptTokens: prompt}); math.Abs(got-want) > 1e-9 {
			t.Errorf("%d tokens: a cost of %v, want %v", prompt, got, want)
		}
	}
}

func TestOfTwoTheOneWithFewerRequestsIsTaken(t *testing.T) {
	cands := []choose.Candidate{
		idle(func(c *choose.Candidate) { c.Running = 9 }),
		{Down: true},
		idle(func(c *choose.Candidate) { c.Running, c.Waiting = 2, 1 }),
		idle(func(c *choose.Candidate) { c.OwnRequests = 12 }),
	}
	got := map[int]int{}
	for turn := range uint64(900) {
		got[policies["p2c"].Choose(cands, choose.Request{PromptTokens: 10}, turn)]++
	}
	if got[1] != 0 || got[2] < got[0] || got[0] < got[3] || got[3] == 0 {
		t.Errorf("%v", got)
	}
}

func TestNoPolicyTakesACandidateThatMayNotBeUsed(t *testing.T) {
	for name, policy := range policies {
		if got := policy.Choose([]choose.Candidate{{Down: true}}, choose.Request{}, 7); got != -1 {
			t.Errorf("%s: got %d of none", name, got)
		}
	}
}

func TestALabsPolicyIsNoSettingOfTheGateways(t *testing.T) {
	given := map[string]string{settingPolicy: "p2c", "cache.mode": "off"}
	rest, policy := policyOf(given)
	if policy == nil || len(rest) != 1 || rest["cache.mode"] != "off" || len(given) != 2 {
		t.Errorf("%v of %v", rest, given)
	}
	if rest, policy := policyOf(map[string]string{settingPolicy: "fit"}); policy != nil || rest[settingPolicy] != "fit" {
		t.Errorf("%v", rest)
	}
}
