package probe

import (
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/foregate/foregate/loadtest/vllmsim"
)

func TestMetricsShowEveryPoolWholly(t *testing.T) {
	sim := simulated(t, vllmsim.Options{Seed: 3, Without: []string{"prompt_logprobs"}})
	reg := prometheus.NewPedanticRegistry()
	o := Options{Registerer: reg, Pools: []Pool{askable(Pool{Name: "silent", Backends: func() []Backend { return nil }})}}
	p := start(t, o, backends(Backend{ID: "a", URL: sim.URL(), Up: true}), nil)
	c := until(t, p, "probed", good)
	if problems, err := testutil.GatherAndLint(reg); err != nil || len(problems) > 0 {
		t.Errorf("lint: %v, %v", problems, err)
	}
	if n, err := testutil.GatherAndCount(reg, "foregate_probe_missing"); err != nil || n != 2*len(CapabilityNames) {
		t.Errorf("%d series, %v", n, err)
	}
	families, err := reg.Gather()
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]float64{}
	for _, f := range families {
		for _, m := range f.GetMetric() {
			labels := ""
			for _, l := range m.GetLabel() {
				labels += " " + l.GetValue()
			}
			got[f.GetName()+labels] = m.GetGauge().GetValue()
		}
	}
	for _, what := range CapabilityNames {
		want := 0.0
		if c.MissingReason(what) != "" {
			want = 1
		}
		if v := got["foregate_probe_missing "+what+" p"]; v != want {
			t.Errorf("%s: %v, not %v", what, v, want)
		}
		if got["foregate_probe_missing "+what+" silent"] != 1 {
			t.Errorf("%s of a pool that was not probed is there", what)
		}
	}
	if _, ok := got["foregate_probe_age_seconds p"]; !ok {
		t.Error("no age")
	}
	if c.MissingReason(MissingScoring) == "" {
		t.Error("it scores")
	}
}
