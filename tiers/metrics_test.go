package tiers

import (
	"fmt"
	"testing"

	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/foregate/foregate/loadtest/vllmsim"
	"github.com/foregate/foregate/tiers/economy"
	"github.com/foregate/foregate/tiers/openai"
	"github.com/foregate/foregate/tiers/plan"
)

func TestAuditsAreCountedInDollarsOnlyWherePricesAreKnown(t *testing.T) {
	for what, prices := range map[string]func() economy.Prices{
		"unknown": nil,
		"known": func() economy.Prices {
			return economy.Prices{DraftPrefill: 1e-8, DraftDecode: 1e-7, TargetPrefill: 1e-6, TargetDecode: 2e-6}
		},
	} {
		r, n := auditedRigAtRest(t, vllmsim.Options{Seed: 7, Divergence: 0.1}, vllmsim.Options{})
		routeOf(r.cascade).Prices = prices
		n.grid = everything
		r.run(t)
		for i := range 3 {
			if _, _, err := r.ask(openai.Chat, plan.Auto, chat(fmt.Sprint("question ", i), `,"max_tokens":20`)); err != nil {
				t.Fatal(err)
			}
			r.rests(t)
		}
		tokens := testutil.ToFloat64(r.cascade.metrics.auditTokens.WithLabelValues("m"))
		usd := testutil.ToFloat64(r.cascade.metrics.auditUSD.WithLabelValues("m"))
		if tokens == 0 || (usd > 0) != (prices != nil) || usd > 1e-5*tokens {
			t.Errorf("prices are %s: %v dollars for %v tokens", what, usd, tokens)
		}
	}
}
