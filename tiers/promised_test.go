package tiers

import (
	"net/http"
	"testing"

	"github.com/foregate/foregate/tiers/openai"
	"github.com/foregate/foregate/tiers/plan"
)

func TestAnAnswerThatWasPromisedToBeTheTargetsIsNotDraftedWhenMoreIsKnownOfTheEngines(t *testing.T) {
	r := newRig(t, 3, 0, true)
	req, err := openai.Scan(openai.Chat, []byte(chatOf(`"stream":true`, `"temperature":0`)), openai.DefaultLimits())
	if err != nil {
		t.Fatal(err)
	}
	r.cfg.Accept.Threshold = -20
	for reason, c := range map[string]struct {
		promised *plan.Plan
		tier     plan.Tier
	}{
		"":                {nil, plan.Draft},
		"judged":          {&plan.Plan{Tier: plan.Draft, Judged: true, Mode: plan.ModeConfidence}, plan.Draft},
		"target_unprobed": {&plan.Plan{Tier: plan.Target, Reason: "target_unprobed"}, plan.Target},
	} {
		rc, err := r.cascade.Answer(t.Context(), Request{Body: req, ID: "x", Header: http.Header{}, Plan: c.promised}, &collector{})
		if err != nil {
			t.Fatal(err)
		}
		if rc.Tier != c.tier || rc.Plan.Judged != (c.tier == plan.Draft) || c.tier == plan.Target && rc.Plan.Reason != reason {
			t.Errorf("promised %q: an answer of %s, %+v", reason, rc.Tier, rc.Plan)
		}
	}
}

func TestADraftThatIsKeptThoughItsScoreFellIsOfAnotherRule(t *testing.T) {
	for _, m := range []plan.Mode{plan.ModeConfidence, plan.ModeRisk} {
		with, without := testConfig(), testConfig()
		with.Mode, without.Mode = m, m
		with.MidstreamFailover, without.MidstreamFailover = true, false
		if with.Fingerprint() == without.Fingerprint() {
			t.Errorf("mode %s: an answer that was kept without takeover is served with it", m)
		}
	}
}
