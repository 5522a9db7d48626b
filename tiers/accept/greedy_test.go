package accept

import (
	"math"
	"testing"
)

func TestAGreedyCheckKeepsWhatIsBeforeTheFirstOtherChoice(t *testing.T) {
	first, other := TargetScore{Logprob: -0.2, Top: -0.2, First: true}, TargetScore{Logprob: -2.2, Top: -0.2}
	for name, c := range map[string]struct {
		span []TargetScore
		want Check
	}{
		"nothing":          {nil, Check{Pass: true, Reason: ReasonTargetAgrees}},
		"its own":          {[]TargetScore{first, first}, Check{Pass: true, Kept: 2, Reason: ReasonTargetAgrees}},
		"one other":        {[]TargetScore{first, other, first, first}, Check{Kept: 1, Score: -0.5, Reason: ReasonTargetDisagrees}},
		"two others":       {[]TargetScore{first, first, other, other}, Check{Kept: 2, Score: -1, Reason: ReasonTargetDisagrees}},
		"from the start":   {[]TargetScore{other}, Check{Score: -2, Reason: ReasonTargetDisagrees}},
		"an exact tie":     {[]TargetScore{first, {Logprob: -0.2, Top: -0.2}}, Check{Pass: true, Kept: 2, Reason: ReasonTargetAgrees}},
		"another end only": {[]TargetScore{first, {Logprob: -3, Top: -0.2, First: true}}, Check{Pass: true, Kept: 2, Score: -1.4, Reason: ReasonTargetAgrees}},
	} {
		got := CheckGreedy(c.span)
		if math.Abs(float64(got.Score-c.want.Score)) > 1e-12 {
			t.Errorf("%s: score %v, want %v", name, got.Score, c.want.Score)
		}
		if got.Score = c.want.Score; got != c.want {
			t.Errorf("%s: %+v, want %+v", name, got, c.want)
		}
	}
}
