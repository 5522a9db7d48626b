package app

import (
	"slices"
	"strings"
	"testing"

	"github.com/foregate/foregate/gateway/config"
)

func TestAModelThatNoRouteHasIsAWarningAndNoMistake(t *testing.T) {
	f, err := config.Parse("f", []byte(`pools: {p: {model: m, backends: ['http://h']}}
routes: [{model: llama-3, target: p}, {model: code-a, target: p}]
identity: {mode: trusted_headers, trusted_proxies: [10.0.0.0/8], unlisted_tenants: default, default_tenant: {models: [gone-*]}}
tenants: [{id: acme, models: [llama-3, "code-*", "llama-4"]}, {id: beta, models: ["*"]}, {id: gamma}]
`))
	if err != nil {
		t.Fatal(err)
	}
	found, err := Check(f)
	if err != nil {
		t.Fatal(err)
	}
	got := slices.DeleteFunc(found.Warnings, func(w string) bool { return !strings.Contains(w, "of its models") })
	want := []string{"tenant acme: no route has the model llama-4 of its models", "identity.default_tenant: no route has the model gone-* of its models"}
	if !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestBudgetsThatCannotBeEnforcedAreWarnings(t *testing.T) {
	f, err := config.Parse("f", []byte(`pools:
  free: {model: m, backends: ['http://h']}
  paid: {model: m, backends: ['http://i'], usd_per_hour: 4}
routes: [{model: llama-3, draft: free, target: paid}, {model: llama-4, target: paid}]
identity: {mode: trusted_headers, trusted_proxies: [10.0.0.0/8]}
tenants: [{id: acme, budgets: [{usd: 5, per: day}]}, {id: beta, budgets: [{tokens: 2e6, per: month}]}, {id: gamma}]
`))
	if err != nil {
		t.Fatal(err)
	}
	found, err := Check(f)
	if err != nil {
		t.Fatal(err)
	}
	got := slices.DeleteFunc(found.Warnings, func(w string) bool { return !strings.Contains(w, "budgets of") && !strings.Contains(w, "budgets in") })
	want := []string{
		"the budgets in USD of acme are not enforced for requests to pools.free, which has no usd_per_hour: they are charged nothing; set usd_per_hour",
		"redis.url is none: the budgets of acme and beta begin anew whenever this process starts, and every replica counts its own",
	}
	if !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}
