package risk

import (
	"fmt"
	"math"
	"strconv"
)

// Advice says what an operator can do about a traffic class for which nothing can be certified. The zero value says
// nothing. Shares are 0 … 1.
type Advice struct {
	Eps float64 // that was found infeasible

	Audits   int     // of the strictest threshold, with an outcome: those of the finding and those since
	Bad      int     // of these
	Estimate float64 // Bad/Audits; 0 of no audits
	Low      float64 // the share is from here, with probability 1 − δ …
	High     float64 // … to here ([Interval])

	// Smallest is the least ε, in steps of 0.01, at which the strictest threshold looks feasible if the share is Estimate;
	// SmallestLow and SmallestHigh are the same for Low and High. 0 where none up to 0.5 does.
	Smallest, SmallestLow, SmallestHigh float64
}

const (
	// epsSteps is how many steps of ε there are in 1.
	epsSteps = 100
	// maxEpsSteps is the largest ε that is advised: of more wrong drafts than good ones nobody wants any.
	maxEpsSteps = epsSteps / 2
	// fewAudits is below which number advice says that it rests on few audits: an ε advised by 100 is off by a third.
	fewAudits = 100
)

// Advise returns the advice for a state that is infeasible. It changes nothing. Evidence restarts with each finding of
// infeasibility, so the audits of earlier findings count too.
func (s *State) Advise(r Rule) Advice {
	if !s.View(r).Infeasible {
		return Advice{}
	}
	a := Advice{Eps: r.MaxWrongRate, Audits: s.Finding.Audits, Bad: s.Finding.Bad}
	if e := s.witness(0, 1); e != nil {
		n, bad := e.Closed(1)
		a.Audits, a.Bad = a.Audits+n, a.Bad+bad
	}
	a.Estimate = share(a.Bad, a.Audits)
	a.Low, a.High = Interval(a.Audits, a.Bad, r.ErrorProbability)
	if a.Audits > 0 {
		a.Smallest, a.SmallestLow, a.SmallestHigh = feasible(a.Estimate, r), feasible(a.Low, r), feasible(a.High, r)
	}
	return a
}

// feasible returns the least ε, in steps of 0.01, that half a lease of audits certifies if a share of risk is bad; 0 if
// that is above 0.5.
func feasible(risk float64, r Rule) float64 {
	for step := int(math.Floor(risk*epsSteps)) + 1; step <= maxEpsSteps; step++ {
		if eps := float64(step) / epsSteps; RequiredAudits(risk, eps, r.ErrorProbability/(2*gridSize)) <= float64(r.LeaseAudits)/2 {
			return eps
		}
	}
	return 0
}

// String returns the advice as one line; "" if there is none.
func (a Advice) String() string {
	const other = "another risk.label, or another draft model"
	best := percent(AcceptanceShare(1))
	switch {
	case a.Eps == 0:
		return ""
	case a.Audits == 0:
		return fmt.Sprintf("infeasible at eps %s, by earlier audits; try a larger eps, %s", decimal(a.Eps), other)
	}
	text := fmt.Sprintf("infeasible at eps %s: of the best %s of drafts the target refuses about %s (%s … %s, by %d audits); ",
		decimal(a.Eps), best, percent(a.Estimate), percent(a.Low), percent(a.High), a.Audits)
	if a.Audits < fewAudits {
		text += "so few audits say little yet; "
	}
	switch {
	case a.Smallest == 0:
		return text + "no eps up to 0.5 looks feasible; try " + other
	case a.Smallest <= a.Eps:
		text += "the audits since look better: wait for more of them"
	default:
		text += fmt.Sprintf("the smallest eps that looks feasible is %s (%s … %s)", decimal(a.Smallest), decimal(a.SmallestLow), upTo(a.SmallestHigh))
	}
	return text + "; or try " + other
}

// upTo formats an ε, or says that it is above the largest advised one.
func upTo(eps float64) string {
	if eps == 0 {
		return "above 0.5"
	}
	return decimal(eps)
}

func decimal(v float64) string { return strconv.FormatFloat(v, 'g', -1, 64) }

// percent formats a share with at most one decimal.
func percent(share float64) string {
	return strconv.FormatFloat(math.Round(1000*share)/10, 'f', -1, 64) + "%"
}
