package pressure

import (
	"math"
	"testing"
	"time"
)

func TestReadingAgesAndThenIsUnknown(t *testing.T) {
	at := time.Unix(1_800_000_000, 0)
	for _, c := range []struct {
		age   time.Duration
		want  float64
		known bool
	}{
		{-time.Second, 1, true}, // a clock that was set back
		{2 * time.Second, 1, true},
		{6 * time.Second, 0.5, true},
		{10*time.Second - 1, 0, true},
		{10 * time.Second, 0, false},
	} {
		got, known := Weight(at, at.Add(c.age))
		if math.Abs(got-c.want) > 1e-6 || known != c.known {
			t.Errorf("after %s: got %v, %v; want %v, %v", c.age, got, known, c.want, c.known)
		}
	}
	if _, known := Weight(time.Time{}, at); known {
		t.Error("a reading that never was is known")
	}
}
