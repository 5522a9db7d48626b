package loadtest

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// costs are the pictures of what the cases cost.
func costs(cases []measured) []figure {
	total := figure{Caption: "Busy time, by tier", Label: "Cost of the busy time by tier"}
	perMillion := figure{Caption: "Per million tokens of answers", Label: "Cost per million tokens of answers"}
	top, topPer := 0.0, 0.0
	for _, m := range cases {
		top, topPer = max(top, m.DraftUSD+m.TargetUSD), max(topPer, m.USDPerMTok)
	}
	for i, m := range cases {
		title := fmt.Sprintf("%s: %s draft, %s target", m.Name, dollars.with(m.DraftUSD), dollars.with(m.TargetUSD))
		total.Bars = append(total.Bars, bar{m.Name, dollars.with(m.DraftUSD + m.TargetUSD), title,
			[]part{piece("draft", m.DraftUSD, top), piece("target", m.TargetUSD, top)}})
		per := dollars.with(m.USDPerMTok)
		if delivered(m) == 0 {
			per = "no tokens"
		}
		perMillion.Bars = append(perMillion.Bars, bar{m.Name, per, m.Name + ": " + per, []part{piece(caseColour(i), m.USDPerMTok, topPer)}})
	}
	return []figure{total, perMillion}
}

// goodness are the pictures of how good answers were and where they came from:
// those that any case has something to tell of.
func goodness(cases []measured) []figure {
	out := []figure{}
	for _, s := range metrics(cases) {
		for _, x := range s.metrics {
			if x.unit != percent || x.name == peakName || !slices.ContainsFunc(cases, func(m measured) bool { return x.base == nil || x.base(m) > 0 }) {
				continue
			}
			out = append(out, x.shares(cases))
		}
	}
	return out
}

// shares is the picture of a metric that is a share.
func (x metric) shares(cases []measured) figure {
	f, top := figure{Caption: x.name, Label: x.name}, 0.0
	for _, m := range cases {
		top = max(top, x.of(m))
	}
	if top > 0.1 {
		top = 1
	}
	for i, m := range cases {
		text := x.text(m)
		if text != "–" {
			text += "%"
		}
		f.Bars = append(f.Bars, bar{m.Name, text, m.Name + ": " + text, []part{piece(caseColour(i), x.of(m), top)}})
	}
	return f
}

// failures are the pictures of what was not answered and why, on one scale.
// There are none if all was answered.
func failures(cases []measured) []figure {
	const maxDetails = 12
	totals := counts{}
	for _, m := range cases {
		for _, d := range m.Details {
			totals[d.Name] += d.N
		}
	}
	details := totals.sorted()
	if len(details) == 0 {
		return nil
	}
	details = details[:min(len(details), maxDetails)]
	top, out := 0.0, []figure{}
	for _, m := range cases {
		for _, d := range m.Details {
			top = max(top, float64(d.N))
		}
	}
	for _, m := range cases {
		here, f := map[string]int{}, figure{Caption: cmp.Or(m.Name, "–"), Label: m.Name + ", requests that were not answered"}
		for _, d := range m.Details {
			here[d.Name] = d.N
		}
		for _, d := range details {
			colour := "error"
			if d.Name == Shed || strings.HasPrefix(d.Name, Shed+":") {
				colour = "shed"
			}
			n := float64(here[d.Name])
			title := fmt.Sprintf("%s: %s, %s of the requests", d.Name, whole(n), percent.with(ratio(n, float64(m.Requests))))
			f.Bars = append(f.Bars, bar{d.Name, whole(n), title, []part{piece(colour, n, top)}})
		}
		out = append(out, f)
	}
	return out
}
