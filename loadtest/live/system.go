package live

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/foregate/foregate/loadtest"
	"github.com/foregate/foregate/loadtest/chaos"
	"github.com/foregate/foregate/loadtest/process"
	"github.com/foregate/foregate/loadtest/vllmsim"
)

// routeModel is the model that the load asks for.
const routeModel = "lab"

// system is what a case runs against: everything that was started for it.
type system struct {
	*chaos.Testbed // nil: it runs already
	pools          []*pool
	watchers       sync.WaitGroup
}

// pool is a tier's simulators.
type pool struct {
	tier string // as pools are called in the gateway's configuration
	spec *loadtest.Pool
	sims []*vllmsim.Server
}

// startSystem starts simulators, Redis and replicas. fail is told of children that end by themselves.
func startSystem(ctx context.Context, o Options, fail context.CancelCauseFunc) (s *system, err error) {
	c := o.Case
	specs := map[string]*loadtest.Pool{chaos.TargetPool: &c.Target}
	setup := chaos.Setup{
		Gateways: max(1, c.Replicas), Drafts: -1, Targets: max(1, c.Target.Count), Rate: -1, Settings: map[string]string{"speculation.mode": ""},
		Sim: func(tier string, to *vllmsim.Options) { simulated(&o, tier, specs[tier], to) },
		Config: func(w *chaos.Testbed, _ int, file map[string]any) {
			configure(w, specs, file)
		},
	}
	maps.Copy(setup.Settings, scaled(c.Settings, o.Scenario.TimeScale))
	if c.Draft != nil {
		specs[chaos.DraftPool], setup.Drafts = c.Draft, max(1, c.Draft.Count)
	}
	s = &system{}
	if s.Testbed, err = chaos.StartTestbed(ctx, chaos.Options{Gateway: o.Gateway, Args: []string{"--log-level", "warn"}}, setup); err != nil {
		return nil, err
	}
	if c.Draft != nil {
		s.pools = append(s.pools, &pool{chaos.DraftPool, c.Draft, s.Drafts})
	}
	s.pools = append(s.pools, &pool{chaos.TargetPool, &c.Target, s.Targets})
	s.watch(s.Redis.Servers[0].Process(), fail)
	for _, g := range s.Gateways {
		s.watch(g.Process(), fail)
	}
	for _, g := range s.Gateways {
		if err := obeys(ctx, g); err != nil {
			s.stop()
			return nil, err
		}
	}
	return s, nil
}

// simulated is a backend of a pool: one language, strayed from by the draft.
func simulated(o *Options, tier string, spec *loadtest.Pool, to *vllmsim.Options) {
	*to = vllmsim.Options{
		Model: spec.Model, Profile: spec.Profile, Seed: o.Seed, TimeScale: o.Scenario.TimeScale,
		BlocksOverride: spec.Blocks, MaxNumSeqs: spec.MaxSeqs, MaxBatchedTokens: spec.MaxBatchedTokens,
		Policy: spec.Policy, PromptTokensDetails: true,
	}
	if tier == chaos.DraftPool {
		to.Divergence, to.Blind = spec.Divergence, spec.Blind
	}
}

// configure is the configuration of a replica over these pools, but for its listeners and its Redis.
func configure(w *chaos.Testbed, specs map[string]*loadtest.Pool, file map[string]any) {
	all := map[string]any{}
	route := map[string]any{"model": routeModel, "target": chaos.TargetPool, "same_tokenizer": true}
	for tier, spec := range specs {
		one := map[string]any{"model": spec.Model, "usd_per_hour": spec.USDPerHour, "scheduler": spec.Policy, "backends": w.URLs(tier)}
		if prefill, decode := rates(spec); decode > 0 {
			one["prefill_tokens_per_s"], one["decode_tokens_per_s"] = prefill, decode
		}
		if all[tier] = one; tier == chaos.DraftPool {
			route["draft"] = tier
		}
	}
	delete(file, "tenants")
	file["pools"], file["routes"] = all, []any{route}
	// The client is on the loopback, and speaks for every tenant.
	file["identity"] = map[string]any{
		"mode": "trusted_headers", "trusted_proxies": []string{"127.0.0.0/8", "::1/128"},
		"unlisted_tenants": "default", "default_tenant": map[string]string{"max_priority": "high"},
	}
	// The case decides what is refused, not the size of the gateway.
	file["limits"] = map[string]any{"body_bytes": 64 << 20, "response_bytes": 64 << 20, "in_flight": 1_000_000}
	file["drain"] = map[string]string{"delay": "0s", "grace": "5s"}
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

// obeys complains of settings that the replica does not follow: the run would
// measure something else than its case says.
func obeys(ctx context.Context, g *chaos.Gateway) error {
	m, err := g.Metrics(ctx)
	if err != nil {
		return err
	}
	var names []string
	for _, metric := range []string{"foregate_settings_rejected", "foregate_settings_unknown"} {
		_ = m.Each(metric, func(labels string, v float64) { // there may be none
			if v == 1 {
				names = append(names, strings.TrimSuffix(strings.TrimPrefix(labels, `name="`), `"`))
			}
		})
	}
	if len(names) == 0 {
		return nil
	}
	slices.Sort(names)
	return fmt.Errorf("%s refuses the case's settings %s; foregate says what they may be in docs/reference.md", g.Name, strings.Join(names, ", "))
}

// watch makes the run fail when a child ends by itself.
func (s *system) watch(p *process.Process, fail context.CancelCauseFunc) {
	s.watchers.Go(func() {
		<-p.Exited
		if !p.Stopping() {
			fail(p.Died())
		}
	})
}

// stop ends everything that was started, and waits for it.
func (s *system) stop() {
	_ = s.Stop() // one that must be killed has served all the same
	s.watchers.Wait()
}

// bases are the URLs that the client spreads its requests over.
func (s *system) bases() (urls []string) {
	for _, g := range s.Gateways {
		urls = append(urls, g.Base)
	}
	return urls
}

// targetBase is a --target as the client needs it: people copy base URLs with and
// without the /v1.
func targetBase(url string) string {
	return strings.TrimSuffix(strings.TrimRight(url, "/"), "/v1")
}
