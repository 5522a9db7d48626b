package pool

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/foregate/foregate/tiers/prefix"
)

// long is a prompt that is worth keeping warm.
var long = need{prompt: 8000, output: 100, hasHome: true}

// crowdOf are n idle candidates, with homes of their own, changed one by one.
func crowdOf(n int, change func(i int, c *candidate)) []candidate {
	cands := make([]candidate, n)
	for i := range cands {
		cands[i] = idle()
		cands[i].capacity = 1_000_000
		cands[i].home = prefix.Mix(uint64(i))
		if change != nil {
			change(i, &cands[i])
		}
	}
	return cands
}

func fitOf(cands []candidate, request need) int { return chosen(PolicyFit, cands, request, 0) }

func TestAWarmBackendIsHeldWhileItIsNotCrowded(t *testing.T) {
	// Its queue costs a second; what is warm there would cost nearly two elsewhere.
	cands := crowdOf(8, func(i int, c *candidate) {
		c.running = 10
		if i == 3 {
			c.cached, c.ownQueued, c.running = 7500, 4000, 14
		}
	})
	if got := fitOf(cands, long); got != 3 {
		t.Errorf("got %d: a request left its warm backend, which is hardly busier", got)
	}
	for i := range cands {
		cands[i].cached = 0
	}
	if got := fitOf(cands, long); got == 3 {
		t.Error("a cold request waits in a queue while others are free")
	}
}

func TestWhatIsColdElsewhereCountsTwiceAndThriceWhereItIsNotCrowded(t *testing.T) {
	const saved = 4000.0 // tokens, of 4000 a second
	at := func(running, queue float64) bool {
		cands := crowdOf(8, func(i int, c *candidate) {
			c.running = 20
			if i == 3 {
				c.running, c.cached, c.ownQueued = running, int(saved), queue
			}
		})
		request := long
		request.output = 0
		return chosen(PolicyFit, cands, request, 0) == 3
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
		cands := crowdOf(n, func(_ int, c *candidate) {
			c.running, c.ownRequests = float64(rng.IntN(60)), float64(rng.IntN(10))
			c.waiting = float64(rng.IntN(4) * rng.IntN(20))
			c.cached, c.main = rng.IntN(9000), rng.IntN(3) == 0
			c.usage = rng.Float64() * 0.5
			c.ownQueued = rng.Float64() * 10_000
			sum += c.running + c.ownRequests + c.waiting
		})
		got := fitOf(cands, long)
		c := cands[got]
		if has, maximum := c.running+c.ownRequests+c.waiting, 1.5*(sum/float64(n)+few); has > maximum+1e-9 {
			t.Fatalf("round %d: one with %v requests was taken, the bound is %v", round, has, maximum)
		}
	}
}

func TestOfThoseEquallyWarmTheMainOneIsTakenAndElseTheOneNearestHome(t *testing.T) {
	warm := func(i int, c *candidate) {
		c.running = 5
		if i == 2 || i == 5 {
			c.cached = 7000
		}
	}
	cands := crowdOf(8, warm)
	home := 2
	if cands[5].home > cands[2].home {
		home = 5
	}
	far := 7 - home
	if got := fitOf(cands, long); got != home {
		t.Errorf("got %d, the home of the two is %d", got, home)
	}
	cands[far].main = true
	if got := fitOf(cands, long); got != far {
		t.Errorf("got %d, the main one is %d", got, far)
	}
	// Much less is not as warm.
	cands[far].cached = 5000
	if got := fitOf(cands, long); got != home {
		t.Errorf("two sevenths less: got %d", got)
	}
}

func TestKeyedEqualsGoHomeAndUnkeyedInTurn(t *testing.T) {
	cands := crowdOf(5, nil)
	home := 0
	for i := range cands {
		if cands[i].home > cands[home].home {
			home = i
		}
	}
	got := map[int]int{}
	for turn := range uint64(100) {
		if i := chosen(PolicyFit, cands, long, turn); i != home {
			t.Fatalf("turn %d: %d, not home", turn, i)
		}
		got[chosen(PolicyFit, cands, need{prompt: 8000}, turn)]++
	}
	for i := range cands {
		if got[i] != 20 {
			t.Errorf("without a key: %v", got)
		}
	}
}

