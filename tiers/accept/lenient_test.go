package accept

import (
	"math"
	"testing"
)

// opinions are of tokens with these probabilities where the first choice has that
// of top.
func opinions(top float64, ps ...float64) []TargetScore {
	var out []TargetScore
	for _, p := range ps {
		out = append(out, TargetScore{Logprob: Nats(math.Log(p)), Top: Nats(math.Log(top))})
	}
	return out
}

func stands(temperature float64, all ...[]TargetScore) bool {
	span := LenientCheck{Temperature: temperature}
	for _, list := range all {
		for _, o := range list {
			span.Add(o)
		}
	}
	return span.Passes()
}

func TestTheTargetStandsByWhatItFoundPlausible(t *testing.T) {
	own := make([]float64, 49)
	for i := range own {
		own[i] = 0.8
	}
	chosen := opinions(0.8, own...)
	alike := opinions(0.95, 0.001)
	alike[0].Alike = true
	for name, tc := range map[string]struct {
		spans       [][]TargetScore
		temperature float64
		want        bool
	}{
		"nothing":                              {nil, 0, true},
		"its own choices":                      {[][]TargetScore{chosen}, 0, true},
		"one failure in fifty":                 {[][]TargetScore{chosen, opinions(0.5, 0.1)}, 0, true},
		"two in fifty-one":                     {[][]TargetScore{chosen, opinions(0.5, 0.1, 0.1)}, 0, false},
		"0.3 of the first choice passes":       {[][]TargetScore{chosen, opinions(0.5, 0.15, 0.15)}, 0, true},
		"a confident disagreement":             {[][]TargetScore{chosen, opinions(0.95, 0.001)}, 0, false},
		"the same word in capitals":            {[][]TargetScore{chosen, alike}, 0, true},
		"typical tokens of a flat law":         {[][]TargetScore{chosen, opinions(0.5, 0.1, 0.1)}, 1, true},
		"many small steps away are a long way": {[][]TargetScore{opinions(0.5, 0.4, 0.4, 0.4, 0.4)}, 0, false},
	} {
		if got := stands(tc.temperature, tc.spans...); got != tc.want {
			t.Errorf("%s: stands %v", name, got)
		}
	}
}

func TestOfASpanThatIsRefusedWhatIsBeforeTheTroubleIsKept(t *testing.T) {
	fine, off, sure := opinions(0.8, 0.8)[0], opinions(0.5, 0.1)[0], opinions(0.95, 0.001)[0]
	for name, c := range map[string]struct {
		span []TargetScore
		pass bool
		kept int
	}{
		"nothing":                              {nil, true, 0},
		"all of it":                            {[]TargetScore{fine, fine, fine}, true, 3},
		"a failure":                            {[]TargetScore{fine, fine, off, fine}, false, 2},
		"two":                                  {[]TargetScore{fine, off, fine, off}, false, 1},
		"a confident disagreement":             {[]TargetScore{fine, sure, fine}, false, 1},
		"a failure before the disagreement":    {[]TargetScore{fine, off, fine, sure}, false, 3},
		"many small steps: nothing sticks out": {opinions(0.5, 0.4, 0.4, 0.4), false, 0},
	} {
		got := CheckLenient(0, c.span)
		reason := map[bool]string{true: ReasonTargetAgrees, false: ReasonTargetDisagrees}[c.pass]
		if got.Pass != c.pass || got.Kept != c.kept || got.Reason != reason {
			t.Errorf("%s: %+v", name, got)
		}
		gap := 0.0
		for _, o := range c.span {
			gap += float64(o.Top-o.Logprob) / float64(len(c.span))
		}
		if math.Abs(float64(got.Score)+gap) > 1e-12 {
			t.Errorf("%s: score %v, want %v", name, got.Score, -gap)
		}
	}
}
