package trial

import "testing"

func TestAConversationIsCountedOnceAndForgottenAfterManyOthers(t *testing.T) {
	var c conversations
	if !c.isNew(7) || c.isNew(7) {
		t.Error("the first is not new, or the second is")
	}
	for i := range uint64(maxConversations) {
		c.isNew(100 + i)
	}
	if c.isNew(7) {
		t.Error("it was forgotten at once")
	}
	for i := range uint64(2 * maxConversations) {
		c.isNew(1e9 + i)
	}
	if !c.isNew(7) || len(c.young)+len(c.old) > 2*maxConversations {
		t.Errorf("it is remembered, with %d others", len(c.young)+len(c.old))
	}
}
