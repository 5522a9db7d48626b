package choose

import (
	"math"
	"math/rand/v2"
	"testing"
)

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
		Ramp: v(), Usage: v(), Waiting: v(), Running: v(), MeanPrompt: v(), OwnRequests: v(), OwnQueued: v(), OwnTokens: v(),
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
	policies := []string{PolicyFit, PolicyRoundRobin, PolicyLeastRequests, custom, ""}
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
		got := chosen(cfg, cands, request, turn)
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
