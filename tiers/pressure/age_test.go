package pressure

import (
	"math"
	"testing"
	"time"
)

func TestReadingAgesTowardTheMeanAndThenIsUnknown(t *testing.T) {
	at := time.Unix(1_800_000_000, 0)
	r := Reading{At: at, KVUsage: 0.9}
	for _, c := range []struct {
		age   time.Duration
		mean  float64
		want  float64
		known bool
	}{
		{-time.Second, 0.5, 0.9, true}, // a clock that was set back
		{0, 0.5, 0.9, true},
		{2 * time.Second, 0.5, 0.9, true},
		{6 * time.Second, 0.5, 0.7, true},
		{6 * time.Second, math.NaN(), 0.9, true},
		{6 * time.Second, 7, 0.9, true},
		{10*time.Second - 1, 0.5, 0.5, true},
		{10 * time.Second, 0.5, 0.5, false},
		{time.Hour, 0.5, 0.5, false},
	} {
		got, known := Aged(r, c.mean, at.Add(c.age), Config{})
		if math.Abs(got-c.want) > 1e-6 || known != c.known {
			t.Errorf("after %s with mean %v: got %v, %v; want %v, %v", c.age, c.mean, got, known, c.want, c.known)
		}
	}
	if _, known := Aged(Reading{}, 0.5, at, Config{}); known {
		t.Error("a reading that never was is known")
	}
}

func TestAgingNeverLeavesTheSpanBetweenReadingAndMean(t *testing.T) {
	at := time.Unix(1_800_000_000, 0)
	c := Config{FreshFor: 3 * time.Second, UnknownAfter: time.Second} // the wrong way round
	for age := time.Duration(0); age < 20*time.Second; age += 77 * time.Millisecond {
		for _, cfg := range []Config{{}, c} {
			got, _ := Aged(Reading{At: at, KVUsage: 0.2}, 0.6, at.Add(age), cfg)
			if got < 0.2 || got > 0.6+1e-9 {
				t.Fatalf("after %s: %v", age, got)
			}
		}
	}
}
