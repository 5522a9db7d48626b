package display

import (
	"fmt"
	"io"

	"github.com/foregate/foregate/gateway"
	"github.com/foregate/foregate/tiers/risk"
)

// Risk prints views: a table for each route, with a line for each traffic class.
func Risk(w io.Writer, views []risk.Summary) {
	if len(views) == 0 {
		_, _ = fmt.Fprintln(w, "no audits yet: set speculation.mode of a route to risk or shadow and send requests to it") // the reader may be gone
		return
	}
	for _, own := range byRoute(views, func(v *risk.Summary) string { return v.Route }) {
		riskOf(w, own)
	}
}

// riskOf prints the views of one route.
func riskOf(w io.Writer, views []risk.Summary) {
	Line(w, fmt.Sprintf("%s: disagreement of unverified drafts at most the limit, with probability %s", views[0].Route, Percent(1-views[0].ErrorProbability)))
	t := Table{Indent: 2}
	t.Add("TRAFFIC CLASS", "STATE", "THRESHOLD", "ACCEPTS", "AUDITS", "DISAGREEMENT", "PROVEN BELOW", "LIMIT", "DRIFT", "FIRST CERTIFICATE")
	for i := range views {
		v := &views[i]
		threshold, accepts, disagreement := none, none, none
		if v.Threshold != nil {
			threshold = fmt.Sprintf("%d: %.2f nats", v.Op, *v.Threshold)
		}
		if v.Op > 0 {
			accepts = Percent(v.Acceptance)
		}
		if v.Audits > 0 {
			disagreement = fmt.Sprintf("%s (%s … %s)", Percent(v.Estimate), Percent(v.Low), Percent(v.High))
		}
		t.Add(v.TrafficClass, string(v.Phase), threshold, accepts, auditsText(v), disagreement, Percent(v.Bound), Percent(v.MaxDisagreement), driftText(v), waitText(v))
	}
	t.Write(w)
}

// byRoute splits rows into those of each route, which follow each other.
func byRoute[T any](rows []T, route func(*T) string) (groups [][]T) {
	from := 0
	for i := range rows {
		if route(&rows[i]) != route(&rows[from]) {
			groups, from = append(groups, rows[from:i]), i
		}
	}
	return append(groups, rows[from:])
}

// Refits prints what the gateway itself has changed about the scores of routes, and the candidates for them.
func Refits(w io.Writer, views []gateway.RefitView) {
	for i := range views {
		v := &views[i]
		if v.Live > 0 {
			Line(w, fmt.Sprintf("%s: fitted score v%d is in force: it was clearly better, and audits certified it; risk.refit@%s=off puts the plain score back", v.Route, v.Live, v.Route))
		}
		if v.Version > 0 {
			Line(w, fmt.Sprintf("%s: candidate v%d for the score: %s", v.Route, v.Version, Count(v.Audits, "audit", "audits")))
		}
	}
}

// none is printed for an empty cell.
const none = "—"

func auditsText(v *risk.Summary) string {
	if v.Pending > 0 {
		return fmt.Sprintf("%d, %d pending", v.Audits, v.Pending)
	}
	return fmt.Sprint(v.Audits)
}

// waitText is what is still needed for the first certificate.
func waitText(v *risk.Summary) string {
	switch {
	case v.Op > 0:
		return none
	case v.Wanted > 0:
		return fmt.Sprintf("learning %d/%d", v.Learned, v.Wanted)
	case v.ToCertify == nil:
		return "not reachable"
	}
	return fmt.Sprintf("%.0f audits to go", *v.ToCertify)
}

// driftText is how far the watch for a drift has come, and how often it gave an alarm.
func driftText(v *risk.Summary) string {
	text := Percent(v.Drift)
	if v.Warned {
		text += " SUSPECTED"
	}
	if v.Alarms > 0 {
		text += ", " + Count(int(v.Alarms), "alarm", "alarms")
	}
	return text
}
