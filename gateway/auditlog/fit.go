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
	"github.com/foregate/foregate/tiers/refit"
)

// Selection holds the audits of a route for fitting a score, and counts what was left out.
type Selection struct{ refit.Samples }

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
	var s Selection
	for i := range all {
		s.Add(&all[i])
	}
	return &s, nil
}

// Print describes the data of the fit.
func (s *Selection) Print(w io.Writer) {
	t := display.Table{MaxWidth: 20}
	t.Add("audits", fmt.Sprint(len(s.Labelled)))
	for _, part := range []struct {
		n    int
		what string
	}{
		{s.Lost, "lost or under way"},
		{s.Odd, "with other features, of another version"},
	} {
		if part.n > 0 {
			t.Add("left out", fmt.Sprintf("%d %s", part.n, part.what))
		}
	}
	of := map[string]int{} // by fingerprint of models and rules
	for _, k := range s.Keys {
		of[riskview.Rules(k)]++
	}
	if len(of) > 1 {
		for _, rules := range slices.Sorted(maps.Keys(of)) {
			t.Add("models and rules", fmt.Sprintf("%s: %d", rules, of[rules]))
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
