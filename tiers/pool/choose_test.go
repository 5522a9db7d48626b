package pool

import (
	"cmp"
	"math"
	"testing"
	"time"
)

// idle is a healthy candidate with nothing to do.
func idle() candidate {
	return candidate{
		capacity: 100_000, blockSize: 16, meanPrompt: 500,
		prefillRate: 4000, decodeRate: 40,
	}
}

// fitting is a need whose longest prompt is all of them.
func fitting(n need) *need {
	n.longest = cmp.Or(n.longest, n.prompt)
	return &n
}

func chosen(policy string, cands []candidate, n need, turn uint64) int {
	return choose(policy, cands, fitting(n), turn)
}

func with(change func(*candidate)) candidate {
	c := idle()
	change(&c)
	return c
}

func TestWaitIsTheFormula(t *testing.T) {
	c := candidate{
		usage: 0.4, capacity: 10_000, blockSize: 16,
		waiting: 3, running: 30, meanPrompt: 400,
		ownRequests: 2, ownQueued: 800, ownTokens: 1000,
		cached: 500, prefillRate: 2000, decodeRate: 50,
	}
	request := need{prompt: 2500, output: 100}
	want := (2500.0-500)/2000 + // its own prefill: 1 s
		(3.0*400+800)/2000 + // the queue: 1 s
		100.0/50*32/(32+64) + // a third of two seconds of decoding
		0.05*2.5*0.5/(1-0.5) // half full with ours
	if got := c.wait(fitting(request)); math.Abs(got-want) > 1e-12 {
		t.Errorf("got %v, want %v", got, want)
	}
}

func TestLeastWaitIsChosen(t *testing.T) {
	request := need{prompt: 1000, output: 200}
	for name, c := range map[string]struct {
		cands []candidate
		want  int
	}{
		"reported queue": {[]candidate{with(func(c *candidate) { c.waiting = 5 }), idle()}, 1},
		"own queue":      {[]candidate{idle(), with(func(c *candidate) { c.ownQueued = 4000 })}, 0},
		"slow hardware":  {[]candidate{with(func(c *candidate) { c.prefillRate = 500 }), idle()}, 1},
		"crowded batch":  {[]candidate{with(func(c *candidate) { c.running = 100 }), idle()}, 1},
		"full cache":     {[]candidate{with(func(c *candidate) { c.usage = 0.95 }), idle()}, 1},
		"warm prefix":    {[]candidate{idle(), with(func(c *candidate) { c.cached = 900 })}, 1},
		"down":           {[]candidate{with(func(c *candidate) { c.down = true }), with(func(c *candidate) { c.waiting = 50 })}, 1},
		"broken":         {[]candidate{with(func(c *candidate) { c.broken = true }), with(func(c *candidate) { c.waiting = 50 })}, 1},
		"excluded":       {[]candidate{with(func(c *candidate) { c.excluded = true }), with(func(c *candidate) { c.waiting = 50 })}, 1},
		"none":           {nil, -1},
		"all down":       {[]candidate{{down: true}, {broken: true}, {excluded: true}}, -1},
	} {
		t.Run(name, func(t *testing.T) {
			for turn := range uint64(5) {
				if got := chosen(PolicyFit, c.cands, request, turn); got != c.want {
					t.Errorf("turn %d: got %d, want %d", turn, got, c.want)
				}
			}
		})
	}
}

func TestPromptGoesWhereItsBlocksFitEvenIfThatIsBusier(t *testing.T) {
	full := with(func(c *candidate) { c.usage = 0.9995 }) // 50 tokens are free
	busy := with(func(c *candidate) { c.waiting = 1000 })
	request := need{prompt: 51} // 4 blocks, 64 tokens
	if got := chosen(PolicyFit, []candidate{full, busy}, request, 0); got != 1 {
		t.Errorf("got %d", got)
	}
	// Where it fits nowhere, it queues.
	if got := chosen(PolicyFit, []candidate{full, {down: true}}, request, 0); got != 0 {
		t.Errorf("a full pool refused: %d", got)
	}
	// Longer than the whole cache is a no.
	if got := chosen(PolicyFit, []candidate{full, busy}, need{prompt: 100_001}, 0); got != -1 {
		t.Errorf("got %d", got)
	}
	// A cache of unknown size takes everything.
	unknown := with(func(c *candidate) { c.capacity = 0 })
	if got := chosen(PolicyFit, []candidate{full, unknown}, need{prompt: 100_001}, 0); got != 1 {
		t.Errorf("got %d", got)
	}
}

