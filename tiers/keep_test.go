package tiers

import (
	"fmt"
	"testing"

	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/foregate/foregate/loadtest/vllmsim"
	"github.com/foregate/foregate/tiers/openai"
	"github.com/foregate/foregate/tiers/plan"
	"github.com/foregate/foregate/tiers/risk"
)

// confirmed asks for an answer that is to be kept, and waits until nothing runs in the background.
func (r *rig) confirmed(t *testing.T, question string) (*Receipt, *confirmation) {
	t.Helper()
	req, err := openai.Scan(openai.Chat, []byte(chat(question, `,"max_tokens":60`)), openai.DefaultLimits())
	if err != nil {
		t.Fatal(err)
	}
	c := &confirmation{}
	rc, err := answerBy(t.Context(), r.cascade, arrival{Body: req, ID: question, Confirmation: c}, &collector{})
	if err != nil {
		t.Fatal(err)
	}
	r.rests(t)
	return rc, c
}

// TestADoubtfulDraftIsKeptOnlyIfTheTargetAcceptsIt has drafts of which the target rejects some. All are doubtful, because two
// thresholds at most are certified. None is audited.
func TestADoubtfulDraftIsKeptOnlyIfTheTargetAcceptsIt(t *testing.T) {
	r, n := auditedRig(t, vllmsim.Options{Seed: 7, Divergence: 0.5}, vllmsim.Options{})
	n.grid, n.op = everything, 1
	r.cfg.Risk.Rates.Audit = 0
	r.cfg.VerifyDrafts = plan.VerifyDoubtful
	served := 0
	for i := range 16 {
		rc, c := r.confirmed(t, fmt.Sprint("question ", i))
		if rc.Tier != plan.Draft {
			continue
		}
		served++
		if !c.awaited || !c.known {
			t.Errorf("awaited %t, an opinion %t", c.awaited, c.known)
		}
	}
	count := func(result string) int {
		return int(testutil.ToFloat64(r.cascade.metrics.served.WithLabelValues("m", result)))
	}
	if passed, failed := count("passed"), count("failed"); passed == 0 || failed == 0 || passed+failed != served {
		t.Errorf("of %d drafts %d passed and %d failed", served, passed, failed)
	}
	if opened := n.count(risk.Opened); opened != 0 {
		t.Errorf("%d audits were opened", opened)
	}
	r.cfg.VerifyDrafts = plan.VerifyNever
	for i := range 4 {
		if rc, c := r.confirmed(t, fmt.Sprint("unchecked ", i)); rc.Tier == plan.Draft && (c.awaited || c.known) {
			t.Error("it waits, though nothing is checked")
		}
	}
}