func TestWhatAPromptPushesOutIsPartOfItsCost(t *testing.T) {
	request := need{prompt: 4000}
	roomy := with(func(c *candidate) { c.placed = 96_000 })
	full := with(func(c *candidate) { c.placed = 98_000 }) // 2,000 tokens too much: half a second
	if d := full.wait(fitting(request)) - roomy.wait(fitting(request)); math.Abs(d-0.5) > 1e-9 {
		t.Errorf("2,000 tokens that are pushed out cost %v s, want 0.5", d)
	}
	over := with(func(c *candidate) { c.placed = 500_000 })
	if d := over.wait(fitting(request)) - roomy.wait(fitting(request)); math.Abs(d-maxDisplaced) > 1e-9 {
		t.Errorf("the cost is bounded by %d prefills of the prompt: got %v s", maxDisplaced, d)
	}
	warm := with(func(c *candidate) { c.placed, c.cached = 500_000, 4000 })
	if got := warm.wait(fitting(request)); got != 0 {
		t.Errorf("a prompt that is warm pushes nothing out: %v s", got)
	}
	for turn := range uint64(4) {
		if got := chosen(PolicyFit, []candidate{full, roomy}, request, turn); got != 1 {
			t.Fatalf("got %d", got)
		}
	}
	if roomy.evicts(fitting(request)) != 0 || full.evicts(fitting(request)) != 2000 || warm.evicts(fitting(request)) != 0 {
		t.Error("Evicts does not tell them apart")
	}
	grows := with(func(c *candidate) { c.growth = 1e6 }) // what is there will fill it
	grown := request
	grown.hold = request.prompt
	if grows.evicts(fitting(request)) != 0 || grows.evicts(fitting(grown)) < 900_000 {
		t.Error("what answers will grow to pushes something out, where that is asked")
	}
}

func TestABackendThatAnswersErrorsAtOnceLosesTraffic(t *testing.T) {
	// It is idle because it fails: the others have work.
	cands := crowdOf(4, func(i int, c *candidate) {
		c.running = 8
		if i == 1 {
			c.running, c.faultShare = 0, 1
		}
	})
	for turn := range uint64(50) {
		for _, request := range []need{long, {prompt: 100, output: 100}} {
			if got := chosen(PolicyFit, cands, request, turn); got == 1 {
				t.Fatal("the one that fails draws traffic")
			}
		}
	}
	// Where the others are worse than ten seconds, it is tried.
	for i := range cands {
		if i != 1 {
			cands[i].ownQueued = 80_000
		}
	}
	if got := fitOf(cands, long); got != 1 {
		t.Errorf("got %d", got)
	}
}

func TestASuspectIsTakenOnlyWhereNobodyElseIsLeft(t *testing.T) {
	for _, policy := range []string{PolicyFit, PolicyRoundRobin} {
		cands := crowdOf(3, func(i int, c *candidate) {
			c.running, c.usage = 50, 0.9999 // no room for the prompt either
			if i == 0 {
				*c = with(func(c *candidate) { c.suspect, c.cached = true, 8000 })
			}
		})
		for turn := range uint64(60) {
			if got := chosen(policy, cands, long, turn); got == 0 {
				t.Errorf("%s: the suspect was taken at turn %d", policy, turn)
				break
			}
		}
		cands[1].down, cands[2].excluded = true, true
		if got := chosen(policy, cands, long, 0); got != 0 {
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
				cands := crowdOf(4, func(i int, c *candidate) {
					c.running, c.usage = 20, 0.5
					if i == 2 {
						c.running, c.usage, c.ramp = 0, 0, ramp
					}
				})
				maximum := ramp * 2 / 4 // twice its fair share at the end
				if policy == PolicyRoundRobin {
					maximum /= 4
				}
				n := 0.0
				for turn := range uint64(turns) {
					if chosen(policy, cands, need{prompt: 4000, output: 200}, turn) == 2 {
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
	if got := chosen(PolicyFit, []candidate{with(func(c *candidate) { c.ramp = 0.1 }), {down: true}}, long, 1); got != 0 {
		t.Errorf("got %d", got)
	}
}
