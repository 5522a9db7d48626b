package health

import (
	"testing"
	"time"

	"github.com/foregate/foregate/tiers/pressure"
)

func TestTheRampIsLinearOverTenSeconds(t *testing.T) {
	var v Monitor
	now := time.Unix(1_800_000_000, 0)
	if v.Ramp(now) != 1 {
		t.Error("who was always there takes everything")
	}
	v.MarkStarted(now)
	for s, want := range map[int]float64{-5: 0.1, 0: 0.1, 1: 0.19, 5: 0.55, 9: 0.91, 10: 1, 3600: 1} {
		if got := v.Ramp(now.Add(time.Duration(s) * time.Second)); got < want-1e-9 || got > want+1e-9 {
			t.Errorf("after %d s: %v, want %v", s, got, want)
		}
	}
}

func TestOneFailedCallIsForgottenInSeconds(t *testing.T) {
	var v Monitor
	now := time.Unix(1_800_000_000, 0)
	for fails, want := range map[int]time.Duration{1: 6 * time.Second, 3: 10 * time.Second} {
		v.faults = 0
		for range fails {
			v.RecordCall(true, now)
		}
		if v.FaultShare(now.Add(time.Second)) == 0 || v.FaultShare(now.Add(want)) > 0 {
			t.Errorf("%d failed calls count for %v after 1 s and %v after %v", fails, v.FaultShare(now.Add(time.Second)), v.FaultShare(now.Add(want)), want)
		}
	}
}

func TestALongStepIsLearnedByThePauseThatEndedWell(t *testing.T) {
	var v Monitor
	at := time.Unix(1_800_000_000, 0)
	see := func(steps float64, after time.Duration) {
		at = at.Add(after)
		v.Observe(pressure.Reading{At: at, Running: 2, Iterations: steps}, Load{})
	}
	see(1, 0)
	see(1, 3*time.Second) // three seconds without a step
	see(2, 0)             // that ended well
	see(2, 4*time.Second)
	if v.IsSuspect() {
		t.Error("suspect after 4 s, though 3 s were well: 4.5 s are waited")
	}
	see(2, time.Second)
	if !v.IsSuspect() {
		t.Error("not suspect after 5 s")
	}
}
