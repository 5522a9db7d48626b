package app_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"

	"github.com/foregate/foregate/gateway/app/apptest"
	"github.com/foregate/foregate/loadtest/vllmsim"
)

// pair is a gateway with a draft and a target pool of one engine's wire, on one route named after the engine.
type pair struct {
	probed
	engine string
	target *vllmsim.Server
}

// newPair starts both engines and the gateway, and waits until it knows them.
func newPair(t *testing.T, engine, mode string, ofDraft, ofTarget []string) *pair {
	t.Helper()
	w := &pair{engine: engine}
	sim := func(divergence float64, hazards []string) *vllmsim.Server {
		return vllmsim.Start(t, vllmsim.Options{Engine: engine, Model: "sim:1b", Divergence: divergence, Seed: simSeed, TimeScale: simScale,
			MaxNumSeqs: 8, Hazards: hazards})
	}
	w.draft, w.target = sim(0.3, ofDraft), sim(0, ofTarget)
	store := miniredis.RunT(t)
	for name, value := range map[string]string{"speculation.mode": mode, "economy.guard": "off", "cache.mode": "off"} {
		store.HSet("foregate:settings", name, value)
	}
	w.Replica = apptest.Serve(t, fmt.Sprintf(`
listen: 127.0.0.1:0
admin: 127.0.0.1:0
redis: {url: "redis://%s/0"}
pools:
  small: {model: "sim:1b", engine: %s, backends: [%q]}
  large: {model: "sim:1b", engine: %s, backends: [%q]}
routes:
  - {model: %s, draft: small, target: large}
drain: {delay: 0s, grace: 5s}
`, store.Addr(), engine, w.draft.URL(), engine, w.target.URL(), engine))
	w.Ready(t)
	apptest.Within(t, 30*time.Second, "both engines are probed", func() bool {
		return w.probed.engine(t, "small").Age >= 0 && w.probed.engine(t, "large").Age >= 0
	})
	return w
}

func TestAPairOfEachEngineAnswersADraftedRequest(t *testing.T) {
	for _, engine := range vllmsim.Engines() {
		t.Run(engine, func(t *testing.T) {
			t.Parallel()
			w := newPair(t, engine, "confidence", nil, nil)
			drafted := 0
			for i := range 6 {
				prompt := fmt.Sprintf("Tell me of fjord %d.", i)
				own := w.asks(t, engine, prompt, 0, "X-Tier", "target")
				got := w.asks(t, engine, prompt, 0)
				if own.code != http.StatusOK || got.code != http.StatusOK || got.text == "" || own.text == "" {
					t.Fatalf("%+v, from the target %+v", got, own)
				}
				if strings.HasPrefix(got.acceptance, "accepted;reason=confident") {
					drafted++
				}
			}
			if drafted == 0 {
				t.Error("no draft was kept")
			}
		})
	}
}
