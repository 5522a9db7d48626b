package risk

import (
	"strings"
	"testing"
)

func TestLabelsAreReadAsTheyWereWritten(t *testing.T) {
	var all Labels
	for i := range Label(LabelCount) {
		all.Set(i, i%2 == 0)
		if back, ok := ParseLabel(i.String()); !ok || back != i {
			t.Errorf("label %d is read as %d, %v", i, back, ok)
		}
	}
	var judged, none Labels
	judged.Set(LabelJudge, false)
	for _, l := range []Labels{all, judged, none} {
		text := l.String()
		if back, err := ParseLabels(text); err != nil || back != l || len(text) > maxLabelsText/2 {
			t.Errorf("%q (%d bytes) is read as %+v, %v", text, len(text), back, err)
		}
	}
	if all.Of(LabelLenient) != OutcomeBad || all.Of(LabelCount) != OutcomeUnknown || Label(LabelCount).String() != "unknown" {
		t.Errorf("%v", all.Of(LabelLenient))
	}
}

func TestTextsThatAreNoLabelsAreRefused(t *testing.T) {
	for _, text := range []string{
		"lenient", "lenient=", "lenient=fine", "strict=good", "lenient=good lenient=bad", "greedy_prefix=good", "exact=unknown",
		strings.Repeat(" ", maxLabelsText) + "lenient=good",
	} {
		if l, err := ParseLabels(text); err == nil || l != (Labels{}) {
			t.Errorf("%q is read as %+v", text, l)
		}
	}
}

func FuzzLabels(f *testing.F) {
	f.Add("exact=bad lenient=good")
	f.Add("judge=good regenerate=bad")
	f.Fuzz(func(t *testing.T, text string) {
		l, err := ParseLabels(text)
		if err != nil {
			return
		}
		again, err := ParseLabels(l.String())
		if err != nil || again != l {
			t.Fatalf("%q is read again as %+v, %v", l.String(), again, err)
		}
	})
}

func TestScoresThatOnlyTheLoosestTwoCertifiedThresholdsAcceptAreNotSure(t *testing.T) {
	s := State{Version: 1, Grid: Grid{5, 4, 3, 2, 1}, MaxWrongRate: plain.MaxWrongRate, ErrorProbability: plain.ErrorProbability}
	for op, want := range map[int]float64{0: Unreachable, 1: Unreachable, 2: Unreachable, 3: 5, 5: 3} {
		if s.Op = op; s.View(plain).Sure != want {
			t.Errorf("operating index %d: sure from %g, want %g", op, s.View(plain).Sure, want)
		}
	}
}
