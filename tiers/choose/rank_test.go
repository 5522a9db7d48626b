package choose

import (
	"math"
	"math/rand/v2"
	"testing"
)

func TestRandomIsUniform(t *testing.T) {
	const n, turns = 7, 70_000
	cands := crowdOf(n+1, func(i int, c *Candidate) { c.Down = i == 3 })
	var got [n + 1]float64
	for turn := range uint64(turns) {
		got[Choose(Config{Policy: PolicyRandom}, cands, Request{PromptTokens: 10}, turn)]++
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
	score := func(c *Candidate, request Request) float64 {
		w := 0.8
		if request.PromptTokens > 2048 {
			w = 0.95
		}
		free := 1 - c.Usage
		headroom := max(0, 1-float64(request.PromptTokens)/(free*float64(c.Capacity)))
		return free*w + headroom*(1-w)
	}
	for range 5000 {
		request := Request{PromptTokens: []int{10, 1000, 2048, 2049, 9000}[rng.IntN(5)]}
		cands := make([]Candidate, 2+rng.IntN(5))
		best := 0
		for i := range cands {
			cands[i] = with(func(c *Candidate) {
				c.Usage, c.Capacity = rng.Float64()*0.8, []int{50_000, 100_000, 800_000}[rng.IntN(3)]
				c.OwnRequests, c.OwnQueued = rng.Float64()*20, rng.Float64()*5000 // it does not see them
			})
			if score(&cands[i], request) > score(&cands[best], request) {
				best = i
			}
		}
		if got := Choose(Config{Policy: PolicyWeighted}, cands, request, rng.Uint64()); got != best {
			t.Fatalf("%d tokens: took %d of score %v, best is %d of %v", request.PromptTokens, got, score(&cands[got], request), best, score(&cands[best], request))
		}
	}
}

func TestAboveTwoThousandTokensWeightedLooksAlmostOnlyAtFreeMemory(t *testing.T) {
	// A small cache that is emptier, and a large one with more room: 1,900 tokens left and 98,000.
	small := with(func(c *Candidate) { c.Usage, c.Capacity = 0.40, 4000 })
	large := with(func(c *Candidate) { c.Usage, c.Capacity = 0.46, 1_000_000 })
	cands := []Candidate{small, large}
	if got := Choose(Config{Policy: PolicyWeighted}, cands, Request{PromptTokens: 2048}, 0); got != 1 {
		t.Errorf("2,048 tokens: %d", got)
	}
	if a, b := weighted(Config{}, &small, Request{PromptTokens: 2048}), weighted(Config{}, &small, Request{PromptTokens: 2049}); math.Abs(a-b) < 0.05 {
		t.Errorf("the weights are the same on both sides: %v, %v", a, b)
	}
}

func TestRankKeepsAPromptToItsHomeUnlessThatIsCrowdedOrFull(t *testing.T) {
	cfg := DefaultConfig()
	engines := make([]Engine, 8)
	var got [8]int
	for key := range uint64(8000) {
		home := Rank(cfg, engines, key)
		if home < 0 {
			t.Fatal("idle engines, and no home")
		}
		got[home]++
		if Rank(cfg, engines, key) != home {
			t.Fatal("not the same again")
		}
	}
	for i, n := range got {
		if n < 850 || n > 1150 {
			t.Errorf("engine %d is home of %d of 8,000", i, n)
		}
	}
	home := Rank(cfg, engines, 1)
	for i := range engines {
		engines[i] = Engine{Requests: 10, KVUsage: 0.3}
	}
	if got := Rank(cfg, engines, 1); got != home {
		t.Errorf("as busy as the others: %d", got)
	}
	engines[home].Requests = 20
	if got := Rank(cfg, engines, 1); got != -1 {
		t.Errorf("crowded: %d", got)
	}
	engines[home].Requests, engines[home].KVUsage = 10, 0.6
	if got := Rank(cfg, engines, 1); got != -1 {
		t.Errorf("full: %d", got)
	}
	if Rank(cfg, nil, 1) != -1 || Rank(cfg, engines[:1], 1) != 0 {
		t.Error("none, or one alone")
	}
}

func TestAnEngineMoreMovesOnlyThePromptsThatItGets(t *testing.T) {
	moved := 0
	for key := range uint64(9000) {
		a, b := Rank(DefaultConfig(), make([]Engine, 8), key), Rank(DefaultConfig(), make([]Engine, 9), key)
		if a != b {
			moved++
			if b != 8 {
				t.Fatalf("key %d moved from %d to %d", key, a, b)
			}
		}
	}
	if moved < 850 || moved > 1150 {
		t.Errorf("%d of 9,000 moved to the ninth", moved)
	}
}

// odd fills a candidate with values that make no sense.
func odd(pick func(int) int) Candidate {
	v := func() float64 {
		return []float64{0, 1, 0.5, -1, 1e-300, 1e300, math.MaxFloat64, math.Inf(1), math.Inf(-1), math.NaN()}[pick(10)]
	}
	n := func() int {
		return []int{0, 1, 16, -1, 300, 5000, 1 << 40, -1 << 40, math.MaxInt, math.MinInt}[pick(10)]
	}
	c := Candidate{
		Down: pick(5) == 0, Broken: pick(5) == 0, Excluded: pick(5) == 0, Suspect: pick(3) == 0, Main: pick(2) == 0,
		Ramp: v(), Usage: v(), Waiting: v(), Running: v(), MeanPrompt: v(), OwnRequests: v(), OwnQueued: v(), OwnHeld: v(),
		OwnPrefill: v(), Placed: v(), FaultShare: v(), PrefillRate: v(), DecodeRate: v(),
		Capacity: n(), BlockSize: n(), Cached: n(), Home: uint64(pick(4)),
	}
	if pick(2) == 0 {
		c.Capacity, c.BlockSize = 4000, 16
	}
	return c
}

// FuzzChoose throws odd values at everything that Choose and Rank see.
func FuzzChoose(f *testing.F) {
	for seed := range uint64(400) {
		rng := rand.New(rand.NewPCG(seed, 9))
		data := make([]byte, 300)
		for i := range data {
			data[i] = byte(rng.Uint32())
		}
		f.Add(data, seed)
	}
	policies := []string{PolicyFit, PolicyRoundRobin, PolicyRandom, PolicyLeastRequests, PolicyP2C, PolicyWeighted, ""}
	f.Fuzz(func(t *testing.T, data []byte, turn uint64) {
		pick := func(n int) int {
			if len(data) == 0 {
				return 0
			}
			v := int(data[0]) % n
			data = data[1:]
			return v
		}
		policy := policies[pick(len(policies))]
		request := Request{PromptTokens: []int{0, -1, 1, 4000, 4001, math.MaxInt, math.MinInt}[pick(7)], OutputTokens: pick(300) - 20, HasHome: pick(2) == 0}
		values := odd(pick)
		cfg := Config{Policy: policy, KVUsageWeight: values.Usage, MaxLoadRatio: values.Waiting}
		cands := make([]Candidate, pick(10))
		engines := make([]Engine, len(cands))
		usable, sure := 0, 0
		for i := range cands {
			c := odd(pick)
			cands[i], engines[i] = c, Engine{KVUsage: c.Usage, Requests: c.Running}
			if c.Down || c.Broken || c.Excluded || c.TooSmall(request) {
				continue
			}
			usable++
			if !c.Suspect {
				sure++
			}
		}
		got := Choose(cfg, cands, request, turn)
		switch {
		case got < -1 || got >= len(cands):
			t.Fatalf("%q: %d of %d", policy, got, len(cands))
		case got < 0 && usable > 0:
			t.Fatalf("%q chose nobody of %+v for %+v", policy, cands, request)
		case got >= 0:
			if c := cands[got]; c.Down || c.Broken || c.Excluded || c.TooSmall(request) || c.Suspect && sure > 0 {
				t.Fatalf("%q chose %+v for %+v", policy, c, request)
			}
		}
		for i := range cands {
			if w := Wait(cfg, cands[i], request); math.IsNaN(w) || w < 0 || math.IsInf(w, 0) {
				t.Fatalf("a wait of %v: %+v", w, cands[i])
			}
			_ = cands[i].Evicts(request)
		}
		if r := Rank(cfg, engines, turn); r < -1 || r >= len(engines) {
			t.Fatalf("rank %d of %d", r, len(engines))
		}
	})
}
