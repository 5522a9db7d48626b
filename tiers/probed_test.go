package tiers

import (
	"context"
	"testing"
	"time"

	"github.com/foregate/foregate/loadtest/vllmsim"
	"github.com/foregate/foregate/tiers/plan"
	"github.com/foregate/foregate/tiers/pool"
	"github.com/foregate/foregate/tiers/probe"
	"github.com/foregate/foregate/tiers/upstream"
)

// probedRig is a rig whose engines were asked what they can do.
func probedRig(t *testing.T, draft, target vllmsim.Options) *rig {
	t.Helper()
	r := &rig{t: t, cfg: testConfig()}
	r.cfg.MaxConcurrentScores, r.cfg.Timeouts.TargetFirstToken = 4, 200*time.Second
	draft.Model, target.Model = "small", "big"
	draft.TimeScale, target.TimeScale = testScale, testScale
	if target.Profile == "" {
		target.Profile = "h100-70b-tp4"
	}
	target.Seed = draft.Seed
	r.draft, r.target = vllmsim.Start(t, draft), vllmsim.Start(t, target)
	r.wire(t, r.target.URL())
	return r
}

// wire makes the rig's cascade, with a probe of its pools.
func (r *rig) wire(t *testing.T, targets ...string) {
	t.Helper()
	drafts, pool := testPool(t, "drafts", "small", r.draft.URL()), testPool(t, "targets", "big", targets...)
	prober := probed(t, drafts, pool)
	rt := Route{Model: "m", Draft: drafts, Target: pool, SameTokenizer: true, Config: func() plan.Config { return r.cfg }}
	o := testOptions(t)
	o.Routes, o.Capabilities = []Route{rt}, prober.Capabilities
	r.cascade = New(o)
}

// probed probes pools until their cards are known.
func probed(t *testing.T, pools ...*pool.Pool) *probe.Prober {
	t.Helper()
	client := upstream.New(upstream.Options{})
	defer client.Close()
	o := probe.Options{Upstream: client, Mine: func(string, string) bool { return true }, Ready: func() bool { return true }}
	for _, p := range pools {
		o.Pools = append(o.Pools, probe.Pool{Name: p.Name(), Model: p.Model(), Backends: func() (out []probe.Backend) {
			for _, b := range p.Snapshot() {
				out = append(out, probe.Backend{ID: b.ID, URL: b.URL, Up: b.State != pool.StateDown, Life: 1})
			}
			return out
		}, Credentials: p.Credentials, Ended: func(string, error) {}, Scores: func() bool { return true }})
	}
	prober, err := probe.New(o)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = prober.Run(ctx)
	}()
	for _, p := range pools {
		eventually(t, "the probe of "+p.Name(), func() bool { return prober.Capabilities(p.Name()).Complete() })
	}
	cancel()
	<-done
	return prober
}
