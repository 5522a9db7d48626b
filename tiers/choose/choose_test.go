package choose

import (
	"math"
	"math/rand/v2"
	"testing"
)

// idle is a healthy candidate with nothing to do.
func idle() Candidate {
	return Candidate{
		Capacity: 100_000, BlockSize: 16, MeanPrompt: 500,
		PrefillRate: 4000, DecodeRate: 40,
	}
}

func with(change func(*Candidate)) Candidate {
	c := idle()
	change(&c)
	return c
}

func TestWaitIsTheFormula(t *testing.T) {
	c := Candidate{
		Usage: 0.4, Capacity: 10_000, BlockSize: 16,
		Waiting: 3, Running: 30, MeanPrompt: 400,
		OwnRequests: 2, OwnQueued: 800, OwnTokens: 1000,
		Cached: 500, PrefillRate: 2000, DecodeRate: 50,
	}
	request := Request{PromptTokens: 2500, OutputTokens: 100}
	want := (2500.0-500)/2000 + // its own prefill: 1 s
		(3.0*400+800)/2000 + // the queue: 1 s
		100.0/50*32/(32+64) + // a third of two seconds of decoding
		0.05*2.5*0.5/(1-0.5) // half full with ours
	if got := Wait(c, request); math.Abs(got-want) > 1e-12 {
		t.Errorf("got %v, want %v", got, want)
	}
}

func TestLeastWaitIsChosen(t *testing.T) {
	request := Request{PromptTokens: 1000, OutputTokens: 200}
	for name, c := range map[string]struct {
		cands []Candidate
		want  int
	}{
		"reported queue": {[]Candidate{with(func(c *Candidate) { c.Waiting = 5 }), idle()}, 1},
		"own queue":      {[]Candidate{idle(), with(func(c *Candidate) { c.OwnQueued = 4000 })}, 0},
		"slow hardware":  {[]Candidate{with(func(c *Candidate) { c.PrefillRate = 500 }), idle()}, 1},
		"crowded batch":  {[]Candidate{with(func(c *Candidate) { c.Running = 100 }), idle()}, 1},
		"full cache":     {[]Candidate{with(func(c *Candidate) { c.Usage = 0.95 }), idle()}, 1},
		"warm prefix":    {[]Candidate{idle(), with(func(c *Candidate) { c.Cached = 900 })}, 1},
		"down":           {[]Candidate{with(func(c *Candidate) { c.Down = true }), with(func(c *Candidate) { c.Waiting = 50 })}, 1},
		"broken":         {[]Candidate{with(func(c *Candidate) { c.Broken = true }), with(func(c *Candidate) { c.Waiting = 50 })}, 1},
		"excluded":       {[]Candidate{with(func(c *Candidate) { c.Excluded = true }), with(func(c *Candidate) { c.Waiting = 50 })}, 1},
		"none":           {nil, -1},
		"all down":       {[]Candidate{{Down: true}, {Broken: true}, {Excluded: true}}, -1},
	} {
		t.Run(name, func(t *testing.T) {
			for turn := range uint64(5) {
				if got := Choose(PolicyFit, c.cands, request, turn); got != c.want {
					t.Errorf("turn %d: got %d, want %d", turn, got, c.want)
				}
			}
		})
	}
}

func TestPromptGoesWhereItsBlocksFitEvenIfThatIsBusier(t *testing.T) {
	full := with(func(c *Candidate) { c.Usage = 0.9995 }) // 50 tokens are free
	busy := with(func(c *Candidate) { c.Waiting = 1000 })
	request := Request{PromptTokens: 51} // 4 blocks, 64 tokens
	if got := Choose(PolicyFit, []Candidate{full, busy}, request, 0); got != 1 {
		t.Errorf("got %d", got)
	}
	// Where it fits nowhere, it queues.
	if got := Choose(PolicyFit, []Candidate{full, {Down: true}}, request, 0); got != 0 {
		t.Errorf("a full pool refused: %d", got)
	}
	// Longer than the whole cache is a no.
	if got := Choose(PolicyFit, []Candidate{full, busy}, Request{PromptTokens: 100_001}, 0); got != -1 {
		t.Errorf("got %d", got)
	}
	// A cache of unknown size takes everything.
	unknown := with(func(c *Candidate) { c.Capacity = 0 })
	if got := Choose(PolicyFit, []Candidate{full, unknown}, Request{PromptTokens: 100_001}, 0); got != 1 {
		t.Errorf("got %d", got)
	}
}

