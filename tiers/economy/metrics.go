package economy

import (
	"math"

	"github.com/prometheus/client_golang/prometheus"
)

// Route is a route of a [Collector].
type Route struct {
	Name   string
	Prices func() Prices // as now in force
	Shape  func() Shape  // of a usual request; its prompt is replaced by the mean that was learned, where one was
}

// Collector makes series of a [Statistics] when it is asked for them: of each route given, and
// of none that is learned besides, so their number is bounded by the configuration.
type Collector struct {
	statistics *Statistics
	routes     func() []Route
	breakEven  *prometheus.Desc
	expected   *prometheus.Desc
}

// NewCollector returns a collector that is still to be registered. The routes, and their Prices and Shape, are called at
// every scrape.
func NewCollector(book *Statistics, routes func() []Route) *Collector {
	return &Collector{
		statistics: book, routes: routes,
		breakEven: prometheus.NewDesc("foregate_break_even_acceptance",
			"Share of drafts that must be served for drafts to pay, for the route's mean request; above 1 they never do. Absent while prices are unknown.", []string{"route"}, nil),
		expected: prometheus.NewDesc("foregate_expected_acceptance",
			"Share of the late drafts that were served, by the length of the prompt.", []string{"route", "prompt"}, nil),
	}
}

// Describe implements [prometheus.Collector].
func (c *Collector) Describe(to chan<- *prometheus.Desc) {
	to <- c.breakEven
	to <- c.expected
}

// Collect implements [prometheus.Collector].
func (c *Collector) Collect(to chan<- prometheus.Metric) {
	for _, r := range c.routes() {
		var all [lengths]totals
		var of totals
		c.statistics.Each(func(b TrafficClass, e Expectation) {
			if b.Route == r.Name {
				all[b.Prompt].add(e)
				of.add(e)
			}
		})
		for l, s := range all {
			if s.drafts > 0 {
				to <- prometheus.MustNewConstMetric(c.expected, prometheus.GaugeValue, s.served/s.drafts, r.Name, Length(l).String())
			}
		}
		if p := r.Prices(); p.Complete() {
			to <- prometheus.MustNewConstMetric(c.breakEven, prometheus.GaugeValue, of.breakEven(p, r.Shape()), r.Name)
		}
	}
}

// totals sums traffic classes, weighted by their numbers of drafts.
type totals struct {
	drafts, served                     float64
	prompt, output, holdback, salvaged float64
}

func (t *totals) add(e Expectation) {
	t.drafts += e.Samples
	t.served += e.Samples * e.Acceptance
	t.prompt += e.Samples * e.Prompt
	t.output += e.Samples * e.Output
	lost := e.Samples * (1 - e.Acceptance)
	t.holdback += lost * e.Holdback
	t.salvaged += lost * e.Holdback * e.Salvaged
}

// breakEven is that of the mean request.
func (t *totals) breakEven(p Prices, shape Shape) float64 {
	if t.drafts == 0 {
		return BreakEven(p, shape, outputDefault)
	}
	e := Expectation{Samples: t.drafts, Output: t.output / t.drafts}
	if lost := t.drafts - t.served; lost > 0 && t.holdback > 0 {
		e.Holdback, e.Salvaged = t.holdback/lost, t.salvaged/t.holdback
	}
	if t.prompt > 0 {
		shape.Prompt = int(math.Round(t.prompt / t.drafts))
	}
	shape.MaxOutput = 0
	return breakEven(p, termsOf(shape, e), shape.Scored)
}
