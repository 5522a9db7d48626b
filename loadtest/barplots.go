package loadtest

import (
	"cmp"
	"fmt"
	"slices"
)

// costs are the pictures of what the cases cost.
func costs(cases []measured) []figure {
	total, perMillion := []bar{}, []bar{}
	top, topPer := 0.0, 0.0
	label, labelPer := "Cost of the busy time by tier", "Cost per million tokens of answers"
	for i, m := range cases {
		sum := m.DraftUSD + m.TargetUSD
		top, topPer = max(top, sum), max(topPer, m.USDPerMTok)
		title := fmt.Sprintf("%s: %s draft, %s target", m.Name, dollars.with(m.DraftUSD), dollars.with(m.TargetUSD))
		label += "; " + title
		total = append(total, bar{m.Name, dollars.with(sum), title, []part{{"draft", m.DraftUSD}, {"target", m.TargetUSD}}})
		per := dollars.with(m.USDPerMTok)
		if delivered(m) == 0 {
			per = "no tokens"
		}
		labelPer += "; " + m.Name + ": " + per
		perMillion = append(perMillion, bar{m.Name, per, m.Name + ": " + per, []part{{caseClass(i), m.USDPerMTok}}})
	}
	return []figure{
		{"Busy time, by tier", bars(label, upTo(top), dollars, total)},
		{"Per million tokens of answers", bars(labelPer, upTo(topPer), dollars, perMillion)},
	}
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
			top, label, rows := 0.0, x.name, []bar{}
			for i, m := range cases {
				text := x.text(m)
				if text != "–" {
					text += "%"
				}
				top = max(top, x.of(m))
				label += "; " + m.Name + ": " + text
				rows = append(rows, bar{m.Name, text, m.Name + ": " + text, []part{{caseClass(i), x.of(m)}}})
			}
			if top = upTo(top); top > 0.1 {
				top = 1
			}
			out = append(out, figure{x.name, bars(label, top, percent, rows)})
		}
	}
	return out
}

// failures are the pictures of what was not answered and why, on one scale.
// There are none if all was answered.
func failures(cases []measured) []figure {
	const most = 12
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
	details = details[:min(len(details), most)]
	top, out := 0.0, []figure{}
	for _, m := range cases {
		for _, d := range m.Details {
			top = max(top, float64(d.N))
		}
	}
	for _, m := range cases {
		here, label, rows := map[string]int{}, m.Name+", requests that were not answered", []bar{}
		for _, d := range m.Details {
			here[d.Name] = d.N
		}
		for _, d := range details {
			class := "errors"
			if d.Name == Shed || len(d.Name) > len(Shed) && d.Name[:len(Shed)+1] == Shed+":" {
				class = "shed"
			}
			n := float64(here[d.Name])
			title := fmt.Sprintf("%s: %s, %s of the requests", d.Name, whole(n), percent.with(ratio(n, float64(m.Requests))))
			label += "; " + d.Name + ": " + whole(n)
			rows = append(rows, bar{d.Name, whole(n), title, []part{{class, n}}})
		}
		out = append(out, figure{cmp.Or(m.Name, "–"), bars(label, max(upTo(top), 4), counted, rows)})
	}
	return out
}
