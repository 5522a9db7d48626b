package tiers

import (
	"strings"
	"testing"
	"time"

	"github.com/foregate/foregate/loadtest/vllmsim"
	"github.com/foregate/foregate/tiers/dispatch"
	"github.com/foregate/foregate/tiers/openai"
	"github.com/foregate/foregate/tiers/plan"
)

// inTime holds that every call of a receipt has begun and ended within the request, in order.
func inTime(t *testing.T, rc *Receipt, whole time.Duration) {
	t.Helper()
	for i, try := range rc.Tries {
		if try.At < 0 || try.Took <= 0 || try.First > try.Took || try.At+try.Took > whole || try.First == 0 && try.Failed == "" {
			t.Errorf("try %d of a request of %v: %+v", i, whole, try)
		}
		if i > 0 && try.At < rc.Tries[i-1].At {
			t.Errorf("try %d began before the one before it", i)
		}
	}
	for _, c := range rc.Checks {
		if c.At <= 0 || c.At+c.Took > whole {
			t.Errorf("a check of a request of %v: %+v", whole, c)
		}
	}
	if rc.WasJudged() != (rc.Judged > 0) || rc.Judged > whole {
		t.Errorf("judged %v, after %v of %v", rc.WasJudged(), rc.Judged, whole)
	}
}

func TestAReceiptTellsWhenEachCallWasMadeAndOver(t *testing.T) {
	r := newRig(t, 3, 0.6, true)
	bad := vllmsim.Start(t, vllmsim.Options{Model: "small", TimeScale: testScale})
	bad.SetFault(vllmsim.Fault{Status: 500})
	r.cascade = newTestCascade(t, Route{
		Model: "m", Draft: testPool(t, "drafts", "small", bad.URL(), r.draft.URL()), Target: testPool(t, "targets", "big", r.target.URL()),
		SameTokenizer: true, Config: func() plan.Config { return r.cfg },
	})
	roles := map[dispatch.Role]int{}
	failed := 0
	for _, c := range []struct {
		tier  plan.Tier
		body  string
		moved func(*plan.Config)
	}{
		{plan.Auto, chatOf(`"stream":true`), func(c *plan.Config) { c.Accept.Threshold = 20 }}, // every draft is rejected
		{plan.Auto, chatOf(`"stream":true`), func(c *plan.Config) { c.Accept.Threshold = -20 }},
		{plan.Target, chatOf(), nil},
		{plan.Target, chatOf(`"stream":true`), nil},
		{plan.Auto, chatOf(`"temperature":0`), func(c *plan.Config) { c.Mode = plan.ModeVerify }},
	} {
		r.cfg = testConfig()
		if c.moved != nil {
			c.moved(&r.cfg)
		}
		began := time.Now()
		_, rc, err := r.ask(openai.Chat, c.tier, c.body)
		whole := time.Since(began)
		if err != nil {
			t.Fatal(err)
		}
		inTime(t, rc, whole)
		for _, try := range rc.Tries {
			roles[try.Role]++
			if try.Failed != "" {
				failed++
				if try.Status != 500 {
					t.Errorf("status %d of a try that failed", try.Status)
				}
			} else if try.Status != 200 || (try.Role == dispatch.RoleTarget || try.Role == dispatch.RoleDraft) && try.Tokens == 0 {
				t.Errorf("%+v", try)
			}
		}
	}
	if roles[dispatch.RoleDraft] == 0 || roles[dispatch.RoleTarget] < 2 || failed == 0 {
		t.Errorf("%v, %d failed", roles, failed)
	}
}

// chatOf is a chat of a few words, for 40 tokens.
func chatOf(more ...string) string {
	return `{"model":"m","messages":[{"role":"user","content":"Tell me about the sea."}],"max_tokens":40` + strings.Join(append([]string{""}, more...), ",") + `}`
}
