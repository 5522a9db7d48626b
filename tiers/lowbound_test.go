package tiers

import (
	"net/http"
	"strings"
	"testing"

	"github.com/foregate/foregate/gateway/identity"
	"github.com/foregate/foregate/loadtest/vllmsim"
	"github.com/foregate/foregate/tiers/openai"
	"github.com/foregate/foregate/tiers/plan"
)

func TestRequestsOfPriorityLowHaveABoundAndEvidenceOfTheirOwn(t *testing.T) {
	r, n := auditedRig(t, vllmsim.Options{}, vllmsim.Options{})
	r.cfg.Risk.Rule.MaxDisagreementLow = .4
	for p := identity.Low; p <= identity.High; p++ {
		body := chat("a question", `,"max_tokens":20`)
		req, err := openai.Scan(openai.Chat, []byte(body), openai.DefaultLimits())
		if err != nil {
			t.Fatal(err)
		}
		if _, err := answerBy(t.Context(), r.cascade, arrival{Body: req, Tier: plan.Auto, ID: p.String(), Header: http.Header{}, Class: int8(p)}, &collector{}); err != nil {
			t.Fatal(err)
		}
		r.rests(t)
		var low, others int
		n.mu.Lock()
		for k := range n.states {
			if strings.HasPrefix(k.TrafficClass, "all_low_t0.") {
				low++
			} else {
				others++
			}
		}
		n.mu.Unlock()
		if low != 1 || others != min(int(p), 1) {
			t.Errorf("after priority %s: %d classes of low, %d of others", p, low, others)
		}
	}
}
