package display

import (
	"fmt"
	"io"
	"math"
	"strconv"

	"github.com/foregate/foregate/tiers/risk"
)

// Frontiers prints what each maximum of disagreement would give: a table for each kind of request.
func Frontiers(w io.Writer, f risk.Frontiers) {
	if len(f.Frontiers) == 0 {
		_, _ = fmt.Fprintln(w, "no audits yet: set speculation.mode of a route to risk or shadow and send requests to it") // the reader may be gone
		return
	}
	for i := range f.Frontiers {
		frontier(w, &f.Frontiers[i])
	}
	if f.Omitted > 0 {
		Line(w, Count(f.Omitted, "more kind of request is", "more kinds of request are")+" not shown")
	}
}

func frontier(w io.Writer, v *risk.Frontier) {
	text := fmt.Sprintf("%s, %s, label %s: %s, %d bad, %d lost", v.Route, v.TrafficClass, v.Label, Count(v.Audits, "audit", "audits"), v.Bad, v.Lost)
	if !v.Known {
		Line(w, text+fmt.Sprintf("; about %.0f are needed", v.Needed))
		return
	}
	Line(w, text)
	t := Table{Indent: 2}
	saved := "TARGET TOKENS SAVED PER DAY (no prices)"
	if v.Priced {
		saved = "SAVED PER DAY"
	}
	t.Add("MAX DISAGREEMENT", "DRAFTS SERVED", "DISAGREEMENT", saved, "CERTIFIED")
	for i := range v.Points {
		p := &v.Points[i]
		rate := Percent(p.MaxDisagreement)
		if p.InForce {
			rate += " now"
		}
		t.Add(rate, rangeText(p.Share, roundPercent), rangeText(p.Risk, roundPercent), savedText(p), certifiedText(p))
	}
	t.Write(w)
	byThreshold := Table{Indent: 2}
	byThreshold.Add("THRESHOLD", "DRAFTS SERVED", "DISAGREEMENT")
	for _, th := range v.Thresholds {
		byThreshold.Add(fmt.Sprintf("%.2f nats", th.Threshold), rangeText(th.Share, roundPercent), rangeText(th.Risk, roundPercent))
	}
	byThreshold.Write(w)
}

func savedText(p *risk.FrontierPoint) string {
	switch {
	case p.USD != nil:
		return rangeText(*p.USD, SignedDollars)
	case p.Tokens != nil:
		return rangeText(*p.Tokens, Amount)
	}
	return none
}

// certifiedText is when the drafts would be served.
func certifiedText(p *risk.FrontierPoint) string {
	switch {
	case p.MoreAudits == nil:
		return "not expected"
	case *p.MoreAudits == 0:
		return "by these audits"
	}
	text := "after " + Count(int(math.Round(*p.MoreAudits)), "more audit", "more audits")
	if p.Seconds != nil {
		text += " (" + Duration(*p.Seconds) + ")"
	}
	if p.Certified {
		text += ", a part of it now"
	}
	return text
}

// roundPercent formats a share with one decimal at most.
func roundPercent(share float64) string { return OneDecimal(100*share) + " %" }

func rangeText(r risk.Range, format func(float64) string) string {
	return fmt.Sprintf("%s (%s … %s)", format(r.Estimate), format(r.Low), format(r.High))
}

// SignedDollars formats an amount that may be negative.
func SignedDollars(usd float64) string {
	if usd < 0 {
		return "−" + Dollars(-usd)
	}
	return Dollars(usd)
}

// Amount formats a large number with three digits.
func Amount(n float64) string {
	switch {
	case math.Abs(n) >= 1e6:
		return strconv.FormatFloat(n/1e6, 'f', 1, 64) + "M"
	case math.Abs(n) >= 1e3:
		return strconv.FormatFloat(n/1e3, 'f', 1, 64) + "k"
	}
	return strconv.FormatFloat(n, 'f', 0, 64)
}
