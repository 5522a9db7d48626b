package admission

import (
	"testing"
	"testing/synctest"
)

func TestAPoolThatStaysKeepsItsLineAndOneThatGoesLetsIn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, c := NewQueues([]string{"p"}, nil), counter{}
		waits := going(t.Context(), s, c.waiter(normal, "t"))
		s.SetPools([]string{"p", "fresh"})
		if s.line("p").queue.Len() != 1 || s.line("fresh") == nil {
			t.Fatal("the line was not kept")
		}
		s.SetPools([]string{"fresh"})
		c.free(1)
		if _, ok := have(waits); ok {
			t.Fatal("let in before a look")
		}
		s.Wake("p") // a pool without a line: nothing happens
		if r := <-waits; r.err != nil {
			t.Errorf("a request that waited when its pool went: %v", r.err)
		}
	})
}