func TestLargePromptsLookForRoomAndSmallOnesPack(t *testing.T) {
	roomyButBusy := with(func(c *Candidate) { c.Usage, c.OwnQueued = 0.1, 200 })
	fullButFree := with(func(c *Candidate) { c.Usage = 0.8 })
	cands := []Candidate{roomyButBusy, fullButFree}
	if got := Choose(PolicyFit, cands, Request{PromptTokens: 50}, 0); got != 1 {
		t.Errorf("the small prompt went to %d", got)
	}
	if got := Choose(PolicyFit, cands, Request{PromptTokens: 8000}, 0); got != 0 {
		t.Errorf("the large prompt went to %d", got)
	}
}

func TestEqualsAreTakenInTurn(t *testing.T) {
	slightlyFaster := with(func(c *Candidate) { c.PrefillRate *= 1.05 })
	down := Candidate{Down: true}
	busy := with(func(c *Candidate) { c.Waiting = 10 })
	cands := []Candidate{idle(), down, slightlyFaster, busy, idle()}
	got := map[int]int{}
	for turn := range uint64(300) {
		got[Choose(PolicyFit, cands, Request{PromptTokens: 1000}, turn)]++
	}
	if got[0] != 100 || got[2] != 100 || got[4] != 100 {
		t.Errorf("got %v", got)
	}
}

func TestTheBaselineTakesEachInTurnAndAnUnknownPolicyIsFit(t *testing.T) {
	cands := []Candidate{
		with(func(c *Candidate) { c.Running = 9 }),
		{Down: true},
		with(func(c *Candidate) { c.Running, c.Waiting = 2, 1 }),
		with(func(c *Candidate) { c.OwnRequests = 12 }),
	}
	count := func(policy string) map[int]int {
		got := map[int]int{}
		for turn := range uint64(900) {
			got[Choose(policy, cands, Request{PromptTokens: 10}, turn)]++
		}
		return got
	}
	if got := count(PolicyRoundRobin); got[0] != 300 || got[2] != 300 || got[3] != 300 {
		t.Errorf("round robin: %v", got)
	}
	if got := Choose(PolicyRoundRobin, cands[1:2], Request{}, 7); got != -1 {
		t.Errorf("got %d of none", got)
	}
	if got := count("unheard of"); got[0] != 900 {
		t.Errorf("an unknown policy is not fit: %v", got)
	}
}

// TestChooseNeverTakesOneThatMayNotBe throws odd values at every policy.
func TestChooseNeverTakesOneThatMayNotBe(t *testing.T) {
	odd := []float64{0, -1, 1, 0.5, 1e300, math.Inf(1), math.Inf(-1), math.NaN()}
	rng := rand.New(rand.NewPCG(1, 2))
	value := func() float64 { return odd[rng.IntN(len(odd))] }
	policies := []string{"", PolicyFit, PolicyRoundRobin}
	for range 20_000 {
		cands := make([]Candidate, rng.IntN(6))
		usable := false
		for i := range cands {
			cands[i] = Candidate{
				Down: rng.IntN(4) == 0, Broken: rng.IntN(4) == 0, Excluded: rng.IntN(4) == 0,
				Usage: value(), Capacity: rng.IntN(3) * 1000, BlockSize: rng.IntN(3) * 8,
				Waiting: value(), Running: value(), MeanPrompt: value(),
				OwnRequests: value(), OwnQueued: value(), OwnTokens: value(),
				PrefillRate: value(), DecodeRate: value(),
			}
		}
		request := Request{PromptTokens: rng.IntN(3000) - 100, OutputTokens: rng.IntN(100) - 10}
		for i := range cands {
			c := &cands[i]
			usable = usable || !c.Down && !c.Broken && !c.Excluded && (c.Capacity == 0 || request.PromptTokens <= c.Capacity)
		}
		policy := policies[rng.IntN(len(policies))]
		got := Choose(policy, cands, request, rng.Uint64())
		if got < 0 {
			if usable {
				t.Fatalf("%q chose nothing of %+v", policy, cands)
			}
			continue
		}
		if c := cands[got]; c.Down || c.Broken || c.Excluded || c.TooSmall(request) {
			t.Fatalf("%q chose %+v", policy, c)
		}
	}
}
