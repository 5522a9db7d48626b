package admission

import (
	"math"
	"testing"
	"time"
)

func TestADecisionIsToldAsAHeader(t *testing.T) {
	for want, d := range map[string]ShedError{
		"kv_pressure;pool=draft;usage=0.91;threshold=0.85":  {Pool: "draft", Class: low, Usage: 0.91, Threshold: 0.85, Reason: ReasonKV},
		"kv_growth;pool=big;usage=1.234;threshold=0.95":     {Pool: "big", Usage: 1.2341, Threshold: 0.95, Reason: ReasonGrowth},
		"backend_queue;pool=big;usage=17;threshold=16":      {Pool: "big", Usage: 17, Threshold: 16, Reason: ReasonBackendQueue},
		"gateway_queue;pool=big;usage=1024;threshold=0":     {Pool: "big", Usage: 1024, Reason: ReasonQueueFull},
		"kv_pressure;pool=draft;usage=0.85;threshold=0.8":   {Pool: "draft", Usage: 0.85, Threshold: 0.85 - 0.05, Reason: ReasonKV},
		"kv_pressure;pool=draft;usage=0.8333;threshold=0.8": {Pool: "draft", Usage: 0.83333, Threshold: 0.8, Reason: ReasonKV},
	} {
		if got := d.Header(); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}

func TestRetryAfterIsWholeSecondsThatGrowWithTheWait(t *testing.T) {
	for _, c := range []struct {
		name string
		wait time.Duration
		r    float64
		want int
	}{
		{"unknown, the first", 0, 0, 1},
		{"unknown, half", 0, 0.5, 3},
		{"unknown, the last", 0, 0.9999, 5},
		{"negative is unknown", -time.Hour, 0.9999, 5},
		{"soon, the first", 100 * time.Millisecond, 0, 1},
		{"soon, the last", 100 * time.Millisecond, 0.9999, 1},
		{"4 s, the first", 4 * time.Second, 0, 3},
		{"4 s, half", 4 * time.Second, 0.5, 4},
		{"4 s, the last", 4 * time.Second, 0.9999, 5},
		{"4.2 s, the first", 4200 * time.Millisecond, 0, 4},
		{"20 s, the first", 20 * time.Second, 0, 15},
		{"20 s, the last", 20 * time.Second, 0.9999, 25},
		{"an hour", time.Hour, 0, 30},
		{"for ever", math.MaxInt64, 1, 30},
	} {
		if got := retryAfter(c.wait, c.r); got != time.Duration(c.want)*time.Second {
			t.Errorf("%s: %v, want %d s", c.name, got, c.want)
		}
	}
	for _, r := range []float64{0, 0.3, 0.9999} {
		last := time.Duration(0)
		for wait := 100 * time.Millisecond; wait < time.Minute; wait += 100 * time.Millisecond {
			got := retryAfter(wait, r)
			if got < last {
				t.Fatalf("%v for a wait of %v, and %v for a shorter one", got, wait, last)
			}
			last = got
		}
	}
}
