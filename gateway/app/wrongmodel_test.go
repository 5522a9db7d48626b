package app_test

import (
	"fmt"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/foregate/foregate/gateway/app/apptest"
	"github.com/foregate/foregate/loadtest/vllmsim"
)

// engineOf starts a fast simulated engine that serves a model.
func engineOf(t testing.TB, model string) *vllmsim.Server {
	return vllmsim.Start(t, vllmsim.Options{Model: model, Profile: "h100-8b", TimeScale: 20})
}

func TestABackendThatServesAnotherModelCostsNoRequestAndTheStatusNamesIt(t *testing.T) {
	right, wrong := engineOf(t, "m"), engineOf(t, "other")
	p := apptest.Serve(t, oneRoute(fmt.Sprintf("backends: [%q, %q]", right.URL(), wrong.URL())))
	p.Ready(t)
	var failed atomic.Int64
	var all sync.WaitGroup
	for i := range 16 {
		all.Go(func() {
			for n := range 13 {
				status, _, body := apptest.Send(t, http.MethodPost, p.URL+chat, chatBody("r", `"max_tokens":8`, fmt.Sprintf(`"stream":%t`, n%2 == 0), fmt.Sprintf(`"seed":%d`, 100*i+n)))
				if status != http.StatusOK || strings.Contains(body, `"error"`) {
					failed.Add(1)
					t.Logf("status %d: %s", status, body)
				}
			}
		})
	}
	all.Wait()
	if n := failed.Load(); n != 0 {
		t.Errorf("%d of 208 requests failed, want 0", n)
	}
	if got := why(t, p, "big"); !strings.Contains(got, "serves another model than m, or not at /v1/chat/completions: status 404") {
		t.Errorf("the status says of the backends %q", got)
	}
	apptest.Eventually(t, "the breaker of the wrong one opens", func() bool { return len(p.Status(t).Breakers) == 1 })
	p.Stop(t)
}

func TestAFallbackAnswersWhenEveryBackendServesAnotherModel(t *testing.T) {
	hosted, wrong := startHosted(t), engineOf(t, "other")
	r := apptest.Serve(t, fallbackFile(wrong.URL(), hosted.URL, "{pool: hosted, when: [unavailable], max_usd_per_hour: 20}", ""))
	for range 8 { // before the breaker opens, and after
		status, head, body := apptest.Send(t, http.MethodPost, r.URL+chat, chatBody("llama-3", `"max_tokens":20`), "X-Tenant-ID", "acme")
		if status != http.StatusOK || head.Get("X-Tier") != "fallback" {
			t.Fatalf("status %d, tier %q: %s", status, head.Get("X-Tier"), body)
		}
	}
}
