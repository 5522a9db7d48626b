package choose

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
)

// long is a prompt that is worth keeping warm.
var long = Request{PromptTokens: 8000, OutputTokens: 100, HasHome: true}

// crowdOf are n idle candidates, with homes of their own, changed one by one.
func crowdOf(n int, change func(i int, c *Candidate)) []Candidate {
	cands := make([]Candidate, n)
	for i := range cands {
		cands[i] = idle()
		cands[i].Capacity = 1_000_000
		cands[i].Home = mix(uint64(i))
		if change != nil {
			change(i, &cands[i])
		}
	}
	return cands
}

func fitOf(cands []Candidate, request Request) int { return Choose(PolicyFit, cands, request, 0) }

func TestAWarmBackendIsHeldWhileItIsNotCrowded(t *testing.T) {
	// Its queue costs a second; what is warm there would cost nearly two elsewhere.
	cands := crowdOf(8, func(i int, c *Candidate) {
		c.Running = 10
		if i == 3 {
			c.Cached, c.OwnQueued, c.Running = 7500, 4000, 14
		}
	})
	if got := fitOf(cands, long); got != 3 {
		t.Errorf("got %d: a request left its warm backend, which is hardly busier", got)
	}
	for i := range cands {
		cands[i].Cached = 0
	}
	if got := fitOf(cands, long); got == 3 {
		t.Error("a cold request waits in a queue while others are free")
	}
}

func TestWhatIsColdElsewhereCountsTwiceAndThriceWhereItIsNotCrowded(t *testing.T) {
	const saved = 4000.0 // tokens, of 4000 a second
	at := func(running, queue float64) bool {
		cands := crowdOf(8, func(i int, c *Candidate) {
			c.Running = 20
			if i == 3 {
				c.Running, c.Cached, c.OwnQueued = running, int(saved), queue
			}
		})
		request := long
		request.OutputTokens = 0
		return Choose(PolicyFit, cands, request, 0) == 3
	}
	for _, c := range []struct {
		running, times float64
	}{{20, 3}, {31, 2}} {
		// The queue may be as many times as long as what is saved, which is saved once.
		if !at(c.running, c.times*saved-40) {
			t.Errorf("%v running: left though the queue is shorter than %v times what is saved", c.running, c.times)
		}
		if at(c.running, c.times*saved+40) {
			t.Errorf("%v running: held though the queue is longer than %v times what is saved", c.running, c.times)
		}
	}
}

// TestNobodyIsPackedBeyondOneAndAHalf holds fit to its bound, whatever is warm.
func TestNobodyIsPackedBeyondOneAndAHalf(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	for round := range 20_000 {
		n := 2 + rng.IntN(10)
		sum := 0.0
		cands := crowdOf(n, func(_ int, c *Candidate) {
			c.Running, c.OwnRequests = float64(rng.IntN(60)), float64(rng.IntN(10))
			c.Waiting = float64(rng.IntN(4) * rng.IntN(20))
			c.Cached, c.Main = rng.IntN(9000), rng.IntN(3) == 0
			c.Usage = rng.Float64() * 0.5
			c.OwnQueued = rng.Float64() * 10_000
			sum += c.Running + c.OwnRequests + c.Waiting
		})
		got := fitOf(cands, long)
		c := cands[got]
		if has, maximum := c.Running+c.OwnRequests+c.Waiting, 1.5*(sum/float64(n)+few); has > maximum+1e-9 {
			t.Fatalf("round %d: one with %v requests was taken, the bound is %v", round, has, maximum)
		}
	}
}

func TestOfThoseEquallyWarmTheMainOneIsTakenAndElseTheOneNearestHome(t *testing.T) {
	warm := func(i int, c *Candidate) {
		c.Running = 5
		if i == 2 || i == 5 {
			c.Cached = 7000
		}
	}
	cands := crowdOf(8, warm)
	home := 2
	if cands[5].Home > cands[2].Home {
		home = 5
	}
	far := 7 - home
	if got := fitOf(cands, long); got != home {
		t.Errorf("got %d, the home of the two is %d", got, home)
	}
	cands[far].Main = true
	if got := fitOf(cands, long); got != far {
		t.Errorf("got %d, the main one is %d", got, far)
	}
	// Much less is not as warm.
	cands[far].Cached = 5000
	if got := fitOf(cands, long); got != home {
		t.Errorf("two sevenths less: got %d", got)
	}
}

func TestKeyedEqualsGoHomeAndUnkeyedInTurn(t *testing.T) {
	cands := crowdOf(5, nil)
	home := 0
	for i := range cands {
		if cands[i].Home > cands[home].Home {
			home = i
		}
	}
	got := map[int]int{}
	for turn := range uint64(100) {
		if i := Choose(PolicyFit, cands, long, turn); i != home {
			t.Fatalf("turn %d: %d, not home", turn, i)
		}
		got[Choose(PolicyFit, cands, Request{PromptTokens: 8000}, turn)]++
	}
	for i := range cands {
		if got[i] != 20 {
			t.Errorf("without a key: %v", got)
		}
	}
}

