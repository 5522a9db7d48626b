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
