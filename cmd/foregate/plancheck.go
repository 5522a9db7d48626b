package main

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"net/url"
	"os"
	"slices"
	"text/tabwriter"
	"time"

	"github.com/foregate/foregate/gateway/ledger"
	"github.com/foregate/foregate/loadtest/planner"
)

type planCheckCmd struct {
	Plan  string `arg:"" type:"existingfile" help:"plan.json of foregate plan --out, or what --json prints."`
	Fleet string `placeholder:"NAME" help:"The fleet that runs, as the plan names it; by default its first."`
	Route string `placeholder:"NAME" help:"Only this route's traffic; by default all."`
	replicaFlags
}

// minAnswers is how many answers of an hour say something of a P99.
const minAnswers = 200

// Run compares a plan with the hours of the last week.
func (c *planCheckCmd) Run(e *env) error {
	text, err := os.ReadFile(c.Plan)
	if err != nil {
		return err
	}
	var p planner.Answer
	if err := json.Unmarshal(text, &p); err != nil || len(p.Fleets) == 0 {
		return fmt.Errorf("%s: want a plan with a fleet, as foregate plan --json prints it: %w", c.Plan, cmp.Or(err, errors.New("it has none")))
	}
	i := slices.IndexFunc(p.Fleets, func(f planner.Fleet) bool { return c.Fleet == "" || f.Name == c.Fleet })
	if i < 0 {
		return fmt.Errorf("--fleet %s: the plan's first is %s", c.Fleet, p.Fleets[0].Name)
	}
	var h ledger.Hours
	if _, err := c.ask(e, http.MethodGet, "/admin/usage/hours", url.Values{}, &h); err != nil {
		return err
	}
	hours := slices.DeleteFunc(h.Hours, func(h ledger.Hour) bool { return h.Answers < minAnswers || c.Route != "" && h.Route != c.Route })
	if len(hours) == 0 {
		return fmt.Errorf("no hour of the last week has %d answers of engines: there is nothing to compare yet", minAnswers)
	}
	return compare(e.stdout, &p, &p.Fleets[i], hours)
}

// compare prints a plan beside all hours, and beside the one with the most answers.
func compare(out io.Writer, p *planner.Answer, f *planner.Fleet, hours []ledger.Hour) error {
	all, busiest := sumHours(hours, time.Now()), seen{}
	for begin, part := range byHour(hours) {
		if s := sumHours(part, time.Now()); s.Answers > busiest.Answers {
			busiest = s
			busiest.Begin = begin
		}
	}
	_, _ = fmt.Fprintf(out, "%s, planned for %.2f requests a second that engines answer; %d hours with %d answers; the busiest began %s.\n",
		f.Name, p.PerSecond, all.hours, all.Answers, busiest.Begin.UTC().Format("2006-01-02 15:04")) // as below
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	_, _ = fmt.Fprintln(w, "\tplan\tall hours\terror\tbusiest\terror\t") // the last write tells
	for _, row := range []struct {
		name string
		plan float64
		seen func(*seen) float64
	}{
		{"requests/s", p.PerSecond, func(s *seen) float64 { return float64(s.Answers) / s.seconds }},
		{"TTFT p50 s", f.TTFT50.Mean / 1e3, func(s *seen) float64 { return s.TTFT.Quantile(ledger.UnitSeconds, 0.5) }},
		{"TTFT p99 s", f.TTFT99.Mean / 1e3, func(s *seen) float64 { return s.TTFT.Quantile(ledger.UnitSeconds, 0.99) }},
		{"E2E p50 s", f.E2E50.Mean / 1e3, func(s *seen) float64 { return s.E2E.Quantile(ledger.UnitSeconds, 0.5) }},
		{"E2E p99 s", f.E2E99.Mean / 1e3, func(s *seen) float64 { return s.E2E.Quantile(ledger.UnitSeconds, 0.99) }},
		{"$/M, by token prices", f.Priced.Mean, func(s *seen) float64 { return s.USD.USD() / float64(s.Completion) * 1e6 }},
		{"$/M, of the rent", f.PerMTok.Mean, func(s *seen) float64 { return f.USDPerHour * s.seconds / 3600 / float64(s.Completion) * 1e6 }},
	} {
		a, b := row.seen(&all), row.seen(&busiest)
		_, _ = fmt.Fprintf(w, "%s\t%.3g\t%.3g\t%s\t%.3g\t%s\t\n", row.name, row.plan, a, off(row.plan, a), b, off(row.plan, b)) // as above
	}
	return w.Flush()
}

// off is how far a plan is from what was seen.
func off(plan, seen float64) string {
	if !(plan > 0 && seen > 0) {
		return "–"
	}
	return fmt.Sprintf("%+.0f %%", 100*(plan/seen-1))
}

// seen is what some hours add up to.
type seen struct {
	ledger.Hour
	hours   int // of the clock
	seconds float64
}

// byHour sorts rows by their hour.
func byHour(rows []ledger.Hour) map[time.Time][]ledger.Hour {
	all := map[time.Time][]ledger.Hour{}
	for _, h := range rows {
		all[h.Begin] = append(all[h.Begin], h)
	}
	return all
}

// sumHours adds the routes of hours up. The present hour has lasted until now.
func sumHours(rows []ledger.Hour, now time.Time) (s seen) {
	for begin := range byHour(rows) {
		s.hours++
		s.seconds += math.Max(1, math.Min(time.Hour.Seconds(), now.Sub(begin).Seconds()))
	}
	for i := range rows {
		s.Merge(&rows[i])
	}
	return s
}
