package auditlog

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"time"

	"github.com/foregate/foregate/gateway/display"
	"github.com/foregate/foregate/gateway/riskview"
	"github.com/foregate/foregate/tiers/accept"
	"github.com/foregate/foregate/tiers/calibrate"
	"github.com/foregate/foregate/tiers/evidence"
	"github.com/foregate/foregate/tiers/plan"
)

// Selection holds the audits of a route for fitting a score, and counts what was left out.
type Selection struct {
	entries []evidence.LogEntry
	rules   map[string]int // by fingerprint of models and rules
	// left out:
	lost  int
	odd   int // with other features: of another version of Foregate
	heads int // of the other cohort
}

// SelectForFit chooses audits of a route from all that each passes to see. If window is not 0, audits that
// began more than window before the newest one are left out.
func SelectForFit(route string, window time.Duration, each func(see func(evidence.LogEntry)) error) (*Selection, error) {
	var all []evidence.LogEntry
	var newest time.Time
	err := each(func(a evidence.LogEntry) {
		if a.Key.Route == route {
			all = append(all, a)
			if a.When.After(newest) {
				newest = a.When
			}
		}
	})
	if err != nil {
		return nil, err
	}
	if window > 0 {
		all = slices.DeleteFunc(all, func(a evidence.LogEntry) bool { return newest.Sub(a.When) > window })
	}
	if len(all) == 0 {
		return nil, fmt.Errorf("there are no audits of %s", display.Clip(route, 60))
	}
	return selectForFit(all), nil
}

// selectForFit keeps the audits of whole drafts. Drafts whose first tokens the target had confirmed are left
// out: their selection depends on the outcome that the score must predict.
func selectForFit(all []evidence.LogEntry) *Selection {
	f := &Selection{rules: map[string]int{}}
	for i := range all {
		f.add(&all[i])
	}
	return f
}

// add adds one audit, or counts it as left out.
func (s *Selection) add(a *evidence.LogEntry) {
	switch {
	case a.Key.Cohort != riskview.OwnCohort:
		s.heads++
	case a.Label == Lost:
		s.lost++
	case len(a.Features) != len(accept.Features{}):
		s.odd++
	default:
		s.rules[riskview.Rules(a.Key)]++
		s.entries = append(s.entries, *a)
	}
}

// Samples returns the audits as samples for the fit.
func (s *Selection) Samples() []calibrate.Sample {
	out := make([]calibrate.Sample, len(s.entries))
	for i, a := range s.entries {
		out[i] = calibrate.Sample{Score: a.Score, Good: a.Label == Good, Greedy: plan.IsGreedy(a.Key.TrafficClass)}
		copy(out[i].Features[:], a.Features)
	}
	return out
}

// Print describes the data of the fit.
func (s *Selection) Print(w io.Writer) {
	t := display.Table{MaxWidth: 20}
	t.Add("audits", fmt.Sprint(len(s.entries)))
	for _, part := range []struct {
		n    int
		what string
	}{
		{s.lost, "lost or under way"}, {s.heads, "of cohort head, which the target had accepted before"},
		{s.odd, "with other features, of another version"},
	} {
		if part.n > 0 {
			t.Add("left out", fmt.Sprintf("%d %s", part.n, part.what))
		}
	}
	if len(s.rules) > 1 {
		for _, rules := range slices.Sorted(maps.Keys(s.rules)) {
			t.Add("models and rules", fmt.Sprintf("%s: %d", rules, s.rules[rules]))
		}
		t.Add("", "several: a fit of all is right only where their scores mean the same; see --since")
	}
	t.Write(w)
}

// PrintFit describes the quality of a fit.
func PrintFit(w io.Writer, f *calibrate.Fitted) {
	t := display.Table{MaxWidth: 20}
	t.Add("bad", fmt.Sprintf("%d of %d, %s", f.Bad, f.N, display.Percent(float64(f.Bad)/float64(f.N))))
	t.Add("AUROC before", AreaText(f.Before))
	t.Add("AUROC after", AreaText(f.After)+", on drafts that the fit has not seen")
	t.Add("gain", AreaText(f.Gain))
	t.Add("log loss", fmt.Sprintf("%.4f nats a draft; %.4f by the share of bad ones alone", f.Loss, f.ShareLoss))
	t.Write(w)
	_, _ = fmt.Fprintln(w, "weights") // the reader may be gone
	t = display.Table{Indent: 2}
	for i, name := range accept.FeatureNames {
		t.Add(name, fmt.Sprintf("%.4f", f.Map.Weights[i]))
	}
	t.Add("bias", fmt.Sprintf("%.4f", f.Map.Bias))
	t.Write(w)
	_, _ = fmt.Fprintln(w, "reliability")
	t = display.Table{Indent: 2}
	t.Add("SCORE FROM", "DRAFTS", "SAID TO BE GOOD", "WERE GOOD")
	for _, p := range f.Isotonic {
		t.Add(fmt.Sprintf("%.2f", p.Score), fmt.Sprint(p.N), display.Percent(p.Expected), display.Percent(p.Good))
	}
	t.Write(w)
}

// AreaText is an area under the curve with its standard error.
func AreaText(a calibrate.Area) string { return fmt.Sprintf("%.3f ± %.3f", a.Value, a.Error) }
