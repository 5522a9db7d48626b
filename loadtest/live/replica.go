package live

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/foregate/foregate/loadtest"
	"github.com/foregate/foregate/loadtest/process"
	"github.com/foregate/foregate/loadtest/vllmsim"
)

// routeModel is the model that the load asks for.
const routeModel = "lab"

// replica is one process of the gateway.
type replica struct {
	*process.Process
	base, admin string // URLs of its two listeners
}

// file is the gateway's configuration. It is written as JSON, which is YAML.
type file struct {
	Listen   string              `json:"listen"`
	Admin    string              `json:"admin"`
	Redis    map[string]string   `json:"redis"`
	Identity map[string]any      `json:"identity"`
	Pools    map[string]filePool `json:"pools"`
	Routes   []fileRoute         `json:"routes"`
	Limits   map[string]any      `json:"limits"`
	Drain    map[string]string   `json:"drain"`
}

type filePool struct {
	Model      string   `json:"model"`
	USDPerHour float64  `json:"usd_per_hour"`
	Scheduler  string   `json:"scheduler"`
	Backends   []string `json:"backends"`

	PrefillPerSecond float64 `json:"prefill_tokens_per_s,omitempty"`
	DecodePerSecond  float64 `json:"decode_tokens_per_s,omitempty"`
}

type fileRoute struct {
	Model         string `json:"model"`
	Draft         string `json:"draft,omitempty"`
	Target        string `json:"target"`
	SameTokenizer bool   `json:"same_tokenizer"`
}

// configure is the configuration of a replica over these pools.
func configure(pools []*pool, redis, listen, admin string) *file {
	f := &file{
		Listen: listen, Admin: admin, Redis: map[string]string{"url": redis},
		// The client is on the loopback, and speaks for every tenant.
		Identity: map[string]any{"mode": "trusted_headers", "trusted_proxies": []string{"127.0.0.0/8", "::1/128"},
			"unlisted_tenants": "default", "default_tenant": map[string]string{"max_priority": "high"}},
		Pools: map[string]filePool{},
		// The case decides what is refused, not the size of the gateway.
		Limits: map[string]any{"body_bytes": 64 << 20, "response_bytes": 64 << 20, "in_flight": 1_000_000},
		Drain:  map[string]string{"delay": "0s", "grace": "5s"},
	}
	route := fileRoute{Model: routeModel, Target: tierTarget, SameTokenizer: true}
	for _, p := range pools {
		def := filePool{Model: p.spec.Model, USDPerHour: p.spec.USDPerHour, Scheduler: p.spec.Policy}
		def.PrefillPerSecond, def.DecodePerSecond = rates(p.spec)
		for _, b := range p.backends {
			def.Backends = append(def.Backends, b.sim.URL())
		}
		f.Pools[p.tier] = def
		if p.tier == tierDraft {
			route.Draft = tierDraft
		}
	}
	f.Routes = []fileRoute{route}
	return f
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
func (s *system) startReplica(ctx context.Context, i int) (*replica, error) {
	for range portTries {
		r, err := s.tryReplica(ctx, i)
		if err == nil {
			err = r.Serves(ctx, func() bool { return r.ready(ctx) })
		}
		if err == nil {
			return r, nil
		}
		if r == nil {
			return nil, err
		}
		_ = r.Stop() // what counts is that it did not serve
		if !r.LostPort() {
			return nil, err
		}
	}
	return nil, fmt.Errorf("gateway %d found no free ports in %d tries", i, portTries)
}

// tryReplica starts number i on ports that are free now.
func (s *system) tryReplica(ctx context.Context, i int) (*replica, error) {
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	addrs, err := process.FreeAddrs(2)
	if err != nil {
		return nil, err
	}
	text, err := json.Marshal(configure(s.pools, s.redisURL, addrs[0], addrs[1]))
	if err != nil {
		return nil, err
	}
	path := filepath.Join(s.dir, fmt.Sprintf("foregate-%d.yaml", i))
	if err := os.WriteFile(path, text, 0o600); err != nil { // a Redis URL may hold a password
		return nil, err
	}
	p, err := process.Start(process.Command{
		Name: fmt.Sprintf("gateway %d", i), Path: s.opts.Foregate, Args: []string{"serve", "-c", path, "--log-level", "warn"},
	})
	if errors.Is(err, os.ErrNotExist) {
		return nil, fmt.Errorf("there is no gateway at %s: run make build, or use --foregate PATH", s.opts.Foregate)
	}
	if err != nil {
		return nil, err
	}
	return &replica{Process: p, base: "http://" + addrs[0], admin: "http://" + addrs[1]}, nil
}

// ready reports whether the replica can serve its route.
func (r *replica) ready(ctx context.Context) bool {
	_, err := process.Fetch(ctx, r.base+"/readyz")
	return err == nil
}

// rejected matches a setting that the gateway refuses or ignores, on its metrics page.
var rejected = regexp.MustCompile(`(?m)^foregate_settings_(?:rejected|unknown)\{name="([^"]*)"\} 1$`)

// obeys complains of settings that the replica does not follow: the run would
// measure something else than its case says.
func (r *replica) obeys(ctx context.Context) error {
	page, err := process.Fetch(ctx, r.admin+"/metrics")
	if err != nil {
		return fmt.Errorf("%s: %w", r.Name, err)
	}
	var names []string
	for _, m := range rejected.FindAllStringSubmatch(page, -1) {
		names = append(names, m[1])
	}
	if len(names) == 0 {
		return nil
	}
	slices.Sort(names)
	return fmt.Errorf("%s refuses the case's settings %s; foregate says what they may be in docs/reference.md",
		r.Name, strings.Join(names, ", "))
}
