package riskview

import (
	"fmt"

	"github.com/foregate/foregate/gateway"
	"github.com/foregate/foregate/gateway/display"
)

// describe is the state of a view in one line for people. advice is for an infeasible one.
func describe(v *gateway.RiskView, w timeToCertify, advice string) string {
	const nothing = "nothing is served unverified, audits go on; "
	switch v.State {
	case gateway.RiskWarmup:
		return warmupText(v) + "; " + waitSays(v, w) + "; the warm-up ends in " + display.Duration(v.Warmup.SecondsLeft) + " at the latest"
	case gateway.RiskStopped:
		return fmt.Sprintf("warm-up stopped: of the drafts that it served %s, too many for the guarantee; ", wrongText(v.Warmup)) + nothing + waitSays(v, w)
	case gateway.RiskCertified:
		return fmt.Sprintf("certified: serves about %s of the drafts, of which less than %s are wrong", display.Percent(v.Acceptance), display.Percent(v.Bound))
	case gateway.RiskInfeasible:
		return advice
	}
	if v.Warmup != nil && v.Warmup.Ended == "time" {
		return fmt.Sprintf("the warm-up is over by risk.warmup_duration, %s and %s; ", servedText(v.Warmup), wrongText(v.Warmup)) + nothing + waitSays(v, w)
	}
	return nothing + waitSays(v, w)
}

// warmupText describes a running warm-up.
func warmupText(v *gateway.RiskView) string {
	w := v.Warmup
	switch {
	case w.Serves:
		return "warm-up: " + servedText(w) + ", " + wrongText(w)
	case w.Served > 0:
		return "warm-up: " + servedText(w) + ", " + wrongText(w) + ", none is served now"
	}
	return "warm-up in shadow: " + display.Count(w.Drafts, "draft", "drafts") + " made, none is served now"
}

func servedText(w *gateway.WarmupView) string {
	return fmt.Sprintf("%d of %s served", w.Served, display.Count(w.Drafts, "draft", "drafts"))
}

// wrongText describes the audits of the drafts that a warm-up served.
func wrongText(w *gateway.WarmupView) string {
	if w.Audits == 0 {
		return "none audited yet"
	}
	return fmt.Sprintf("%d of %d audited were wrong (%s, %s … %s)", w.Bad, w.Audits, display.Percent(w.WrongRate), display.Percent(w.Low), display.Percent(w.High))
}

// waitSays is the time until the first certificate, if the traffic is known.
func waitSays(v *gateway.RiskView, w timeToCertify) string {
	switch {
	case v.AuditsToCertify == nil:
		return fmt.Sprintf("a certificate is out of reach as it looks: %d of %s of the best drafts were bad", v.Bad, display.Count(v.Audits, "audit", "audits"))
	case *v.AuditsToCertify < .5 && v.ScoresWanted == 0:
		return "certified soon, unless an audit under way is bad"
	case w.seconds != nil && v.Audits == 0: // assumes that no audit will be bad
		return fmt.Sprintf("certified in %s at the earliest, at %s (%s to go)", display.Duration(*w.seconds), w.at, display.ToCertify(v))
	case w.seconds != nil:
		return fmt.Sprintf("certified in about %s at %s (%s to go)", display.Duration(*w.seconds), w.at, display.ToCertify(v))
	}
	return "certified after " + display.ToCertify(v) + " or more"
}
