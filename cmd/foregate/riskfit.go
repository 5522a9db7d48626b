package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"
	"unicode"

	"github.com/foregate/foregate/tiers/accept"
	"github.com/foregate/foregate/tiers/calibrate"
	"github.com/foregate/foregate/tiers/evidence"
)

type riskFitCmd struct {
	where
	Route string        `required:"" help:"The route." placeholder:"NAME"`
	In    string        `help:"Fit to the audits of this file, which foregate risk export wrote, instead of those of the log; - is the standard input." placeholder:"FILE"`
	Since time.Duration `help:"Only to audits that were begun in this time before the newest: since the models are what they are, say." placeholder:"DURATION"`
	Save  bool          `help:"Keep the score where replicas find it. Nothing is judged by it before the setting risk.score_version says so."`
}

// Run fits, tells what the fit is worth, and keeps it if it was told to.
func (c *riskFitCmd) Run(e *env) error {
	var b *bench
	if c.Save || c.In == "" {
		var err error
		if b, err = c.bench(e); err != nil {
			return err
		}
		defer b.close()
		if b.routes != nil && !slices.Contains(b.routes, c.Route) {
			return b.unknown(c.Route, nil)
		}
	}
	s, err := c.collect(e, b)
	if err != nil {
		return err
	}
	s.tell(e.stdout)
	fitted, err := calibrate.Fit(s.samples())
	if few, ok := errors.AsType[*calibrate.TooFewError](err); ok {
		return fmt.Errorf("%s has %d good and %d bad audits; a fit takes %d together, and %d of each", cut(c.Route, 60), few.Good, few.Bad, calibrate.MinSamples, calibrate.MinPerLabel)
	}
	if err != nil {
		return err
	}
	printFit(e.stdout, &fitted)
	if !c.Save {
		_, _ = fmt.Fprintln(e.stdout, "not saved; --save keeps it") // whoever reads may be gone
		return nil
	}
	raw, err := json.Marshal(fitted)
	if err != nil {
		return err
	}
	version, err := b.book.SaveMap(b.ctx, c.Route, raw)
	if err != nil {
		return err
	}
	name := "risk.score_version@" + c.Route
	_, _ = fmt.Fprintf(e.stdout, "saved as version %d\nto judge by it, once audits have certified thresholds of its own:\n  foregate settings set %s\nto go back:\n  foregate settings unset %s\n",
		version, shellWord(fmt.Sprintf("%s=%d", name, version)), shellWord(name))
	return nil
}

// shellWord is what a shell takes for one word.
func shellWord(s string) string {
	if strings.ContainsFunc(s, func(r rune) bool {
		return !unicode.IsLetter(r) && !unicode.IsDigit(r) && !strings.ContainsRune("@=._-/:+,", r)
	}) {
		return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
	}
	return s
}

// found are the audits that a fit may be made of.
type found struct {
	entries []evidence.LogEntry
	rules   map[string]int // by the fingerprint of models and rules
	lost    int
	odd     int // with other features than these
	again   int // for the whole route, of a draft that is there for its own kind
	heads   int // of the other lot
}

// collect reads the audits of the route, from the file or the log.
func (c *riskFitCmd) collect(e *env, b *bench) (*found, error) {
	var all []evidence.LogEntry
	var newest time.Time
	see := func(a evidence.LogEntry) {
		if a.Key.Route == c.Route {
			all = append(all, a)
			if a.When.After(newest) {
				newest = a.When
			}
		}
	}
	var err error
	if c.In != "" {
		err = inFrom(e.ctx, c.In, func(r io.Reader) error {
			return readAudits(r, func(_ int, a evidence.LogEntry) error { see(a); return nil })
		})
	} else {
		err = b.book.Log(b.ctx, func(a evidence.LogEntry) error { see(a); return nil })
	}
	if err != nil {
		return nil, err
	}
	if c.Since > 0 {
		all = slices.DeleteFunc(all, func(a evidence.LogEntry) bool { return newest.Sub(a.When) > c.Since })
	}
	if len(all) == 0 {
		return nil, fmt.Errorf("there are no audits of %s", cut(c.Route, 60))
	}
	return sift(all), nil
}

// sift keeps one audit of each draft: one that was audited for its own kind and for the whole route
// is in the log twice, with the same numbers. Drafts that the target had stood by before, from their
// first tokens, are left out: they were chosen for what they are to be told by.
func sift(all []evidence.LogEntry) *found {
	f := &found{rules: map[string]int{}}
	own := map[string]bool{}
	for _, ofRoute := range []bool{false, true} {
		for i := range all {
			a := &all[i]
			if strings.HasPrefix(a.Key.TrafficClass, wholePrefix) == ofRoute {
				f.sift(a, ofRoute, own)
			}
		}
	}
	return f
}

// sift takes one audit in, or counts it as left out.
func (f *found) sift(a *evidence.LogEntry, ofRoute bool, own map[string]bool) {
	numbers := fmt.Sprint(a.Score, a.Features, a.Tokens)
	switch {
	case a.Key.Cohort != ownCohort:
		f.heads++
	case ofRoute && own[numbers]:
		f.again++
	case a.Label == labelLost:
		f.lost++
	case len(a.Features) != len(accept.Features{}):
		f.odd++
	default:
		f.rules[rulesIn(a.Key)]++
		f.entries = append(f.entries, *a)
	}
	if !ofRoute {
		own[numbers] = true
	}
}

