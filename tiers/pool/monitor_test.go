package pool

import (
	"testing"
	"time"

	"github.com/foregate/foregate/tiers/pressure"
)

func TestTheRampIsLinearOverTenSeconds(t *testing.T) {
	var v monitor
	now := time.Unix(1_800_000_000, 0)
	if v.ramp(now) != 1 {
		t.Error("who was always there takes everything")
	}
	v.markStarted(now)
	for s, want := range map[int]float64{-5: 0.1, 0: 0.1, 1: 0.19, 5: 0.55, 9: 0.91, 10: 1, 3600: 1} {
		if got := v.ramp(now.Add(time.Duration(s) * time.Second)); got < want-1e-9 || got > want+1e-9 {
			t.Errorf("after %d s: %v, want %v", s, got, want)
		}
	}
}

func TestOneFailedCallIsForgottenInSeconds(t *testing.T) {
	var v monitor
	now := time.Unix(1_800_000_000, 0)
	for fails, want := range map[int]time.Duration{1: 6 * time.Second, 3: 10 * time.Second} {
		v.faults = 0
		for range fails {
			v.recordCall(true, now)
		}
		if v.currentFaults(now.Add(time.Second)) == 0 || v.currentFaults(now.Add(want)) > 0 {
			t.Errorf("%d failed calls count for %v after 1 s and %v after %v", fails, v.currentFaults(now.Add(time.Second)), v.currentFaults(now.Add(want)), want)
		}
	}
}

func TestAnEngineWithoutAGPUStandsStillOnlyForLongerThanItsOwnLongSteps(t *testing.T) {
	var v monitor
	at, steps, suspects := time.Unix(1_800_000_000, 0), 0.0, 0
	second := func(moves float64) {
		at, steps = at.Add(time.Second), steps+moves
		if v.observe(pressure.Reading{At: at, Running: 2, Iterations: steps}, load{}); v.isSuspect() {
			suspects++
		}
	}
	for range 20 { // a token takes 0.4 s, a prompt 8 s
		for range 10 {
			second(2.5)
		}
		for range 7 {
			second(0)
		}
		second(1)
		if steps < 30 {
			suspects = 0 // the first long step is not known to be one
		}
	}
	if suspects > 0 {
		t.Errorf("suspect in %d of 340 s, in which it worked", suspects)
	}
	for range 14 {
		second(0)
	}
	if !v.isSuspect() {
		t.Error("not suspect 14 s after its last step")
	}
}

func TestAHangOfAFastEngineIsNotLearnedAsAStep(t *testing.T) {
	var v monitor
	at, steps := time.Unix(1_800_000_000, 0), 0.0
	see := func(moves float64) {
		at, steps = at.Add(500*time.Millisecond), steps+moves
		v.observe(pressure.Reading{At: at, Running: 2, Iterations: steps}, load{})
	}
	for range 3 {
		for range 100 {
			see(20)
		}
		for range 40 {
			see(0)
		}
	}
	see(20)
	see(0)
	see(0)
	see(0)
	if !v.isSuspect() {
		t.Error("after hangs of 20 s it is not suspect 1.5 s after a step")
	}
}

func TestAChangedGaugeEndsStandingMetricsAtOnce(t *testing.T) {
	standing := pressure.Reading{Running: 3, Waiting: 2, Iterations: 7, KVUsage: 0.5, PromptTokens: 100, GenerationTokens: 100}
	for name, change := range map[string]func(*pressure.Reading){
		"running":    func(r *pressure.Reading) { r.Running = 2 },
		"waiting":    func(r *pressure.Reading) { r.Waiting = 3 },
		"usage":      func(r *pressure.Reading) { r.KVUsage = 0.4 },
		"prompts":    func(r *pressure.Reading) { r.PromptTokens++ },
		"generation": func(r *pressure.Reading) { r.GenerationTokens++ },
	} {
		t.Run(name, func(t *testing.T) {
			var v monitor
			r := standing
			r.At = time.Unix(1_800_000_000, 0)
			v.base = r.At.Add(-time.Hour)
			see := func() condition {
				r.At = r.At.Add(500 * time.Millisecond)
				v.observe(r, load{})
				v.markTokens(r.At)
				return v.condition()
			}
			for range 6 {
				see()
			}
			if c := see(); c != conditionFrozen {
				t.Fatalf("the condition is %q", c)
			}
			if change(&r); see() != conditionWell {
				t.Errorf("the condition is %q after a change", v.condition())
			}
		})
	}
}

func TestWhatTheEngineTellsALittleAfterAnAnswerBeganIsNoStandingMetric(t *testing.T) {
	var v monitor
	at := time.Unix(1_800_000_000, 0)
	see := func(after time.Duration, steps float64) condition {
		at = at.Add(after)
		v.observe(pressure.Reading{At: at, Running: 1, Iterations: steps}, load{})
		return v.condition()
	}
	see(0, 1)
	v.markServed(at.Add(500 * time.Millisecond))
	if c := see(600*time.Millisecond, 1); c != conditionWell {
		t.Errorf("%q 0.1 s after an answer began", c)
	}
	if c := see(300*time.Millisecond, 1); c != conditionFrozen {
		t.Errorf("%q 0.4 s after an answer began", c)
	}
}
