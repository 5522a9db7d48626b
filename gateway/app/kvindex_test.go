package app_test

import (
	"fmt"
	"net"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/foregate/foregate/gateway/app/apptest"
	"github.com/foregate/foregate/loadtest/vllmsim"
)

// TestAnEngineThatSaysItsCacheIsEmptyIsBelieved has the gateway's own estimate and the
// engine's events disagree.
func TestAnEngineThatSaysItsCacheIsEmptyIsBelieved(t *testing.T) {
	sim := vllmsim.Start(t, vllmsim.Options{
		Model: simTarget, Profile: "a100-8b", Seed: simSeed, TimeScale: simScale, DevMode: true,
		KVEvents: vllmsim.KVEvents{Endpoint: "tcp://127.0.0.1:0"},
	})
	_, port, err := net.SplitHostPort(strings.TrimPrefix(sim.KVEventsEndpoint(0), "tcp://"))
	if err != nil {
		t.Fatal(err)
	}
	p := apptest.Serve(t, fmt.Sprintf(`listen: 127.0.0.1:0
admin: 127.0.0.1:0
pools: {big: {model: %s, backends: [%q], kv_events: %s}}
routes: [{model: m, target: big}]
drain: {delay: 0s, grace: 5s}
`, simTarget, sim.URL(), port))
	p.Ready(t)
	value := func(name string) float64 {
		m := regexp.MustCompile(`(?m)^` + name + `(?:\{.*\})? (\S+)$`).FindStringSubmatch(p.Metrics(t))
		if m == nil {
			return 0
		}
		v, err := strconv.ParseFloat(m[1], 64)
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
	ask := func(text string) (expected float64) {
		before := value("foregate_prefix_expected_tokens_total")
		apptest.Post(t, p.URL+chat, fmt.Sprintf(`{"model":"m","max_tokens":4,"messages":[{"role":"user","content":%q}]}`, text))
		return value("foregate_prefix_expected_tokens_total") - before
	}
	long := strings.Repeat("Which of the many small houses by the harbour is the oldest one? ", 60)
	// A feed that began in the middle knows nothing of what came before; so this is asked
	// until the engine's own events tell of it.
	apptest.Eventually(t, "the engine's blocks are known", func() bool { ask(long); return value("foregate_kv_index_blocks") > 50 })
	if got := ask(long); got < 500 {
		t.Errorf("%v tokens are expected of a prompt that was just sent", got)
	}
	resp, err := http.Post(sim.URL()+"/reset_prefix_cache", "application/json", nil)
	if err != nil || resp.StatusCode != http.StatusOK {
		t.Fatalf("reset: %v, %v", resp, err)
	}
	_ = resp.Body.Close()
	apptest.Eventually(t, "the engine says that its cache was emptied", func() bool {
		ask("Hello.") // the event goes out with a step
		return value("foregate_kv_index_blocks") < 50
	})
	if got := ask(long); got > 32 {
		t.Errorf("%v tokens are expected in a cache that its engine has emptied", got)
	}
}
