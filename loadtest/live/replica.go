package live

import (
	"context"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/foregate/foregate/loadtest"
	"github.com/foregate/foregate/loadtest/chaos"
	"github.com/foregate/foregate/loadtest/vllmsim"
)

// routeModel is the model that the load asks for.
const routeModel = "lab"

// configure is the configuration of a replica over these pools, but for its listeners.
func configure(pools []*pool, redis string) map[string]any {
	all := map[string]any{}
	route := map[string]any{"model": routeModel, "target": tierTarget, "same_tokenizer": true}
	for _, p := range pools {
		one := map[string]any{"model": p.spec.Model, "usd_per_hour": p.spec.USDPerHour, "scheduler": p.spec.Policy}
		if prefill, decode := rates(p.spec); decode > 0 {
			one["prefill_tokens_per_s"], one["decode_tokens_per_s"] = prefill, decode
		}
		var urls []string
		for _, b := range p.backends {
			urls = append(urls, b.sim.URL())
		}
		one["backends"], all[p.tier] = urls, one
		if p.tier == tierDraft {
			route["draft"] = tierDraft
		}
	}
	return map[string]any{
		"redis": map[string]string{"url": redis}, "pools": all, "routes": []any{route},
		// The client is on the loopback, and speaks for every tenant.
		"identity": map[string]any{"mode": "trusted_headers", "trusted_proxies": []string{"127.0.0.0/8", "::1/128"},
			"unlisted_tenants": "default", "default_tenant": map[string]string{"max_priority": "high"}},
		// The case decides what is refused, not the size of the gateway.
		"limits": map[string]any{"body_bytes": 64 << 20, "response_bytes": 64 << 20, "in_flight": 1_000_000},
		"drain":  map[string]string{"delay": "0s", "grace": "5s"},
	}
}

// rates are what the profile of a pool makes, by which the gateway reckons what a token
// costs: the same as in virtual time.
func rates(spec *loadtest.Pool) (prefill, decode float64) {
	profile, err := vllmsim.ProfileByName(spec.Profile)
	if err != nil {
		return 0, 0 // it is refused where the simulators start
	}
	if spec.MaxSeqs > 0 {
		profile.MaxSeqs = spec.MaxSeqs
	}
	return profile.Rates(vllmsim.UsualSequences)
}

// startReplica starts number i and waits until it is ready.
func (s *system) startReplica(ctx context.Context, i int) (*chaos.Gateway, error) {
	o := chaos.Options{Gateway: s.opts.Gateway, Args: []string{"--log-level", "warn"}}
	g, err := chaos.NewGateway(&o, s.dir, i, configure(s.pools, s.redisURL))
	if err != nil {
		return nil, err
	}
	err = g.Start(ctx)
	if p := g.Process(); err != nil && p != nil {
		_ = p.Stop() // what counts is that it did not serve
	}
	return g, err
}

// rejected matches a setting that the gateway refuses or ignores, on its metrics page.
var rejected = regexp.MustCompile(`(?m)^foregate_settings_(?:rejected|unknown)\{name="([^"]*)"\} 1$`)

// obeys complains of settings that the replica does not follow: the run would
// measure something else than its case says.
func obeys(ctx context.Context, g *chaos.Gateway) error {
	page, err := g.Page(ctx, "/metrics")
	if err != nil {
		return fmt.Errorf("gateway %d: %w", g.Number, err)
	}
	var names []string
	for _, m := range rejected.FindAllStringSubmatch(page, -1) {
		names = append(names, m[1])
	}
	if len(names) == 0 {
		return nil
	}
	slices.Sort(names)
	return fmt.Errorf("gateway %d refuses the case's settings %s; foregate says what they may be in docs/reference.md",
		g.Number, strings.Join(names, ", "))
}
