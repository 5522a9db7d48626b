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
	all.PrefixShare = 0.8125
	var judged, none Labels
	judged.Set(LabelJudge, false)
	for _, l := range []Labels{all, judged, none} {
		text := l.String()
		if back, err := ParseLabels(text); err != nil || back != l || len(text) > maxLabelsText/2 {
			t.Errorf("%q (%d bytes) is read as %+v, %v", text, len(text), back, err)
		}
	}
	if all.Of(LabelLoose) != OutcomeBad || all.Of(LabelCount) != OutcomeUnknown || Label(LabelCount).String() != "unknown" {
		t.Errorf("%v", all.Of(LabelLoose))
	}
}

func TestTextsThatAreNoLabelsAreRefused(t *testing.T) {
	for _, text := range []string{
		"loose", "loose=", "loose=fine", "strict=good", "loose=good loose=bad", "exact=good", "prefix_share=0.5", "exact=good prefix_share=1.1",
		"exact=good prefix_share=NaN", "prefix_share=0.5 exact=bad prefix_share=0.5", "exact=unknown prefix_share=0",
		strings.Repeat(" ", maxLabelsText) + "loose=good",
	} {
		if l, err := ParseLabels(text); err == nil || l != (Labels{}) {
			t.Errorf("%q is read as %+v", text, l)
		}
	}
}

func TestAPrefixShareAnswersForEveryMinimum(t *testing.T) {
	var l Labels
	if l.Prefix(0) != OutcomeUnknown {
		t.Error("nothing is known, but the prefix is")
	}
	l.Set(LabelExact, false)
	l.PrefixShare = 0.5
	if l.Prefix(0.5) != OutcomeGood || l.Prefix(0.51) != OutcomeBad {
		t.Errorf("%v at 0.5, %v at 0.51", l.Prefix(0.5), l.Prefix(0.51))
	}
}

func FuzzLabels(f *testing.F) {
	f.Add("exact=bad high=good loose=good prefix_share=0.2500")
	f.Add("judge=good regenerate=bad")
	f.Fuzz(func(t *testing.T, text string) {
		l, err := ParseLabels(text)
		if err != nil {
			return
		}
		if !IsShare(l.PrefixShare) {
			t.Fatalf("a share of %g", l.PrefixShare)
		}
		again, err := ParseLabels(l.String()) // the share is rounded to four decimals
		if err != nil || again.Outcomes != l.Outcomes {
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
