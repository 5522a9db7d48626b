package app_test

import (
	"crypto/sha256"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/foregate/foregate/gateway/app/apptest"
	"github.com/foregate/foregate/loadtest/vllmsim"
	"github.com/foregate/foregate/tiers/risk"
)

// pressedWorld is a replica whose target tells what KV usage it is told to, and two tenants of
// which one takes drafts below the threshold.
type pressedWorld struct {
	*riskFleet
	n       int // questions so far
	pressed int // of these, answered below the threshold
}

// bearer are the headers of a tenant's request, by its id.
func bearer(id, class string) []string {
	return []string{"Authorization", "Bearer key of " + id, "X-Priority", class}
}

// asks sends a tenant's question; an empty one is another each time.
func (w *pressedWorld) asks(t *testing.T, id, class, text string) riskReply {
	t.Helper()
	w.n++
	if text == "" {
		text = fmt.Sprintf("Is %d even?", w.n)
	}
	r := riskAsk(t.Context(), w.replicas[0], text, bearer(id, class)...)
	if r.err != nil {
		t.Fatalf("%s at class %s: %v", id, class, r)
	}
	if r.reason == "target_pressure" {
		w.pressed++
	}
	return r
}

// usage has the target tell it, and waits until a class of the tenant is pressed, or is not.
func (w *pressedWorld) usage(t *testing.T, kv float64, class string, pressed bool) {
	t.Helper()
	if err := w.target.SetFault(vllmsim.Fault{KVUsage: &kv}); err != nil {
		t.Fatal(err)
	}
	apptest.Within(t, riskSlow, fmt.Sprintf("at %g the class %s is answered so", kv, class), func() bool {
		return (w.asks(t, "spared", class, "").reason == "target_pressure") == pressed
	})
}

// never are askers that get no draft below the threshold.
func (w *pressedWorld) never(t *testing.T, kv float64, askers ...[2]string) {
	t.Helper()
	for _, who := range askers {
		if r := w.asks(t, who[0], who[1], ""); r.reason == "target_pressure" || r.verdict == "accepted" || r.status != http.StatusOK {
			t.Errorf("at %g, %s at class %s: %v", kv, who[0], who[1], r)
		}
	}
}

// TestDraftsBelowTheThresholdAreForTenantsThatTakeThemWhileTheTargetIsShort fills the target for
// one class after the other, under a threshold that the drafts do not reach.
func TestDraftsBelowTheThresholdAreForTenantsThatTakeThemWhileTheTargetIsShort(t *testing.T) {
	tenants := "tenants:\n"
	for _, id := range []string{"spared", "plain"} {
		tenants += fmt.Sprintf("  - {id: %s, keys_sha256: [%x], max_priority: high, allow_low_score_under_pressure: %t}\n", id, sha256.Sum256([]byte("key of "+id)), id == "spared")
	}
	w := &pressedWorld{riskFleet: newRiskFleet(t, 1, tenants, "speculation.pressure_threshold_nats", "-20", "risk.audit_rate", "0.2", "shed.forecast", "no")}
	w.who = bearer("plain", "normal")
	k, score := w.scored(t)
	// One threshold above the draft's score, and some from there on that are not certified.
	for i := 0; w.eyes.Open(t, k, score+float64(4*(i%2)-2)) != risk.Opened; i++ {
		if i > 2*risk.GridScores {
			t.Fatalf("%d scores are none too many for a grid", i)
		}
	}
	if err := w.eyes.Book.Close(t.Context(), k, w.eyes.Ticket(), risk.AuditResult{}); err != nil {
		t.Fatal(err)
	}
	w.made(t, k, score, true, 100)
	w.made(t, k, score+2, false, madeUp)
	w.until(t, "a threshold is certified that drafts do not reach", func(r riskReply) bool {
		return r.verdict == "rejected" && strings.HasSuffix(r.grant, ".op1")
	})
	w.set(t, "cache.mode", "on")
	apptest.Eventually(t, "answers are kept", func() bool { return w.replicas[0].Setting(t, "cache.mode") == "on" })

	w.never(t, 0, [2]string{"spared", "low"}, [2]string{"spared", "normal"})
	w.usage(t, .82, "low", true)
	w.never(t, .82, [2]string{"plain", "low"}, [2]string{"spared", "normal"}, [2]string{"spared", "high"})
	w.usage(t, .93, "normal", true)
	w.never(t, .93, [2]string{"plain", "normal"}, [2]string{"spared", "high"})
	const again = "What is kept?"
	for range 2 {
		if r := w.asks(t, "spared", "normal", again); r.reason != "target_pressure" || r.cached != "MISS" || !strings.Contains(r.grant, ".op1") {
			t.Errorf("X-Cache %s: %v", r.cached, r)
		}
	}
	w.usage(t, .97, "normal", true)
	w.never(t, .97, [2]string{"spared", "high"})
	w.usage(t, 0, "low", false)
	if r := w.asks(t, "spared", "normal", again); r.reason == "target_pressure" || r.cached != "MISS" {
		t.Errorf("X-Cache %s, want MISS: %v", r.cached, r)
	}
	apptest.Eventually(t, "the answer is kept", func() bool {
		r := w.asks(t, "spared", "normal", again)
		if r.reason == "target_pressure" {
			t.Errorf("X-Cache %s: %v", r.cached, r)
		}
		return r.cached == "HIT"
	})
	if got := summed(t, w.replicas, "foregate_acceptance_total", `reason="target_pressure"`, `verdict="accepted"`); got != w.pressed || got == 0 {
		t.Errorf("%d drafts below the threshold are counted, clients got %d", got, w.pressed)
	}
	w.quiet(t, k)
	entries, err := w.redis.Client.XRange(t.Context(), "foregate:{fg}:risk2:log", "-", "+").Result()
	if err != nil {
		t.Fatal(err)
	}
	audits := 0
	for _, e := range entries {
		ticket, _ := e.Values["opened"].(string)
		if len(ticket) <= len(w.eyes.Ticket()) {
			continue // none, or made up
		}
		if audits++; e.Values["served"] != "0" {
			t.Errorf("an audit counts as one of a draft that was served by the promise: %v", e.Values)
		}
	}
	t.Logf("%d questions, %d answered below the threshold, %d audits", w.n, w.pressed, audits)
	if audits == 0 {
		t.Error("there was no audit")
	}
}
