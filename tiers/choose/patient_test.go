package choose

import "testing"

// fullWhereWarm are eight backends, of which number 3 has the prompt in its cache and is
// expected to be above the limit with it.
func fullWhereWarm() ([]Candidate, Request) {
	request := long
	request.MaxUsage, request.HoldTokens, request.WaitForCapacity = 0.95, 8100, true
	return crowdOf(8, func(i int, c *Candidate) {
		c.Running = 2
		if i == 3 {
			c.Cached, c.Running, c.Growth = 7500, 4, 960_000
		}
	}), request
}

func TestAPatientRequestWaitsForTheBackendWhereItIsWarm(t *testing.T) {
	cands, request := fullWhereWarm()
	if got := fitOf(cands, request); got != -1 {
		t.Errorf("it went to %d, where all of the prompt is computed again", got)
	}
	cands[3].Growth = 0
	if got := fitOf(cands, request); got != 3 {
		t.Errorf("there is room where it is warm: it went to %d", got)
	}
}

func TestNobodyWaitsForAWarmBackendLongerThanMovingCosts(t *testing.T) {
	// 8000 tokens at 4000 a second, and what is computed twice counts thrice: 5.6 s more
	// than the 500 tokens that are to be computed where it is warm.
	for waited, want := range map[float64]bool{0: true, 5: true, 6: false} {
		cands, request := fullWhereWarm()
		request.WaitedSeconds = waited
		if got := fitOf(cands, request); got == -1 != want || got == 3 {
			t.Errorf("after %v s: %d", waited, got)
		}
	}
}

func TestNobodyWaitsForABackendThatIsNotWorthIt(t *testing.T) {
	for name, change := range map[string]func([]Candidate, *Request){
		"it may not wait":            func(_ []Candidate, n *Request) { n.WaitForCapacity = false },
		"hardly anything is warm":    func(c []Candidate, _ *Request) { c[3].Cached = worthCached - 1 },
		"it has more than its share": func(c []Candidate, _ *Request) { c[3].Running = 40 },
		"another is as warm":         func(c []Candidate, _ *Request) { c[5].Cached = 7500 },
		"it is down":                 func(c []Candidate, _ *Request) { c[3].Down = true },
		"it seems to hang":           func(c []Candidate, _ *Request) { c[3].Suspect = true },
		"its breaker is open":        func(c []Candidate, _ *Request) { c[3].Broken = true },
	} {
		cands, request := fullWhereWarm()
		change(cands, &request)
		if got := fitOf(cands, request); got < 0 || got == 3 {
			t.Errorf("%s: %d", name, got)
		}
	}
}
