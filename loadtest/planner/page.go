package planner

import (
	"cmp"
	_ "embed"
	"fmt"
	"html/template"
	"slices"
	"strings"
)

//go:embed page.html
var pageHTML string

var pageTemplate = template.Must(template.New("page").Parse(pageHTML))

// The size of a chart's plot.
const (
	plotWidth  = 720
	plotHeight = 160
	rowHeight  = 38 // of a fleet
)

// bar is a rectangle of a chart, with what it tells.
type bar struct {
	X, Y, Width, Height float64
	Text                string
}

// ruler is a place on an axis.
type ruler struct {
	At   float64
	Text string
}

// row is a fleet in the table and in the chart of times.
type row struct {
	*Fleet
	Label, Drafted, Disagreement, Spare string
	Y, P50, P99, Low, High              float64 // of the chart
}

// page is what the template shows.
type page struct {
	*Answer
	SLO           []string
	By            string // of the rates: hour or minute
	Rates         []bar
	RateRulers    []ruler
	Fleets, Other []row
	Times         []ruler
	Width, Height float64
	Below         float64 // of the chart of times
}

// Page is a page of HTML that shows an answer, and loads nothing.
func (a *Answer) Page(slo string) (string, error) {
	p := page{Answer: a, SLO: strings.Split(slo, ","), By: "hour", Width: plotWidth, Height: plotHeight}
	rates := a.Summary.ByHour
	if len(rates) < 2 {
		p.By, rates = "minute", a.Summary.ByMinute
	}
	p.Rates, p.RateRulers = bars(rates, p.By)
	longest := 0.0
	for i := range a.Fleets {
		longest = max(longest, a.Fleets[i].TTFT99.High)
	}
	end, step := scale(longest / 1e3)
	for v := 0.0; v <= end*1.001; v += step {
		p.Times = append(p.Times, ruler{v / end * plotWidth, fmt.Sprintf("%.3g s", v)})
	}
	for _, of := range []struct {
		fleets []Fleet
		to     *[]row
	}{{a.Fleets, &p.Fleets}, {a.Rivals, &p.Other}} {
		for i := range of.fleets {
			*of.to = append(*of.to, rowOf(&of.fleets[i], i, end))
		}
	}
	p.Below = float64(len(p.Fleets)*rowHeight + 8)
	var b strings.Builder
	err := pageTemplate.Execute(&b, &p)
	return b.String(), err
}

// rowOf is a fleet, with its times on an axis that ends at so many seconds.
func rowOf(f *Fleet, i int, end float64) row {
	at := func(ms float64) float64 { return ms / 1e3 / end * plotWidth }
	drafted, disagreement, spare := f.shares()
	return row{f, f.label(), drafted, disagreement, spare, float64(i*rowHeight + 26), at(f.TTFT50.Mean), at(f.TTFT99.Mean), at(f.TTFT99.Low), at(f.TTFT99.High)}
}

// bars are rates over time.
func bars(rates []float64, by string) (all []bar, rulers []ruler) {
	if len(rates) == 0 {
		return nil, nil
	}
	end, step := scale(slices.Max(rates))
	width := plotWidth / float64(len(rates))
	for i, v := range rates {
		height := v / end * plotHeight
		all = append(all, bar{float64(i) * width, plotHeight - height, max(0.5, width-1), height, fmt.Sprintf("%s %d: %.2f requests a second", by, i+1, v)})
	}
	for v := 0.0; v <= end*1.001; v += step {
		rulers = append(rulers, ruler{plotHeight - v/end*plotHeight, fmt.Sprintf("%.3g", v)})
	}
	return all, rulers
}

// scale is a round end of an axis with four or five steps.
func scale(highest float64) (end, step float64) {
	highest = cmp.Or(highest, 1)
	step = 1e-9
	for i := 0; highest > 5*step; i++ {
		step *= [...]float64{2, 2.5, 2}[i%3]
	}
	for end < highest {
		end += step
	}
	return end, step
}

// Seconds words a range of ms.
func (r Range) Seconds() string { return r.text(1e3, 2) }

// Dollars words a range.
func (r Range) Dollars() string { return r.text(1, 2) }
