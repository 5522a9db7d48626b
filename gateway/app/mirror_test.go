package app_test

import (
	"fmt"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/foregate/foregate/gateway"
	"github.com/foregate/foregate/gateway/app/apptest"
	"github.com/foregate/foregate/loadtest/vllmsim"
)

// mirrorFile is a configuration of a route with a draft, and what else the route has.
func mirrorFile(draft, target, mirror *vllmsim.Server, route string) string {
	return fmt.Sprintf(`listen: 127.0.0.1:0
admin: 127.0.0.1:0
drain: {delay: 0s, grace: 5s}
pools:
  small: {model: sim/draft, backends: [%q]}
  large: {model: sim/target, backends: [%q]}
  next: {model: sim/next, revision: r2, backends: [%q], usd_per_hour: 4}
routes:
  - {model: llama-3, draft: small, target: large, same_tokenizer: true%s}
`, draft.URL(), target.URL(), mirror.URL(), route)
}

// TestAMirrorsPoolIsKnownLikeATargets adds a mirror, changes its share, makes it a canary, and removes it.
func TestAMirrorsPoolIsKnownLikeATargets(t *testing.T) {
	engine := func(model string) *vllmsim.Server {
		return vllmsim.Start(t, vllmsim.Options{Model: model, Seed: simSeed, TimeScale: simScale})
	}
	small, large, next := engine(simDraft), engine(simTarget), engine("sim/next")
	path := filepath.Join(t.TempDir(), "foregate.yaml")
	rotateFile(t, path, mirrorFile(small, large, next, ""))
	w := &reloadWorld{path: path, Replica: apptest.ServeFile(t, path)}
	w.Ready(t)
	if s := w.Status(t); len(s.Targets) > 0 || wasProbed(s, "next") {
		t.Errorf("without a mirror the status shows %+v", s.Targets)
	}
	w.change(t, mirrorFile(small, large, next, ", mirror: {pool: next, share: 0.02}"), "routes.llama-3: changed")
	apptest.Eventually(t, "the mirror's engine was probed", func() bool { return wasProbed(w.Status(t), "next") })
	want := gateway.TargetsView{Route: "llama-3", Targets: []gateway.TargetView{{Pool: "large", Share: 1}}, Mirror: &gateway.TargetView{Pool: "next", Share: 0.02}}
	s := w.Status(t)
	if got := s.Targets; len(got) != 1 || got[0].Route != want.Route || len(got[0].Targets) != 1 || got[0].Targets[0].Pool != "large" || got[0].Mirror == nil || got[0].Mirror.Pool != want.Mirror.Pool || got[0].Mirror.Share != want.Mirror.Share {
		t.Errorf("the status shows %+v", got)
	}
	if !slices.ContainsFunc(s.Pools, func(p gateway.PoolView) bool {
		return p.Pool == "next" && len(p.Backends) == 1 && p.Backends[0].State == "up"
	}) {
		t.Errorf("the status shows the pools %+v", s.Pools)
	}
	if !slices.ContainsFunc(s.Warnings, func(text string) bool {
		return strings.Contains(text, "pools.large has no usd_per_hour and other targets have one")
	}) {
		t.Errorf("the status warns of %q", s.Warnings)
	}
	if w.Pool("next") == nil || !strings.Contains(w.Metrics(t), `pool="next"`) {
		t.Error("the mirror's pool has no metrics")
	}
	w.change(t, mirrorFile(small, large, next, ", mirror: {pool: next, share: 0.5}"), "routes.llama-3: changed")
	if got := w.Status(t).Targets[0].Mirror.Share; got != 0.5 {
		t.Errorf("the changed share is %g", got)
	}
	canary := strings.Replace(mirrorFile(small, large, next, ", targets: [{pool: large, weight: 1}, {pool: next, weight: 1}]"), "target: large, ", "", 1)
	w.change(t, canary, "routes.llama-3: changed")
	tenant := 0
	apptest.Eventually(t, "the mirror's pool answers as a canary", func() bool {
		tenant++ // another conversation
		body, _ := apptest.Post(t, w.URL+chat, chatBody("llama-3", `"max_tokens":3`), "X-Tier", "target", "X-Tenant-ID", fmt.Sprintf("tenant-%d", tenant))
		return body != "" && next.State().Requests[chat] > 0
	})
	w.change(t, mirrorFile(small, large, next, ""), "routes.llama-3: changed")
	if got := w.Status(t).Targets; len(got) > 0 {
		t.Errorf("after its removal the status shows %+v", got)
	}
}

// probed reports whether the engines of a pool have been probed.
func wasProbed(s gateway.Status, pool string) bool {
	return slices.ContainsFunc(s.Engines, func(e gateway.EngineView) bool { return e.Pool == pool && e.Age >= 0 })
}

// TestAWrongMirrorIsRefusedByAReload keeps the file in force.
func TestAWrongMirrorIsRefusedByAReload(t *testing.T) {
	w := startCanary(t, targets(50, 50), "")
	for mirror, want := range map[string]string{
		"{pool: new, share: 0.5}":     "routes[0].mirror.pool: is a target of the route as well",
		"{pool: old}":                 "routes[0].mirror.share: missing",
		"{pool: nowhere, share: 0.5}": `routes[0].mirror.pool: pool "nowhere" is not defined`,
	} {
		rotateFile(t, w.path, w.file(targets(50, 50)+", mirror: "+mirror))
		_, r := w.reload(t, "")
		if !slices.ContainsFunc(r.Problems, func(p string) bool { return strings.Contains(p, want) }) || len(r.Changes) > 0 {
			t.Errorf("mirror: %s: the reload says %+v, want %s", mirror, r, want)
		}
	}
	if status, _ := apptest.Get(t, w.URL+"/readyz"); status != http.StatusOK || w.Status(t).Targets[0].Mirror != nil {
		t.Errorf("status %d, %+v", status, w.Status(t).Targets)
	}
}
