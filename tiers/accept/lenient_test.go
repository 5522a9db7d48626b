package accept

import (
	"math"
	"testing"
)

// opinions are of tokens with these probabilities where the first choice has that
// of top.
func opinions(top float64, ps ...float64) []Opinion {
	var out []Opinion
	for _, p := range ps {
		out = append(out, Opinion{Logprob: Nats(math.Log(p)), Top: Nats(math.Log(top))})
	}
	return out
}

func stands(l Leniency, all ...[]Opinion) bool {
	span := Lenient{Leniency: l}
	for _, list := range all {
		for _, o := range list {
			span.Add(o)
		}
	}
	return span.Stands()
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
		spans [][]Opinion
		rule  Leniency
		want  bool
	}{
		"nothing":                              {nil, Balanced(false), true},
		"its own choices":                      {[][]Opinion{chosen}, Balanced(false), true},
		"one failure in fifty":                 {[][]Opinion{chosen, opinions(0.5, 0.1)}, Balanced(false), true},
		"two in fifty-one":                     {[][]Opinion{chosen, opinions(0.5, 0.1, 0.1)}, Balanced(false), false},
		"0.3 of the first choice passes":       {[][]Opinion{chosen, opinions(0.5, 0.15, 0.15)}, Balanced(false), true},
		"a confident disagreement":             {[][]Opinion{chosen, opinions(0.95, 0.001)}, Balanced(false), false},
		"the same word in capitals":            {[][]Opinion{chosen, alike}, Balanced(false), true},
		"typical tokens of a flat law":         {[][]Opinion{chosen, opinions(0.5, 0.1, 0.1)}, Balanced(true), true},
		"many small steps away are a long way": {[][]Opinion{opinions(0.5, 0.4, 0.4, 0.4, 0.4)}, Balanced(false), false},
	} {
		if got := stands(tc.rule, tc.spans...); got != tc.want {
			t.Errorf("%s: stands %v", name, got)
		}
	}
}
