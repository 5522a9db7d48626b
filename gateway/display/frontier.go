package display

import (
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"

	"github.com/foregate/foregate/gateway"
)

// Frontiers prints what each maximum wrong rate would give: a table for each kind of request and label, and how to choose.
// Labels that are not in force have one line, unless allLabels.
func Frontiers(w io.Writer, f gateway.RiskFrontiers, allLabels bool) {
	if len(f.Frontiers) == 0 {
		_, _ = fmt.Fprintln(w, "no audits yet: set speculation.mode of a route to risk or shadow and send requests to it") // the reader may be gone
		return
	}
	for i := range f.Frontiers {
		v := &f.Frontiers[i]
		frontier(w, v, v.InForce || allLabels)
		if last := i+1 == len(f.Frontiers) || f.Frontiers[i+1].Route != v.Route; last {
			howToChoose(w, v)
			for _, d := range f.Disagreements {
				if d.Route == v.Route && len(d.Examples) > 0 {
					WriteLine(w, 2, disagreementText(d))
				}
			}
		}
	}
	if f.Omitted > 0 {
		WriteLine(w, 2, Count(f.Omitted, "more kind of request is", "more kinds of request are")+" not shown")
	}
}

// frontier prints one table, or its summary alone.
func frontier(w io.Writer, v *gateway.RiskFrontier, table bool) {
	state := "not in force"
	if v.InForce {
		state = "in force"
	}
	WriteLine(w, 2, fmt.Sprintf("%s, %s, label %s (%s): a draft is right if %s", v.Route, v.TrafficClass, v.Label, state, v.Meaning))
	WriteLine(w, 4, "  "+v.Summary)
	if !v.Known || !table {
		return
	}
	t := Table{Indent: 2, MaxWidth: 32}
	t.Add("MAX WRONG", "DRAFTS SERVED", "WRONG OF THESE", savedTitle(v), "CERTIFIED")
	for i := range v.Points {
		p := &v.Points[i]
		rate := Percent(p.MaxWrongRate)
		if p.InForce && v.InForce {
			rate += " now"
		}
		t.Add(rate, rangeText(p.Share, roundPercent), rangeText(p.Wrong, roundPercent), savedText(p), certifiedText(p))
	}
	t.Write(w)
}

// howToChoose says what to type, and what the choice costs.
func howToChoose(w io.Writer, v *gateway.RiskFrontier) {
	WriteLine(w, 2, fmt.Sprintf("To choose 5%%: foregate settings set risk.max_wrong_rate@%s=0.05 (or speculation.mode@%s=risk, if no draft is served yet). "+
		"You may look as often as you like, and choose any line: all ranges of a kind of request hold at once with probability %s. "+
		"The choice costs nothing: the audits so far count for every line.", v.Route, v.Route, Percent(1-v.ErrorProbability)))
	if !v.InForce {
		WriteLine(w, 2, "To choose a label: foregate settings set "+strings.Join(v.Settings, " ")+" for "+v.Label+". Its audits begin anew.")
	}
}

// savedTitle names the column of what is saved.
func savedTitle(v *gateway.RiskFrontier) string {
	if v.Priced {
		return "SAVED PER DAY"
	}
	return "TARGET TOKENS SAVED PER DAY (no prices)"
}

func savedText(p *gateway.FrontierPoint) string {
	switch {
	case p.USD != nil:
		return rangeText(*p.USD, SignedDollars)
	case p.Tokens != nil:
		return rangeText(*p.Tokens, Amount)
	}
	return none
}

// certifiedText is when the drafts would be served.
func certifiedText(p *gateway.FrontierPoint) string {
	switch {
	case p.Audits == nil:
		return "not expected"
	case *p.Audits == 0:
		return "by these audits"
	}
	text := "after " + Count(int(math.Round(*p.Audits)), "more audit", "more audits")
	if p.Seconds != nil {
		text += " (" + Duration(*p.Seconds) + ")"
	}
	if p.Certified {
		text += ", a part of it now"
	}
	return text
}

// roundPercent formats a share with one decimal at most.
func roundPercent(share float64) string { return OneDecimal(100*share) + "%" }

func rangeText(r gateway.FrontierRange, format func(float64) string) string {
	return fmt.Sprintf("%s (%s … %s)", format(r.Estimate), format(r.Low), format(r.High))
}

// disagreementText counts the drafts that two labels call differently, with examples.
func disagreementText(d gateway.LabelDisagreement) string {
	var ids []string
	for _, e := range d.Examples {
		ids = append(ids, e.Request)
	}
	return fmt.Sprintf("wrong by %s and right by %s: %d of %d drafts, for example the requests %s (their receipts: GET /admin/receipts)",
		d.Bad, d.Good, d.Disagree, d.Both, strings.Join(ids, ", "))
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
