package display

import (
	"fmt"
	"io"
	"math"
	"strings"

	"github.com/foregate/foregate/gateway"
)

// Risk prints views: a table for each route, with a line for each traffic class.
func Risk(w io.Writer, views []gateway.RiskView) {
	if len(views) == 0 {
		_, _ = fmt.Fprintln(w, "no audits yet: set speculation.mode of a route to risk or shadow and send requests to it") // the reader may be gone
		return
	}
	for len(views) > 0 {
		first := &views[0]
		n := 1
		for n < len(views) && views[n].Route == first.Route {
			n++
		}
		WriteLine(w, 2, fmt.Sprintf("%s: wrong rate of unverified drafts at most %s, with probability %s",
			first.Route, Percent(first.MaxWrongRate), Percent(1-first.ErrorProbability)))
		t := Table{Indent: 2, MaxWidth: 24}
		t.Add("TRAFFIC CLASS", "STATE", "THRESHOLD", "ACCEPTS", "AUDITS", "WRONG RATE", "PROVEN BELOW", "DRIFT", "FIRST CERTIFICATE")
		for i := range views[:n] {
			v := &views[i]
			t.Add(v.TrafficClass, string(v.State), thresholdText(v), acceptsText(v), auditsText(v), wrongText(v), Percent(v.Bound), driftText(v), waitText(v))
		}
		t.Write(w)
		views = views[n:]
	}
}

// Refits prints the candidates for the scores of routes, one line for each.
func Refits(w io.Writer, views []gateway.RefitView) {
	for i := range views {
		WriteLine(w, 2, views[i].Route+": "+views[i].Summary)
	}
}

// none is printed for an empty cell.
const none = "—"

func thresholdText(v *gateway.RiskView) string {
	if v.Threshold == nil {
		return none
	}
	return fmt.Sprintf("%d: %.2f nats", v.OperatingIndex, *v.Threshold)
}

func acceptsText(v *gateway.RiskView) string {
	if v.OperatingIndex == 0 {
		return none
	}
	return Percent(v.Acceptance)
}

func auditsText(v *gateway.RiskView) string {
	if v.Pending > 0 {
		return fmt.Sprintf("%d, %d pending", v.Audits, v.Pending)
	}
	return fmt.Sprint(v.Audits)
}

// waitText is the time until the first certificate.
func waitText(v *gateway.RiskView) string {
	switch {
	case v.State == gateway.RiskInfeasible:
		return "infeasible"
	case v.OperatingIndex > 0:
		return none
	case v.ScoresWanted > 0 && v.SecondsToCertify != nil:
		return fmt.Sprintf("in %s (%s)", Duration(*v.SecondsToCertify), toCertify(v))
	case v.ScoresWanted > 0:
		return fmt.Sprintf("learning %d/%d", v.ScoresLearned, v.ScoresWanted)
	case v.AuditsToCertify == nil:
		return "not reachable"
	case *v.AuditsToCertify < .5:
		return "soon, unless an audit is bad"
	case v.SecondsToCertify != nil:
		return fmt.Sprintf("in %s (%.0f audits)", Duration(*v.SecondsToCertify), *v.AuditsToCertify)
	}
	return fmt.Sprintf("%.0f audits to go", *v.AuditsToCertify)
}

// wrongText is the estimated wrong rate with its interval.
func wrongText(v *gateway.RiskView) string {
	if v.Audits == 0 {
		return none
	}
	return fmt.Sprintf("%s (%s … %s)", Percent(v.Estimate), Percent(v.Lower), Percent(v.Upper))
}

// driftText is how far the watch for a drift has come, and how often it gave an alarm.
func driftText(v *gateway.RiskView) string {
	text := Percent(v.DriftLevel)
	if v.DriftWarned {
		text += " SUSPECTED"
	}
	if v.DriftAlarms > 0 {
		text += ", " + Count(int(v.DriftAlarms), "alarm", "alarms")
	}
	return text
}

// StandingText is the state of a kind of request in one line: what is served, or the time until the first certificate.
func StandingText(v *gateway.RiskView) string {
	switch v.State {
	case gateway.RiskCertified:
		return fmt.Sprintf("certified, accepts %s of the drafts, wrong rate below %s", Percent(v.Acceptance), Percent(v.Bound))
	case gateway.RiskInfeasible:
		return fmt.Sprintf("infeasible: %d of %s bad", v.Bad, Count(v.Audits, "audit", "audits"))
	}
	return string(v.State) + ", first certificate: " + waitText(v)
}

// GuaranteeText is the guarantee of a route in one line of foregate status.
func GuaranteeText(p gateway.RiskSummary) string {
	text := fmt.Sprintf("wrong rate at most %s, with probability %s: %d of %s certified", Percent(p.MaxWrongRate), Percent(1-p.ErrorProbability), p.Certified, Count(p.Classes, "class", "classes"))
	for _, part := range []struct {
		n    int
		what string
	}{{p.Infeasible, "infeasible"}, {p.Warned, "with suspected drift"}} {
		if part.n > 0 {
			text += fmt.Sprintf(", %d %s", part.n, part.what)
		}
	}
	return text
}

// toCertify is what is still needed for the first certificate, e.g. "80 scores, 61 audits".
func toCertify(v *gateway.RiskView) string {
	var parts []string
	if n := v.ScoresWanted - v.ScoresLearned; v.ScoresWanted > 0 {
		parts = append(parts, Count(n, "score", "scores"))
	}
	if v.AuditsToCertify != nil {
		parts = append(parts, Count(int(math.Round(*v.AuditsToCertify)), "audit", "audits"))
	}
	return strings.Join(parts, ", ")
}
