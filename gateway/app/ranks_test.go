package app_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/foregate/foregate/gateway/app/apptest"
	"github.com/foregate/foregate/loadtest/vllmsim"
)

// TestAConversationKeepsToOneEngineBehindAURL has one server of four engines, each with
// a cache of its own, whose balance knows nothing of prefixes.
func TestAConversationKeepsToOneEngineBehindAURL(t *testing.T) {
	sim := vllmsim.Start(t, vllmsim.Options{
		Model: simTarget, Profile: "a100-8b", Seed: simSeed, TimeScale: simScale, DataParallelSize: 4,
	})
	p := apptest.Serve(t, fmt.Sprintf(`listen: 127.0.0.1:0
admin: 127.0.0.1:0
pools: {big: {model: %s, backends: [%q]}}
routes: [{model: m, target: big}]
drain: {delay: 0s, grace: 5s}
`, simTarget, sim.URL()))
	p.Ready(t)
	apptest.Eventually(t, "the four engines are told apart", func() bool {
		return strings.Contains(p.Metrics(t), "foregate_backend_kv_usage")
	})
	// At once, so that the server's balance has reason to spread them.
	var all sync.WaitGroup
	for c := range 16 {
		all.Go(func() {
			talk := fmt.Sprintf(`{"role":"user","content":%q}`, strings.Repeat(fmt.Sprintf("Report %d of the harbour says that the water is cold. ", c), 100))
			for range 4 {
				status, _, text := apptest.Send(t, http.MethodPost, p.URL+chat, fmt.Sprintf(`{"model":"m","max_tokens":40,"messages":[%s]}`, talk))
				var a struct {
					Choices []struct{ Message struct{ Content string } }
				}
				if err := json.Unmarshal([]byte(text), &a); err != nil || len(a.Choices) == 0 {
					t.Errorf("status %d: %s", status, text)
					return
				}
				talk += fmt.Sprintf(`,{"role":"assistant","content":%q},{"role":"user","content":"Go on."}`, a.Choices[0].Message.Content)
			}
		})
	}
	all.Wait()
	_, page := apptest.Get(t, sim.URL()+"/metrics")
	hits, queries := sum(t, page, "vllm:prefix_cache_hits_total"), sum(t, page, "vllm:prefix_cache_queries_total")
	// The first turn of each finds nothing: three quarters are what there is to find.
	share := hits / queries
	t.Logf("%.0f of %.0f prompt tokens were found warm, %.0f %%", hits, queries, 100*share)
	if share < 0.6 {
		t.Error("the turns of a conversation went to different engines")
	}
}

// sum adds up a family of a metrics page.
func sum(t *testing.T, page, name string) (total float64) {
	t.Helper()
	for _, m := range regexp.MustCompile(`(?m)^`+name+`\{.*\} (\S+)$`).FindAllStringSubmatch(page, -1) {
		v, err := strconv.ParseFloat(m[1], 64)
		if err != nil {
			t.Fatal(err)
		}
		total += v
	}
	return total
}
