package app_test

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/foregate/foregate/gateway"
	"github.com/foregate/foregate/gateway/app/apptest"
	"github.com/foregate/foregate/loadtest/vllmsim"
)

// backendsOf returns the backends of a pool, as the status shows them.
func backendsOf(t *testing.T, r *apptest.Replica, pool string) []gateway.BackendView {
	t.Helper()
	for _, p := range r.Status(t).Pools {
		if p.Pool == pool {
			return p.Backends
		}
	}
	return nil
}

func TestTheKindOfEachEngineIsFound(t *testing.T) {
	for _, engine := range vllmsim.Engines() {
		t.Run(engine, func(t *testing.T) {
			t.Parallel()
			sim := vllmsim.Start(t, vllmsim.Options{Engine: engine, Model: "sim:1b", Seed: simSeed, TimeScale: simScale})
			r := apptest.Serve(t, fmt.Sprintf(`
listen: 127.0.0.1:0
admin: 127.0.0.1:0
pools:
  only: {model: "sim:1b", backends: [%q]}
routes:
  - {model: m, target: only}
drain: {delay: 0s, grace: 5s}
`, sim.URL()))
			apptest.Within(t, 20*time.Second, "its kind is shown", func() bool {
				b := backendsOf(t, r, "only")
				return len(b) == 1 && b[0].Engine == engine && b[0].State == "up" && b[0].Why == ""
			})
			want := fmt.Sprintf("foregate_backend_engine_info{backend=%q,engine=%q,pool=%q} 1", backendsOf(t, r, "only")[0].ID, engine, "only")
			if page := r.Metrics(t); !strings.Contains(page, want) {
				t.Errorf("not in the metrics: %s\n%s", want, apptest.Lines(page, "foregate_backend_engine"))
			}
		})
	}
}

func TestAnEngineOfAnotherKindThanConfiguredIsToldUntilAReloadMendsIt(t *testing.T) {
	sim := vllmsim.Start(t, vllmsim.Options{Engine: "sglang", Model: "sim:1b", Seed: simSeed, TimeScale: simScale})
	file := func(engine string) string {
		return fmt.Sprintf(`
listen: 127.0.0.1:0
admin: 127.0.0.1:0
pools:
  only: {model: "sim:1b", engine: %s, backends: [%q]}
routes:
  - {model: m, target: only}
drain: {delay: 0s, grace: 5s}
`, engine, sim.URL())
	}
	w := &reloadWorld{path: filepath.Join(t.TempDir(), "foregate.yaml")}
	rotateFile(t, w.path, file("vllm"))
	w.Replica = apptest.ServeFile(t, w.path)
	const why = `pools.only.engine is vllm, but it answers as sglang: GET /v1/models has owned_by "sglang"`
	apptest.Within(t, 20*time.Second, "the contradiction is shown", func() bool {
		b := backendsOf(t, w.Replica, "only")
		return len(b) == 1 && b[0].Engine == "vllm" && b[0].Why == why
	})
	const misfit = `foregate_backend_engine_misfit{`
	if lines := apptest.Lines(w.Metrics(t), misfit); !strings.HasSuffix(strings.TrimSpace(lines), " 1") {
		t.Error(lines)
	}
	w.change(t, file("sglang"), "pools.only: changed")
	apptest.Within(t, 20*time.Second, "the reload has mended it", func() bool {
		b := backendsOf(t, w.Replica, "only")
		return len(b) == 1 && b[0].Engine == "sglang" && b[0].Why == "" && strings.HasSuffix(strings.TrimSpace(apptest.Lines(w.Metrics(t), misfit)), " 0")
	})
}
