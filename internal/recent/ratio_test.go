package recent

import (
	"math"
	"testing"
	"time"
)

func TestAShareIsOfTheLastFiveMinutes(t *testing.T) {
	var s Ratio
	now := time.Now()
	if _, ok := s.Value(now); ok {
		t.Error("a share of nothing")
	}
	for range 100 {
		s.Add(now, 1, 1)
	}
	for _, c := range []struct {
		later time.Duration
		want  float64
		ok    bool
	}{{0, 1, true}, {Window - Step, 1, true}, {Step, 0, false}} {
		now = now.Add(c.later)
		if got, ok := s.Value(now); got != c.want || ok != c.ok {
			t.Errorf("%v later: %v, %t, want %v, %t", c.later, got, ok, c.want, c.ok)
		}
	}
	for i := range 300 { // one a second, a quarter is the part
		now = now.Add(time.Second)
		part := uint64(0)
		if i%4 == 0 {
			part = 2
		}
		s.Add(now, part, 2)
	}
	if got, ok := s.Value(now); !ok || math.Abs(got-0.25) > 0.01 {
		t.Errorf("got %v, %t", got, ok)
	}
	if got, ok := s.Value(now.Add(-time.Minute)); !ok || math.Abs(got-0.25) > 0.01 {
		t.Errorf("with a clock that goes back: %v, %t", got, ok)
	}
	if got, ok := s.Value(now.Add(time.Hour)); ok {
		t.Errorf("an hour later: %v", got)
	}
}
