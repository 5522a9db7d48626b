package tiers

import (
	"testing"

	"github.com/foregate/foregate/tiers/dispatch"
	"github.com/foregate/foregate/tiers/engine"
	"github.com/foregate/foregate/tiers/plan"
)

func TestWhatWasUsedIsWhatTheReceiptKnows(t *testing.T) {
	got := dispatch.Try{Pool: "p", Backend: "b"}
	failed := dispatch.Try{Pool: "p", Backend: "b", Failed: engine.Refused}
	for _, c := range []struct {
		name string
		rc   *Receipt
		want int
	}{
		{"nothing was tried", nil, 0},
		{"all tries failed", &Receipt{Tries: []dispatch.Try{failed}}, 0},
		{"the whole answer", &Receipt{Tier: plan.Target, Tries: []dispatch.Try{got}, PromptTokens: 20, AcceptedTokens: 3, TargetTokens: 4, WastedTokens: 50}, 27},
		{"broken off before its usage", &Receipt{Tier: plan.Target, Tries: []dispatch.Try{got}, TargetTokens: 4}, 14},
		{"passed through", &Receipt{Tier: plan.Target, Tries: []dispatch.Try{got}}, -1},
		{"the client hung up before the first byte", &Receipt{Tries: []dispatch.Try{failed, {Failed: engine.ClientGone}}}, -1},
		{"its time was over before the first byte", &Receipt{Tries: []dispatch.Try{{Failed: engine.Expired}}}, -1},
		{"its answer was above limits.response_bytes", &Receipt{Tries: []dispatch.Try{{Failed: engine.TooLarge}}}, -1},
		{"nothing but its tokens were counted", &Receipt{Tries: []dispatch.Try{{Role: dispatch.RoleTokenize}, failed}}, 0},
	} {
		if used := (estimate{prompt: 10, answer: 100}).used(c.rc); used != c.want {
			t.Errorf("%s: %d, want %d", c.name, used, c.want)
		}
	}
}
