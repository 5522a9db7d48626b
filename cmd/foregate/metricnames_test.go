package main

import (
	"slices"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
)

// touchingRegistry is a registry in which every family has a sample, as if all that a replica
// can count had happened once: the lint sees only families that have one.
type touchingRegistry struct{ *prometheus.Registry }

func (r touchingRegistry) Register(c prometheus.Collector) error {
	if err := r.Registry.Register(c); err != nil {
		return err
	}
	var noted descRegisterer
	_ = noted.Register(c) // cannot fail
	m, _ := parseDesc(noted.descs[0])
	values := slices.Repeat([]string{"x"}, len(m.Labels))
	switch v := c.(type) {
	case *prometheus.CounterVec:
		v.WithLabelValues(values...)
	case *prometheus.GaugeVec:
		v.WithLabelValues(values...)
	case *prometheus.HistogramVec:
		v.WithLabelValues(values...)
	case *prometheus.SummaryVec:
		v.WithLabelValues(values...)
	}
	return nil
}

func (r touchingRegistry) MustRegister(cs ...prometheus.Collector) {
	for _, c := range cs {
		if err := r.Register(c); err != nil {
			panic(err)
		}
	}
}

// Collectors that make their series while they are asked have tests of their own, with samples.
func TestEveryMetricThatAReplicaRegistersIsNamedAsPromtoolWants(t *testing.T) {
	reg := touchingRegistry{prometheus.NewRegistry()}
	if err := registerAll(t.Context(), reg); err != nil {
		t.Fatal(err)
	}
	problems, err := testutil.GatherAndLint(reg)
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range problems {
		t.Errorf("%s: %s", p.Metric, p.Text)
	}
}
