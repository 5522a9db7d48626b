package trial

import (
	"testing"

	"github.com/foregate/foregate/tiers/compare"
)

func TestAConversationIsCountedOnceForEachPairAndForgottenAfterManyOthers(t *testing.T) {
	var c conversations
	one, other := compare.Pair{Route: "m", Shares: [2]float64{0.95, 0.05}}, compare.Pair{Route: "m", Shares: [2]float64{0.5, 0.5}}
	if !c.isNew(one, 7) || c.isNew(one, 7) || !c.isNew(other, 7) {
		t.Error("the first of a pair is not new, or the second is")
	}
	for i := range uint64(maxConversations) {
		c.isNew(one, 100+i)
	}
	if c.isNew(one, 7) {
		t.Error("it was forgotten at once")
	}
	for i := range uint64(2 * maxConversations) {
		c.isNew(one, 1e9+i)
	}
	if !c.isNew(one, 7) || len(c.young)+len(c.old) > 2*maxConversations {
		t.Errorf("it is remembered, with %d others", len(c.young)+len(c.old))
	}
}
