package loadtest

import (
	"fmt"
	"math"
	"time"
)

// colours of cases: c0 … c7 in page.css. A ninth case has the first one's.
const colours = 8

// caseColour is the colour of a case's line.
func caseColour(i int) string { return fmt.Sprint("c", i%colours) }

// figure is one picture with its caption: a chart, or bars.
type figure struct {
	Caption string
	Label   string // what it shows, for who cannot see it
	Chart   *chart
	Bars    []bar
}

// distribution is the picture of one latency of all cases.
func distribution(caption, name string, cases []measured, curve func(m measured) []share) figure {
	c := &chart{X: axis{Name: name, Kind: millisec, Log: true, Min: math.Inf(1)}, Y: axis{Name: "share of answers", Kind: shareAxis, Max: 1}, Stairs: true, None: "no answers"}
	label := name + ", share of answers that took at most so long"
	for i, m := range cases {
		points := curve(m)
		if len(points) == 0 {
			continue
		}
		s := plotLine{Label: m.Name, Colour: caseColour(i)}
		s.add(points[0].Ms*(1-1e-4), 0)
		for _, p := range points {
			s.add(p.Ms, p.Of)
			c.X.Min, c.X.Max = min(c.X.Min, p.Ms), max(c.X.Max, p.Ms)
		}
		c.Series = append(c.Series, s)
		label += fmt.Sprintf("; %s: half within %s, 95%% within %s", m.Name, millis.with(within(points, 0.5)), millis.with(within(points, 0.95)))
	}
	return figure{Caption: caption, Label: label, Chart: c.sound()}
}

// sound is the chart with scales that can be drawn, whatever the numbers.
func (c *chart) sound() *chart {
	for _, a := range []*axis{&c.X, &c.Y} {
		if a.Min, a.Max = finite(a.Min), finite(a.Max); a.Log {
			a.Min = max(a.Min, 1e-3)
		}
		if a.Max <= a.Min {
			a.Max = a.Min + 1
		}
	}
	return c
}

// within is the time that a share q of all was answered in.
func within(curve []share, q float64) float64 {
	for _, s := range curve {
		if s.Of >= q-1e-9 {
			return s.Ms
		}
	}
	return 0
}

// clock is the axis of time that all plots over it share.
type clock struct {
	end  time.Duration
	unit time.Duration
	name string
}

// newClock makes the axis long enough for every case.
func newClock(cases []measured) clock {
	c := clock{end: time.Second}
	for _, m := range cases {
		if n := len(m.Course); n > 0 {
			c.end = max(c.end, m.Course[n-1].To)
		}
		for _, s := range m.result.Samples {
			c.end = max(c.end, s.At)
		}
	}
	switch {
	case c.end <= 2*time.Minute:
		c.unit, c.name = time.Second, "s"
	case c.end <= 3*time.Hour:
		c.unit, c.name = time.Minute, "min"
	case c.end <= 4*24*time.Hour:
		c.unit, c.name = time.Hour, "h"
	default:
		c.unit, c.name = 24*time.Hour, "d"
	}
	return c
}

// of is a time in the axis's unit.
func (c clock) of(t time.Duration) float64 { return float64(t) / float64(c.unit) }

// chart begins a plot over time.
func (c clock) chart(m measured, y axis, none string) *chart {
	return &chart{X: axis{Name: "time, " + c.name, Kind: plainAxis, Max: c.of(c.end)}, Y: y, Warm: c.of(m.Warmup), None: none}
}

// throughput is the picture of what came in and what became of it.
func (c clock) throughput(m measured, y axis) figure {
	out := c.chart(m, y, "no requests")
	for _, l := range []struct {
		name, colour string
		total        int
		of           func(in instant) float64
	}{
		{"offered", "dim", m.Requests, func(in instant) float64 { return in.Arrived }},
		{"answered", "target", m.Answered, func(in instant) float64 { return in.Answered }},
		{"shed", "shed", m.Shed, func(in instant) float64 { return in.Shed }},
		{"errors", "error", m.Errors, func(in instant) float64 { return in.Errors }},
	} {
		if l.total == 0 {
			continue
		}
		s := plotLine{Label: l.name, Colour: l.colour}
		for _, in := range m.Course {
			s.add(c.of(in.From+in.To)/2, l.of(in))
		}
		out.Series = append(out.Series, s)
	}
	return figure{Caption: m.Name, Chart: out.sound(), Label: fmt.Sprintf(
		"%s: requests per second over time; on average %s answered, in all %s shed and %s errors",
		m.Name, plain.text(m.RequestsPerSecond), whole(float64(m.Shed)), whole(float64(m.Errors)))}
}

// ttft is the picture of the first token's time over the run.
func (c clock) ttft(m measured, y axis) figure {
	out := c.chart(m, y, "no answers")
	median, high, timed := plotLine{Label: "p50", Colour: "target"}, plotLine{Label: "p95", Colour: "c2"}, false
	for _, in := range m.Course {
		x := c.of(in.From+in.To) / 2
		if in.Timed == 0 {
			median.gap(x)
			high.gap(x)
			continue
		}
		timed = true
		median.add(x, in.TTFT50)
		high.add(x, in.TTFT95)
	}
	if timed {
		out.Series = []plotLine{high, median}
	}
	return figure{Caption: m.Name, Chart: out.sound(), Label: fmt.Sprintf(
		"%s: time to first token over time; of the whole run median %s, 95th percentile %s", m.Name, millis.with(m.TTFT50), millis.with(m.TTFT95))}
}

// overTime are the two sections of what clients saw over the run, on one scale
// for all cases.
func (c clock) overTime(cases []measured) (flow, first []figure) {
	rates := axis{Name: "requests per second", Kind: plainAxis}
	times := axis{Name: "time to first token", Kind: millisec, Log: true, Min: math.Inf(1)}
	for _, m := range cases {
		for _, in := range m.Course {
			rates.Max = max(rates.Max, in.Arrived, in.Answered, in.Shed, in.Errors)
			if in.Timed > 0 {
				times.Min, times.Max = min(times.Min, in.TTFT50), max(times.Max, in.TTFT95)
			}
		}
	}
	for _, m := range cases {
		flow = append(flow, c.throughput(m, rates))
		first = append(first, c.ttft(m, times))
	}
	return flow, first
}
