package loadtest

import (
	"fmt"
	"html/template"
	"math"
	"time"
)

// colours of cases; more than these are told apart by their dashes.
const colours = 8

// caseClass is the class of a case's line.
func caseClass(i int) string { return fmt.Sprintf("c%d d%d", i%colours, i/colours%3) }

// figure is one picture with its caption.
type figure struct {
	Caption string
	SVG     template.HTML
}

// key is one entry of a legend.
type key struct {
	Class, Text string
	Area        bool // of a bar, not of a line
}

// caseKeys is the legend of plots that have a line for each case.
func caseKeys(cases []measured) []key {
	out := []key{}
	for i, m := range cases {
		out = append(out, key{Class: caseClass(i), Text: m.Name})
	}
	return out
}

// distribution is the picture of one latency of all cases.
func distribution(name string, cases []measured, curve func(m measured) []share) template.HTML {
	lo, hi := math.Inf(1), 0.0
	for _, m := range cases {
		if c := curve(m); len(c) > 0 {
			lo, hi = min(lo, c[0].Ms), max(hi, c[len(c)-1].Ms)
		}
	}
	x := scale{log: true}
	x.lo, x.hi = logRange(lo, hi)
	label := name + ", share of answers that took at most so long"
	for _, m := range cases {
		if c := curve(m); len(c) > 0 {
			label += fmt.Sprintf("; %s: half within %s, 95%% within %s", m.Name, millis.with(within(c, 0.5)), millis.with(within(c, 0.95)))
		}
	}
	p := newPlot(label, x, scale{hi: 1})
	p.axes(name+", logarithmic", "share of answers", duration, percent.with)
	for i, m := range cases {
		points := []point{}
		for _, s := range curve(m) {
			points = append(points, point{x: s.Ms, y: s.Of})
		}
		p.stairs(caseClass(i), m.Name, points)
		for _, q := range []float64{0.5, 0.95, 0.99} {
			if ms := within(curve(m), q); len(points) > 0 {
				p.mark("dot c"+fmt.Sprint(i%colours), dot, point{x: ms, y: q}, fmt.Sprintf("%s: %.0f%% within %s", m.Name, 100*q, millis.with(ms)))
			}
		}
	}
	if hi == 0 {
		p.say("no answers")
	}
	return p.end()
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

// duration prints milliseconds in the unit that is shortest.
func duration(ms float64) string {
	switch {
	case ms >= 3_600_000:
		return trimmed(ms/3_600_000) + " h"
	case ms >= 60_000:
		return trimmed(ms/60_000) + " min"
	case ms >= 1000:
		return trimmed(ms/1000) + " s"
	case ms >= 1:
		return trimmed(ms) + " ms"
	}
	return trimmed(ms*1000) + " µs"
}

// trimmed prints a number with at most three digits behind the point.
func trimmed(v float64) string { return fmt.Sprint(math.Round(v*1000) / 1000) }

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

func (c clock) scale() scale { return scale{hi: c.of(c.end)} }

// span names a part of the run.
func (c clock) span(from, to time.Duration) string {
	return fmt.Sprintf("%s–%s %s", trimmed(c.of(from)), trimmed(c.of(to)), c.name)
}

// begin draws the axes of a plot over time, and the warm-up.
func (c clock) begin(m measured, label string, y scale, name string, tick func(float64) string) *plot {
	p := newPlot(label, c.scale(), y)
	p.shade("warm", 0, c.of(m.Warmup), "warm-up, not counted")
	p.axes("time, "+c.name, name, trimmed, tick)
	return p
}

// throughput is the picture of what came in and what became of it.
func (c clock) throughput(m measured, top float64) template.HTML {
	label := fmt.Sprintf("%s: requests per second over time; on average %s answered, in all %s shed and %s errors",
		m.Name, plain.text(m.RequestsPerSecond), whole(float64(m.Shed)), whole(float64(m.Errors)))
	p := c.begin(m, label, scale{hi: top}, "requests per second", trimmed)
	for _, l := range []struct {
		class, name string
		total       int
		of          func(in instant) float64
	}{
		{"offered", "offered", m.Requests, func(in instant) float64 { return in.Arrived }},
		{"answered", "answered", m.Answered, func(in instant) float64 { return in.Answered }},
		{"shed", "shed", m.Shed, func(in instant) float64 { return in.Shed }},
		{"errors", "errors", m.Errors, func(in instant) float64 { return in.Errors }},
	} {
		if l.total == 0 {
			continue
		}
		points := []point{}
		for _, in := range m.Course {
			points = append(points, point{x: c.of(in.From+in.To) / 2, y: l.of(in)})
		}
		p.line(l.class, l.name, points)
	}
	for _, in := range m.Course {
		p.hover(c.of(in.From), c.of(in.To), fmt.Sprintf("%s, per second: %s offered, %s answered, %s shed, %s errors, %s tokens",
			c.span(in.From, in.To), plain.text(in.Arrived), plain.text(in.Answered), plain.text(in.Shed), plain.text(in.Errors), plain.text(in.Tokens)))
	}
	if len(m.Course) == 0 {
		p.say("no requests")
	}
	return p.end()
}

// ttft is the picture of the first token's time over the run.
func (c clock) ttft(m measured, lo, hi float64) template.HTML {
	label := fmt.Sprintf("%s: time to first token over time; of the whole run median %s, 95th percentile %s", m.Name, millis.with(m.TTFT50), millis.with(m.TTFT95))
	p := c.begin(m, label, scale{lo: lo, hi: hi, log: true}, "TTFT, logarithmic", duration)
	median, high, gap := []point{}, []point{}, true
	for _, in := range m.Course {
		if in.Timed == 0 {
			gap = true
			continue
		}
		x := c.of(in.From+in.To) / 2
		median = append(median, point{x, in.TTFT50, gap})
		high = append(high, point{x, in.TTFT95, gap})
		gap = false
	}
	p.line("p95", "p95", high)
	p.line("p50", "p50", median)
	for _, in := range m.Course {
		if in.Timed > 0 {
			p.hover(c.of(in.From), c.of(in.To), fmt.Sprintf("%s: p50 %s, p95 %s of %s answers", c.span(in.From, in.To), millis.with(in.TTFT50), millis.with(in.TTFT95), whole(float64(in.Timed))))
		}
	}
	if len(median) == 0 {
		p.say("no answers")
	}
	return p.end()
}

// overTime are the two sections of what clients saw over the run, on one scale
// for all cases.
func (c clock) overTime(cases []measured) (flow, first []figure) {
	top, lo, hi := 0.0, math.Inf(1), 0.0
	for _, m := range cases {
		for _, in := range m.Course {
			top = max(top, in.Arrived, in.Answered, in.Shed, in.Errors)
			if in.Timed > 0 {
				lo, hi = min(lo, in.TTFT50), max(hi, in.TTFT95)
			}
		}
	}
	top = upTo(top)
	lo, hi = logRange(lo, hi)
	for _, m := range cases {
		flow = append(flow, figure{m.Name, c.throughput(m, top)})
		first = append(first, figure{m.Name, c.ttft(m, lo, hi)})
	}
	return flow, first
}