func TestTheBaselineTakesEachInTurnAndAnUnknownPolicyIsFit(t *testing.T) {
	cands := []candidate{
		with(func(c *candidate) { c.running = 9 }),
		{down: true},
		with(func(c *candidate) { c.running, c.waiting = 2, 1 }),
		with(func(c *candidate) { c.ownRequests = 12 }),
	}
	count := func(policy string) map[int]int {
		got := map[int]int{}
		for turn := range uint64(900) {
			got[chosen(policy, cands, need{prompt: 10}, turn)]++
		}
		return got
	}
	if got := count(PolicyRoundRobin); got[0] != 300 || got[2] != 300 || got[3] != 300 {
		t.Errorf("round robin: %v", got)
	}
	if got := chosen(PolicyRoundRobin, cands[1:2], need{}, 7); got != -1 {
		t.Errorf("got %d of none", got)
	}
	if got := count("unheard of"); got[0] != 900 {
		t.Errorf("an unknown policy is not fit: %v", got)
	}
}

func TestEveryPolicyObeysTheLimit(t *testing.T) {
	request := need{prompt: 1000, output: 100, Admission: Admission{MaxUsage: 0.85}, hold: 1100}
	tight := func(c *candidate) { c.usage, c.prefillRate = 0.9, 1e6 } // attractive in all but that
	down := func(c *candidate) { c.down = true }
	hung := func(c *candidate) { c.suspect = true }
	roomy := func(c *candidate) { c.usage, c.waiting, c.running = 0.7, 20, 60 }
	for _, policy := range []string{PolicyFit, PolicyRoundRobin} {
		for name, tc := range map[string]struct {
			cands   []candidate
			request need
			want    int
		}{
			"one has room":              {[]candidate{working(tight), working(roomy), working(tight)}, request, 1},
			"all full":                  {[]candidate{working(tight), working(tight)}, request, -1},
			"full or down":              {[]candidate{working(tight), working(down)}, request, -1},
			"full or suspect":           {[]candidate{working(tight), working(hung)}, request, -1},
			"suspect or down":           {[]candidate{working(down), working(hung)}, request, 1},
			"suspect or roomy":          {[]candidate{working(hung), working(roomy)}, request, 1},
			"without a limit":           {[]candidate{working(tight), working(down)}, need{prompt: 1000}, 0},
			"no reading is no fullness": {[]candidate{working(tight), working(func(c *candidate) { c.usageUnknown, c.usage = true, 0.9 })}, request, 1},
			"too many wait":             {[]candidate{working(roomy), working(roomy)}, need{prompt: 1000, Admission: Admission{MaxUsage: 0.85, MaxQueue: 4}}, -1},
		} {
			for turn := range uint64(20) {
				if got := chosen(policy, tc.cands, tc.request, turn); got != tc.want {
					t.Fatalf("%s, %s, turn %d: %d, want %d", policy, name, turn, got, tc.want)
				}
			}
		}
	}
}

// fullWhereWarm are eight backends, of which number 3 has the prompt in its cache and is
// expected to be above the limit with it.
func fullWhereWarm() ([]candidate, need) {
	request := long
	request.MaxUsage, request.hold, request.CanWaitForWarm = 0.95, 8100, true
	return crowdOf(8, func(i int, c *candidate) {
		c.running = 2
		if i == 3 {
			c.cached, c.running, c.growth = 7500, 4, 960_000
		}
	}), request
}

func TestAPatientRequestWaitsForTheBackendWhereItIsWarm(t *testing.T) {
	cands, request := fullWhereWarm()
	if got := fitOf(cands, request); got != -1 {
		t.Errorf("it went to %d, where all of the prompt is computed again", got)
	}
	cands[3].growth = 0
	if got := fitOf(cands, request); got != 3 {
		t.Errorf("there is room where it is warm: it went to %d", got)
	}
}

func TestNobodyWaitsForAWarmBackendLongerThanMovingCosts(t *testing.T) {
	// 8000 tokens at 4000 a second, and what is computed twice counts thrice: 5.6 s more
	// than the 500 tokens that are to be computed where it is warm.
	for waited, want := range map[time.Duration]bool{0: true, 5 * time.Second: true, 6 * time.Second: false} {
		cands, request := fullWhereWarm()
		request.Waited = waited
		if got := fitOf(cands, request); got == -1 != want || got == 3 {
			t.Errorf("after %v: %d", waited, got)
		}
	}
}

func TestNobodyWaitsForABackendThatIsNotWorthIt(t *testing.T) {
	for name, change := range map[string]func([]candidate, *need){
		"it may not wait":            func(_ []candidate, n *need) { n.CanWaitForWarm = false },
		"hardly anything is warm":    func(c []candidate, _ *need) { c[3].cached = worthCached - 1 },
		"it has more than its share": func(c []candidate, _ *need) { c[3].running = 40 },
		"another is as warm":         func(c []candidate, _ *need) { c[5].cached = 7500 },
		"it is down":                 func(c []candidate, _ *need) { c[3].down = true },
		"it seems to hang":           func(c []candidate, _ *need) { c[3].suspect = true },
		"its breaker is open":        func(c []candidate, _ *need) { c[3].broken = true },
	} {
		cands, request := fullWhereWarm()
		change(cands, &request)
		if got := fitOf(cands, request); got < 0 || got == 3 {
			t.Errorf("%s: %d", name, got)
		}
	}
}
