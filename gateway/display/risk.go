package display

import (
	"fmt"
	"io"
	"math"
	"strings"

	"github.com/foregate/foregate/gateway"
)

// Risk prints views, two lines for each.
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
		t.Add("TRAFFIC CLASS", "STATE", "THRESHOLD", "ACCEPTS", "AUDITS", "FIRST CERTIFICATE")
		for i := range views[:n] {
			v := &views[i]
			t.Add(v.TrafficClass, string(v.State), thresholdText(v), acceptsText(v), auditsText(v), waitText(v))
			if v.State != gateway.RiskInfeasible {
				t.Add("  " + riskText(v)) // the advice is based on more audits
			}
			if says := saysText(v); says != "" {
				t.Add("  " + says)
			}
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
		return fmt.Sprintf("in %s (%s)", Duration(*v.SecondsToCertify), ToCertify(v))
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

// riskText describes the risk and its drift.
func riskText(v *gateway.RiskView) string {
	if v.Audits == 0 {
		return "no audits yet"
	}
	text := fmt.Sprintf("wrong rate %s (%s … %s), proven below %s", Percent(v.Estimate), Percent(v.Lower), Percent(v.Upper), Percent(v.Bound))
	if v.DriftLevel > 0 {
		text += "; drift " + Percent(v.DriftLevel)
	}
	if v.DriftWarned {
		text += " SUSPECTED"
	}
	if v.DriftAlarms > 0 {
		text += "; " + Count(int(v.DriftAlarms), "alarm", "alarms")
	}
	return text
}

// saysText is the summary of a traffic class, or "" if the other columns are enough.
func saysText(v *gateway.RiskView) string {
	switch v.State {
	case gateway.RiskWarmup, gateway.RiskStopped, gateway.RiskInfeasible:
		return v.Summary
	case gateway.RiskLearning, gateway.RiskUncertified:
		if v.Warmup != nil {
			return v.Summary
		}
	}
	return ""
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

// ToCertify is what is still needed for the first certificate, e.g. "80 scores, 61 audits".
func ToCertify(v *gateway.RiskView) string {
	var parts []string
	if n := v.ScoresWanted - v.ScoresLearned; v.ScoresWanted > 0 {
		parts = append(parts, Count(n, "score", "scores"))
	}
	if v.AuditsToCertify != nil {
		parts = append(parts, Count(int(math.Round(*v.AuditsToCertify)), "audit", "audits"))
	}
	return strings.Join(parts, ", ")
}
