package tiers

import (
	"fmt"
	"math"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/foregate/foregate/tiers/economy"
	"github.com/foregate/foregate/tiers/openai"
	"github.com/foregate/foregate/tiers/plan"
	"github.com/foregate/foregate/tiers/pool"
)

// Usage is counted from receipts, dashboards show metrics: they cannot disagree.
func TestReceiptsAndMetricsTellTheSameCostAndTheSameSaving(t *testing.T) {
	r := newRig(t, 7, 0.1, true)
	priced := func(name, model, url string, usd float64) *pool.Pool {
		p, err := pool.New(pool.Options{Name: name, Model: model, Backends: []string{url}, USDPerHour: usd})
		if err != nil {
			t.Fatal(err)
		}
		return p
	}
	o, reg := testOptions(t), prometheus.NewRegistry()
	o.Registerer, o.Routes = reg, []Route{{
		Model: "m", Draft: priced("drafts", "small", r.draft.URL(), 1), Target: priced("targets", "big", r.target.URL(), 20), SameTokenizer: true,
		Config: func() plan.Config { return r.cfg },
		Prices: func() economy.Prices {
			return economy.Prices{DraftPrefill: 1e-8, DraftDecode: 1e-7, TargetPrefill: 1e-6, TargetDecode: 2e-6}
		},
	}}
	r.cascade = New(o)
	var draft, target, alone, spent float64
	for i := range 8 {
		tier := []plan.Tier{plan.Auto, plan.Auto, plan.Target}[i%3]
		_, rc, err := r.ask(openai.Chat, tier, chat(fmt.Sprint("question ", i), `,"max_tokens":20`))
		if err != nil {
			t.Fatal(err)
		}
		draft, target, alone, spent = draft+rc.DraftUSD, target+rc.USD-rc.DraftUSD, alone+rc.TargetAloneUSD, spent+rc.SpentUSD
	}
	m, cost := r.cascade.metrics, seriesOf(t, reg, "foregate_cost_usd_total")
	for name, got := range map[string][2]float64{
		"draft":  {draft, cost["draft"]},
		"target": {target, cost["target"]},
		"alone":  {alone, testutil.ToFloat64(m.alone.WithLabelValues("m"))},
		"saved":  {alone - spent, testutil.ToFloat64(m.saved.WithLabelValues("m"))},
	} {
		if got[0] == 0 || math.Abs(got[0]-got[1]) > 1e-12 {
			t.Errorf("%s: the receipts tell %v USD, the metrics %v", name, got[0], got[1])
		}
	}
}

// seriesOf returns the values of a counter, by its only label.
func seriesOf(t *testing.T, reg *prometheus.Registry, name string) map[string]float64 {
	t.Helper()
	families, err := reg.Gather()
	if err != nil {
		t.Fatal(err)
	}
	values := map[string]float64{}
	for _, f := range families {
		for _, m := range f.Metric {
			if f.GetName() == name {
				values[m.Label[0].GetValue()] = m.GetCounter().GetValue()
			}
		}
	}
	return values
}
