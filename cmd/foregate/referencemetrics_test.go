package main

import (
	"context"
	"io"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/rs/zerolog"

	"github.com/foregate/foregate/gateway/app"
	"github.com/foregate/foregate/gateway/config"
)

// metricDoc is a metric that a replica registers.
type metricDoc struct {
	Name, Help  string
	ConstLabels []string // names of labels with one value
	Labels      []string // names of the other labels
}

// registeredMetrics returns the metrics of a replica with all features configured, by name.
func registeredMetrics(ctx context.Context) ([]metricDoc, error) {
	var reg descRegisterer
	if err := registerAll(ctx, &reg); err != nil {
		return nil, err
	}
	var all []metricDoc
	for _, d := range reg.descs {
		if m, ok := parseDesc(d); ok {
			all = append(all, m)
		}
	}
	slices.SortFunc(all, func(a, b metricDoc) int { return strings.Compare(a.Name, b.Name) })
	return all, nil
}

// parseDesc parses a Desc's printed form.
func parseDesc(text string) (metricDoc, bool) {
	m := descText.FindStringSubmatch(text)
	if m == nil {
		return metricDoc{}, false
	}
	split := func(names string) []string { return strings.FieldsFunc(names, func(r rune) bool { return r == ',' }) }
	return metricDoc{Name: m[1], Help: m[2], ConstLabels: split(constLabel.ReplaceAllString(m[3], "$1")), Labels: split(m[4])}, true
}

// descRegisterer records registered descriptions.
type descRegisterer struct{ descs []string }

func (r *descRegisterer) Register(c prometheus.Collector) error {
	ch := make(chan *prometheus.Desc)
	go func() {
		defer close(ch)
		c.Describe(ch)
	}()
	for d := range ch {
		r.descs = append(r.descs, d.String())
	}
	return nil
}

func (r *descRegisterer) MustRegister(cs ...prometheus.Collector) {
	for _, c := range cs {
		_ = r.Register(c) // cannot fail
	}
}

func (r *descRegisterer) Unregister(prometheus.Collector) bool { return true }

// descText matches a Desc's printed form; client_golang has no accessors.
var descText = regexp.MustCompile(`fqName: "([^"]+)", help: "((?:[^"\\]|\\.)*)".*constLabels: \{([^}]*)\}, variableLabels: \{([^}]*)\}`)

// constLabel matches a constant label in a Desc.
var constLabel = regexp.MustCompile(`(\w+)="(?:[^"\\]|\\.)*"`)

// registerAll assembles a replica that never runs, only to register all its metrics with reg.
func registerAll(ctx context.Context, reg prometheus.Registerer) error {
	file, err := config.Parse("reference", []byte(`
listen: 127.0.0.1:0
pools: {d: {model: d, backends: ["http://127.0.0.1:1"]}, t: {model: t, backends: ["http://127.0.0.1:2"]}}
routes: [{model: m, draft: d, target: t}]
tracing: {otlp: "http://127.0.0.1:3"}
`))
	if err != nil {
		return err
	}
	_, stopLog := app.NewLogWriter(io.Discard, reg)
	defer stopLog()
	_, err = app.New(ctx, app.Options{File: file, Logger: zerolog.Nop(), Registerer: reg})
	return err
}

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
