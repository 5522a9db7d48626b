package app_test

import (
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/foregate/foregate/gateway/app/apptest"
	"github.com/foregate/foregate/gateway/settings"
	"github.com/foregate/foregate/internal/redistest"
	"github.com/foregate/foregate/loadtest/vllmsim"
)

// riskQuick are settings by which everything is audited, and at once.
var riskQuick = []string{
	"speculation.mode", "risk", "risk.warmup", "shadow", "risk.max_disagreement", "0.3", "risk.audit_rate", "1", "economy.guard", "off",
	"risk.lease_audits", "3000", "risk.cold_start_rate", "1", "risk.cold_start_audits_per_minute", "100000", "risk.audit_budget", "0",
	"risk.max_concurrent_audits", "16", "speculation.max_concurrent_scores", "16", "timeout.target_first_token", "400s", "cache.mode", "off",
}

// riskSlow is for the processes of a race build on a machine that does other things, too.
const riskSlow = 30 * time.Second

// TestAFleetCertifiesTogetherWhatNobodyKnew goes from nothing to drafts that are served by a certified threshold: by
// traffic alone, at three replicas, whose draft is the target's equal.
func TestAFleetCertifiesTogetherWhatNobodyKnew(t *testing.T) {
	if testing.Short() {
		t.Skip("a long test: make test-long")
	}
	store := redistest.Start(t)
	if err := store.Client.HSet(t.Context(), settings.Key, riskQuick).Err(); err != nil {
		t.Fatal(err)
	}
	draft := vllmsim.Start(t, vllmsim.Options{Model: simDraft, Seed: simSeed, TimeScale: simScale})
	target := vllmsim.Start(t, vllmsim.Options{Model: simTarget, Seed: simSeed, TimeScale: simScale})
	var replicas [3]*apptest.Replica
	for i := range replicas {
		replicas[i] = apptest.Serve(t, conf(`redis: {url: "redis://%s/0"}
pools:
  small: {model: %s, backends: [%q]}
  large: {model: %s, backends: [%q]}
routes: [{model: %s, draft: small, target: large, same_tokenizer: true}]
`, store.Addr, simDraft, draft.URL(), simTarget, target.URL(), routeUsual))
	}
	for _, r := range replicas {
		apptest.Within(t, riskSlow, "both pools are probed, and the replicas share", func() bool {
			return strings.Count(r.Metrics(t), "\nforegate_probe_age_seconds{") == 2 && shares(t, r, len(replicas))
		})
		if got := riskAsk(t, r, 0); !strings.HasPrefix(got, "bypassed;reason=uncertified") {
			t.Errorf("nothing is known, and a client was told %s", got)
		}
	}
	apptest.Within(t, 2*riskSlow, "every replica serves drafts by a certified threshold", func() bool {
		var served [len(replicas)]bool
		var clients sync.WaitGroup
		for i, r := range replicas {
			for prompt := range 6 {
				clients.Go(func() {
					if got := riskAsk(t, r, prompt); prompt == 0 {
						served[i] = strings.HasPrefix(got, "accepted;") && strings.Contains(got, ";policy=g")
					}
				})
			}
		}
		clients.Wait()
		return served == [len(replicas)]bool{true, true, true}
	})
}

// riskAsk sends one of a few requests for a short answer, and returns its X-Acceptance.
func riskAsk(t *testing.T, r *apptest.Replica, prompt int) string {
	t.Helper()
	body := fmt.Sprintf(`{"model":%q,"max_tokens":8,"temperature":0,"messages":[{"role":"user","content":"Name %d lakes."}]}`, routeUsual, prompt)
	status, head, text := apptest.Send(t, http.MethodPost, r.URL+chat, body)
	if status != http.StatusOK {
		t.Errorf("a client got no answer: status %d: %s", status, text)
	}
	return head.Get("X-Acceptance")
}