func (f *found) samples() []calibrate.Sample {
	out := make([]calibrate.Sample, len(f.entries))
	for i, a := range f.entries {
		out[i] = calibrate.Sample{Score: a.Score, Good: a.Label == labelGood}
		copy(out[i].Features[:], a.Features)
	}
	return out
}

// tell says what the fit is made of.
func (f *found) tell(w io.Writer) {
	t := table{most: 20}
	t.add("audits", fmt.Sprint(len(f.entries)))
	for _, part := range []struct {
		n    int
		what string
	}{
		{f.lost, "lost or under way"}, {f.heads, "of the cohort head, which the target had accepted before"},
		{f.again, "for the whole route, of drafts that are there already"}, {f.odd, "with other features"},
	} {
		if part.n > 0 {
			t.add("left out", fmt.Sprintf("%d %s", part.n, part.what))
		}
	}
	if len(f.rules) > 1 {
		for _, rules := range slices.Sorted(maps.Keys(f.rules)) {
			t.add("models and rules", fmt.Sprintf("%s: %d", rules, f.rules[rules]))
		}
		t.add("", "several: a fit of all is right only where their scores mean the same; see --since")
	}
	t.write(w)
}

// printFit tells what a fit is worth.
func printFit(w io.Writer, f *calibrate.Fitted) {
	t := table{most: 20}
	t.add("bad", fmt.Sprintf("%d of %d, %s", f.Bad, f.N, percent(float64(f.Bad)/float64(f.N))))
	t.add("AUROC before", areaText(f.Before))
	t.add("AUROC after", areaText(f.After)+", on drafts that the fit has not seen")
	t.add("gain", areaText(f.Gain))
	t.add("log loss", fmt.Sprintf("%.4f nats a draft; %.4f by the share of bad ones alone", f.Loss, f.ShareLoss))
	t.write(w)
	_, _ = fmt.Fprintln(w, "weights") // whoever reads may be gone
	t = table{indent: 2}
	for i, name := range accept.FeatureNames {
		t.add(name, fmt.Sprintf("%.4f", f.Map.Weights[i]))
	}
	t.add("bias", fmt.Sprintf("%.4f", f.Map.Bias))
	t.write(w)
	_, _ = fmt.Fprintln(w, "reliability")
	t = table{indent: 2}
	t.add("SCORE FROM", "DRAFTS", "SAID TO BE GOOD", "WERE GOOD")
	for _, p := range f.Isotonic {
		t.add(fmt.Sprintf("%.2f", p.Score), fmt.Sprint(p.N), percent(p.Expected), percent(p.Good))
	}
	t.write(w)
}

func areaText(a calibrate.Area) string { return fmt.Sprintf("%.3f ± %.3f", a.Value, a.Error) }

type riskMapsCmd struct {
	where
	Route string `help:"Only this route; without it all routes that are configured or audited." placeholder:"NAME"`
	JSON  bool   `help:"As JSON, with all that is known of each."`
}

// mapLine is one calibrated score as JSON.
type mapLine struct {
	Route   string          `json:"route"`
	Version int             `json:"version"`
	InUse   bool            `json:"in_use"`
	Fit     json.RawMessage `json:"fit"`
}

// Run lists the versions of calibrated scores, and which is in use.
func (c *riskMapsCmd) Run(e *env) error {
	b, err := c.bench(e)
	if err != nil {
		return err
	}
	defer b.close()
	routes, err := c.routes(b)
	if err != nil {
		return err
	}
	lines := []mapLine{}
	for _, route := range routes {
		saved, err := b.book.Maps(b.ctx, route)
		if err != nil {
			return err
		}
		for _, m := range saved {
			lines = append(lines, mapLine{route, m.Version, b.snapshot.Route(route).Tiers.Risk.ScoreVersion == m.Version, bytes.TrimSpace(m.Raw)})
		}
	}
	if c.JSON {
		return writeLines(e.stdout, lines)
	}
	if len(lines) == 0 {
		_, err := fmt.Fprintln(e.stdout, "there are none; foregate risk fit makes one")
		return err
	}
	t := table{}
	t.add("ROUTE", "VERSION", "AUDITS", "BAD", "AUROC BEFORE", "AFTER", "")
	for _, l := range lines {
		use := ""
		if l.InUse {
			use = "in use"
		}
		f, err := calibrate.Parse(l.Fit)
		if err != nil {
			t.add(l.Route, fmt.Sprint(l.Version), "?", "?", "?", "?", strings.TrimSpace(use+" not readable: "+err.Error()))
			continue
		}
		t.add(l.Route, fmt.Sprint(l.Version), fmt.Sprint(f.N), percent(float64(f.Bad)/float64(f.N)), areaText(f.Before), areaText(f.After), use)
	}
	t.write(e.stdout)
	return nil
}

// routes are those whose scores are asked for.
func (c *riskMapsCmd) routes(b *bench) ([]string, error) {
	all, err := b.book.All(b.ctx)
	if err != nil {
		return nil, err
	}
	routes := slices.Concat(b.routes, routesOf(all))
	slices.Sort(routes)
	routes = slices.Compact(routes)
	if c.Route == "" {
		return routes, nil
	}
	if b.routes != nil && !slices.Contains(routes, c.Route) {
		return nil, b.unknown(c.Route, routes)
	}
	return []string{c.Route}, nil
}
