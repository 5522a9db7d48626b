package main

import (
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/prometheus/client_golang/prometheus/testutil/promlint"
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
	m := descText.FindStringSubmatch(noted.descs[0])
	values := slices.Repeat([]string{"x"}, len(strings.FieldsFunc(m[4], func(r rune) bool { return r == ',' })))
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

// lintPage reports what the lint of client_golang, and promtool where it is in PATH, say of a /metrics.
func lintPage(t *testing.T, page string) {
	t.Helper()
	problems, err := promlint.New(strings.NewReader(page)).Lint()
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range problems {
		t.Errorf("%s: %s", p.Metric, p.Text)
	}
	tool, err := exec.LookPath("promtool")
	if err != nil {
		return
	}
	cmd := exec.CommandContext(t.Context(), tool, "check", "metrics")
	cmd.Stdin = strings.NewReader(page)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("promtool check metrics: %v\n%s", err, out)
	}
}
