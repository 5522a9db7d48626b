package quality

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/foregate/foregate/internal/golden"
	"github.com/foregate/foregate/loadtest"
	"github.com/foregate/foregate/tiers/accept"
	"github.com/foregate/foregate/tiers/refit"
)

// language is a draft model, asked what a scenario asks at one temperature.
type language struct {
	scenario                       string
	divergence, blind, temperature float64
}

func (l language) String() string {
	return fmt.Sprintf("| `%s`, %g, %g | %g |", l.scenario, l.divergence, l.blind, l.temperature)
}

// languages are those of the committed scenarios that draft, before and after their drifts, and one that is blind on a third of
// its prompts.
func languages() (out []language) {
	for _, l := range []language{
		{"risk-day", 0.25, 0, 0}, {"risk-day", 0.45, 0, 0}, {"risk-hour", 0.7, 0, 0}, {"cascade", 0.1, 0, 0},
		{"first-hour", 0.2, 0, 0}, {"first-hour", 0.3, 0, 0}, {"first-hour", 0.4, 0, 0}, {"first-hour", 0.3, 0.3, 0}, {"first-hour", 0.4, 1, 0},
	} {
		out = append(out, l)
		if l.temperature = 1; l.scenario != "cascade" { // nothing is wrong with its drafts then
			out = append(out, l)
		}
	}
	return out
}

// studied is how many drafts of a language a fit may use, and how many others it is tried on.
const studied = 3000

// studiedDrafts are 3,000 drafts of each language to fit to and 3,000 others. They are made once for all tests.
var studiedDrafts = sync.OnceValues(func() (map[language][]refit.Sample, error) {
	out := map[language][]refit.Sample{}
	for _, l := range languages() {
		s, err := loadtest.Load("../scenarios/" + l.scenario + ".yaml")
		if err != nil {
			return nil, err
		}
		w, err := loadtest.NewWorkload(s, &s.Cases[0], 1)
		if err != nil {
			return nil, err
		}
		d := draftsOf(l.divergence, l.blind)
		for i := range 2 * studied {
			q := w.Session(i).Request()
			q.Temperature = l.temperature
			one := d.judge.sample(q, accept.Config{})
			one.Greedy = l.temperature == 0
			out[l] = append(out[l], one)
		}
	}
	return out, nil
})

// long skips a test that is too long for now, and returns its drafts.
func long(t *testing.T) map[language][]refit.Sample {
	t.Helper()
	if testing.Short() {
		t.Skip("a long test: make test-long")
	}
	if raced {
		t.Skip("one goroutine: the detector only makes it ten times slower")
	}
	all, err := studiedDrafts()
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// scored are drafts with a score.
type scored struct {
	scores []float64
	good   []bool
}

// scoredBy scores drafts by a map; nil is the plain score.
func scoredBy(m *accept.ScoreMap, drafts []refit.Sample) (s scored) {
	for _, d := range drafts {
		score := d.Score
		if m != nil {
			score = float64(m.Score(d.Features))
		}
		s.scores, s.good = append(s.scores, score), append(s.good, d.Good)
	}
	return s
}

func (s scored) area() refit.Area          { return refit.AUROC(s.scores, s.good) }
func (s scored) served(eps float64) string { return percent(kept(s.scores, s.good, eps)) }

// wrong is the share of bad ones.
func (s scored) wrong() float64 {
	bad := 0
	for _, g := range s.good {
		if !g {
			bad++
		}
	}
	return float64(bad) / float64(len(s.good))
}

// withoutNew has the features alone that there were before doubt and surprise: a feature that never moves has no weight.
func withoutNew(drafts []refit.Sample) []refit.Sample {
	out := slices.Clone(drafts)
	for i := range out {
		out[i].Features[accept.FeatureDoubt], out[i].Features[accept.FeatureSurprise] = 0, 0
	}
	return out
}

// documented fails for each row that docs/measurements.md lacks.
func documented(t *testing.T, rows []string) {
	t.Helper()
	for _, row := range rows {
		golden.HasLine(t, "../../docs/measurements.md", row)
	}
}

// point3 is an area in three digits.
func point3(v float64) string { return strings.TrimPrefix(fmt.Sprintf("%.3f", v), "0") }

func withError(a refit.Area) string { return point3(a.Value) + " ± " + point3(a.Error) }

// TestTheProofTellsWhatAFittedScoreIsWorth fits to 3,000 drafts of each language and tries the fit on 3,000 others. It fails
// with the rows that the table should have.
func TestTheProofTellsWhatAFittedScoreIsWorth(t *testing.T) {
	all := long(t)
	var rows []string
	for _, l := range languages() {
		train, test := all[l][:studied], all[l][studied:]
		plain := scoredBy(nil, test)
		f, err := refit.FitScore(train)
		if err != nil {
			t.Fatal(err)
		}
		five, err := refit.FitScore(withoutNew(train))
		if err != nil {
			t.Fatal(err)
		}
		fitted := scoredBy(&f.Map, test)
		if fitted.area().Value <= plain.area().Value {
			t.Errorf("%v: the fit has %v, the plain score %v", l, fitted.area(), plain.area())
		}
		rows = append(rows, fmt.Sprintf("%v %s | %s | %s | %s | %s → %s | %s → %s |", l, percent(plain.wrong()), withError(plain.area()),
			point3(scoredBy(&five.Map, test).area().Value), withError(fitted.area()),
			plain.served(.05), fitted.served(.05), plain.served(.1), fitted.served(.1)))
	}
	documented(t, rows)
}
