package pool

import (
	"testing"
	"time"
)

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