func TestWhatAPromptPushesOutIsPartOfItsCost(t *testing.T) {
	request := Request{PromptTokens: 4000}
	roomy := with(func(c *Candidate) { c.Placed = 96_000 })
	full := with(func(c *Candidate) { c.Placed = 98_000 }) // 2,000 tokens too much: half a second
	if d := Wait(full, request) - Wait(roomy, request); math.Abs(d-0.5) > 1e-9 {
		t.Errorf("2,000 tokens that are pushed out cost %v s, want 0.5", d)
	}
	over := with(func(c *Candidate) { c.Placed = 500_000 })
	if d := Wait(over, request) - Wait(roomy, request); math.Abs(d-maxDisplaced) > 1e-9 {
		t.Errorf("the cost is bounded by %d prefills of the prompt: got %v s", maxDisplaced, d)
	}
	warm := with(func(c *Candidate) { c.Placed, c.Cached = 500_000, 4000 })
	if got := Wait(warm, request); got != 0 {
		t.Errorf("a prompt that is warm pushes nothing out: %v s", got)
	}
	for turn := range uint64(4) {
		if got := Choose(PolicyFit, []Candidate{full, roomy}, request, turn); got != 1 {
			t.Fatalf("got %d", got)
		}
	}
	if roomy.Evicts(request) != 0 || full.Evicts(request) != 2000 || warm.Evicts(request) != 0 {
		t.Error("Evicts does not tell them apart")
	}
	grows := with(func(c *Candidate) { c.Growth = 1e6 }) // what is there will fill it
	grown := request
	grown.HoldTokens = request.PromptTokens
	if grows.Evicts(request) != 0 || grows.Evicts(grown) < 900_000 {
		t.Error("what answers will grow to pushes something out, where that is asked")
	}
}

func TestABackendThatAnswersErrorsAtOnceLosesTraffic(t *testing.T) {
	// It is idle because it fails: the others have work.
	cands := crowdOf(4, func(i int, c *Candidate) {
		c.Running = 8
		if i == 1 {
			c.Running, c.FaultShare = 0, 1
		}
	})
	for turn := range uint64(50) {
		for _, request := range []Request{long, {PromptTokens: 100, OutputTokens: 100}} {
			if got := Choose(PolicyFit, cands, request, turn); got == 1 {
				t.Fatal("the one that fails draws traffic")
			}
		}
	}
	// Where the others are worse than ten seconds, it is tried.
	for i := range cands {
		if i != 1 {
			cands[i].OwnQueued = 80_000
		}
	}
	if got := fitOf(cands, long); got != 1 {
		t.Errorf("got %d", got)
	}
}

func TestASuspectIsTakenOnlyWhereNobodyElseIsLeft(t *testing.T) {
	for _, policy := range []string{PolicyFit, PolicyRoundRobin} {
		cands := crowdOf(3, func(i int, c *Candidate) {
			c.Running, c.Usage = 50, 0.9999 // no room for the prompt either
			if i == 0 {
				*c = with(func(c *Candidate) { c.Suspect, c.Cached = true, 8000 })
			}
		})
		for turn := range uint64(60) {
			if got := Choose(policy, cands, long, turn); got == 0 {
				t.Errorf("%s: the suspect was taken at turn %d", policy, turn)
				break
			}
		}
		cands[1].Down, cands[2].Excluded = true, true
		if got := Choose(policy, cands, long, 0); got != 0 {
			t.Errorf("%s: got %d where only the suspect is left", policy, got)
		}
	}
}

func TestAfterAStartTheShareOfTurnsGrowsLinearlyAndIsNeverEverything(t *testing.T) {
	const turns = 10_000
	for _, policy := range []string{PolicyFit, PolicyRoundRobin} {
		for _, ramp := range []float64{0.1, 0.25, 0.5, 0.75, 0.9} {
			t.Run(fmt.Sprintf("%s/%v", policy, ramp), func(t *testing.T) {
				// It has nothing to do, and all policies but the blind ones would send everything.
				cands := crowdOf(4, func(i int, c *Candidate) {
					c.Running, c.Usage = 20, 0.5
					if i == 2 {
						c.Running, c.Usage, c.Ramp = 0, 0, ramp
					}
				})
				maximum := ramp * 2 / 4 // twice its fair share at the end
				if policy == PolicyRoundRobin {
					maximum /= 4
				}
				n := 0.0
				for turn := range uint64(turns) {
					if Choose(policy, cands, Request{PromptTokens: 4000, OutputTokens: 200}, turn) == 2 {
						n++
					}
				}
				if share := n / turns; math.Abs(share-maximum) > 0.015 {
					t.Errorf("took %v of all turns, want %v", share, maximum)
				}
			})
		}
	}
	// Alone it takes all.
	if got := Choose(PolicyFit, []Candidate{with(func(c *Candidate) { c.Ramp = 0.1 }), {Down: true}}, long, 1); got != 0 {
		t.Errorf("got %d", got)
	}
}
