package estimate

import (
	"math"
	"testing"
	"time"

	"github.com/foregate/foregate/tiers/pressure"
)

func TestKindsOfAnswersAreToldApartAfter32(t *testing.T) {
	o := NewOutputs()
	for range minOwnSamples {
		o.Learn(3, 0, 50)
		o.Learn(7, 0, 800)
	}
	short, shortVariance := o.Of(3, 0)
	long, longVariance := o.Of(7, 0)
	if math.Abs(short-50) > 1e-9 || math.Abs(long-800) > 1e-9 {
		t.Errorf("expected %v and %v tokens", short, long)
	}
	if spread := math.Sqrt(max(shortVariance, longVariance)); spread > 0.95*math.Sqrt(o.all.variance) {
		t.Errorf("spread by %v after 32 equal answers, all together by %v", spread, math.Sqrt(o.all.variance))
	}
	if all, _ := o.Of(-1, 0); all < 200 || all > 600 {
		t.Errorf("of no kind: %v", all)
	}
	if other, _ := o.Of(8, 0); other != o.all.mean {
		t.Errorf("of a kind never seen: %v", other)
	}
}

func TestAnswersThatEndAtTheirLimitAreExpectedToDoSo(t *testing.T) {
	o := NewOutputs()
	for range 200 {
		o.Learn(3, 256, 256)
		o.Learn(4, 1000, 300) // whose limit is never met
	}
	if mean, variance := o.Of(3, 700); mean != 700 || variance != 0 {
		t.Errorf("of those that fill their limit: %v, %v", mean, variance)
	}
	if mean, variance := o.Of(4, 1000); math.Abs(mean-300) > 1 || variance == 0 {
		t.Errorf("of those that do not: %v, %v", mean, variance)
	}
	if mean, _ := o.Of(3, 0); math.Abs(mean-256) > 1 {
		t.Errorf("without a limit: %v", mean)
	}
	for range 200 {
		o.Learn(3, 256, 100)
	}
	if mean, _ := o.Of(3, 700); math.Abs(mean-100) > 10 {
		t.Errorf("after they have become shorter: %v", mean)
	}
}

func TestTheFlowIsARateThatForgets(t *testing.T) {
	var f Flow
	now := time.Unix(1_800_000_000, 0)
	if f.PerSecond(now) != 0 {
		t.Error("nothing flowed")
	}
	for _, silence := range []time.Duration{0, 11 * time.Second, time.Hour} {
		now = now.Add(silence)
		for i := range 3000 { // five minutes at 1,000 tokens a second
			now = now.Add(100 * time.Millisecond)
			f.Add(100, now)
			got := f.PerSecond(now)
			switch {
			case i < 10 && got != 0:
				t.Fatalf("%v a second after %d times 100 ms", got, i)
			case i >= 10 && (got < 980 || got > 1000+10_000/float64(i)+20):
				t.Fatalf("%v a second after %d times 100 ms, want 1000", got, i)
			}
		}
	}
	full := f.PerSecond(now)
	if got := f.PerSecond(now.Add(flowTime)); math.Abs(got-full/math.E) > 1e-6 {
		t.Errorf("after %v without any: %v, want %v", flowTime, got, full/math.E)
	}
	if got := f.PerSecond(now.Add(2*flowTime + 1)); got != 0 {
		t.Errorf("long after: %v", got)
	}
	if got := f.PerSecond(now.Add(-time.Minute)); got < 980 || got > 1020 {
		t.Errorf("with a clock that went back: %v", got)
	}
}

func TestAnExpectationThatDoesNotComeTrueIsTrustedLess(t *testing.T) {
	var h CacheHits
	at := 0.0
	for range 20 {
		h.Expect(3600, 4000)
		at += 4000
		h.See(pressure.Reading{PrefixQueries: at, PrefixHits: at * 0.3}, false)
	}
	if got := h.Trust(); got < 0.3 || got > 0.4 {
		t.Errorf("0.9 expected, 0.3 found: trust %v", got)
	}
	h.Forgive()
	if h.Trust() != 1 {
		t.Error("not forgiven")
	}
	var good CacheHits
	for range 20 {
		good.Expect(3600, 4000)
		at += 4000
		good.See(pressure.Reading{PrefixQueries: at, PrefixHits: at * 0.8}, false)
	}
	if good.Trust() != 1 {
		t.Errorf("0.9 expected, 0.8 found: trust %v", good.Trust())
	}
}

// A step of many prompts takes longer than the time between two readings. If that made the pace unknown, answers that cannot be
// seen would count as nearly complete, and as many requests again would be admitted.
func TestAnEngineInALongStepIsNotTakenForAFastOne(t *testing.T) {
	at := time.Unix(1000, 0)
	reading := func(seconds, tokens float64, running int) pressure.Reading {
		return pressure.Reading{At: at.Add(time.Duration(seconds * float64(time.Second))), GenerationTokens: tokens, Running: running}
	}
	for _, c := range []struct {
		name    string
		last    float64
		was, is pressure.Reading
		want    float64
	}{
		{"tokens of all requests", .1, reading(0, 1000, 10), reading(.5, 1100, 10), .05},
		{"no token, and slow before", .7, reading(0, 1000, 52), reading(.5, 1000, 52), .7},
		{"no token, and fast before", .02, reading(0, 1000, 52), reading(.5, 1000, 52), .5},
		{"no token for longer than a token is believed to take", .02, reading(0, 1000, 52), reading(3, 1000, 52), 1},
		{"nothing runs", .02, reading(0, 1000, 0), reading(.5, 1000, 0), 0},
		{"the counter is absent", 0, reading(0, 0, 10), reading(.5, 0, 10), 0},
		{"the counter has fallen", .02, reading(0, 1000, 10), reading(.5, 10, 10), 0},
		{"one reading", .02, reading(0, 1000, 10), reading(0, 1000, 10), 0},
	} {
		if got := Pace(c.last, c.was, c.is); math.Abs(got-c.want) > 1e-9 {
			t.Errorf("%s: %v s, want %v", c.name, got, c.want)
		}
	}
}
