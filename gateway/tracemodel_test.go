package gateway

import (
	"testing"

	"github.com/foregate/foregate/gateway/receipts"
	"github.com/foregate/foregate/tiers"
	"github.com/foregate/foregate/tiers/dispatch"
	"github.com/foregate/foregate/tiers/plan"
	"github.com/foregate/foregate/tiers/pool"
)

func TestTheModelIsThatOfThePoolThatWroteTheAnswer(t *testing.T) {
	named := func(name string) *pool.Pool {
		p, err := pool.New(pool.Options{Name: name, Model: name + "-model", Backends: []string{"http://127.0.0.1:1"}})
		if err != nil {
			t.Fatal(err)
		}
		return p
	}
	rt := &tiers.Route{Draft: named("small"), Target: named("large"), Fallbacks: []tiers.Fallback{{Pool: named("first")}, {Pool: named("second")}}}
	straight := &tiers.Route{Target: rt.Target}
	calls := func(pools ...string) *tiers.Receipt {
		rc := &tiers.Receipt{}
		for _, p := range pools {
			rc.Tries = append(rc.Tries, dispatch.Try{Pool: p})
		}
		return rc
	}
	for _, c := range []struct {
		route   *tiers.Route
		tier    plan.Tier
		receipt *tiers.Receipt // nil: it was cached
		want    string
	}{
		{rt, plan.Draft, calls("small"), "small-model"},
		{rt, plan.Mixed, calls("small", "large"), "large-model"},
		{rt, plan.Target, calls("large"), "large-model"},
		{rt, plan.Fallback, calls("large", "first", "second"), "second-model"},
		{rt, plan.Fallback, calls("large"), ""},
		{rt, plan.Fallback, nil, ""},
		{rt, plan.Draft, nil, "small-model"},
		{rt, plan.Mixed, nil, "large-model"},
		{straight, plan.Draft, nil, ""},
		{rt, "", calls("large"), ""},
		{nil, plan.Target, calls("large"), ""},
	} {
		if got := modelOf(c.route, &receipts.Receipt{Tier: string(c.tier), Cascade: c.receipt}); got != c.want {
			t.Errorf("tier %q, receipt %v: %q, want %q", c.tier, c.receipt, got, c.want)
		}
	}
}
