package admission

import (
	"strings"
	"testing"
	"testing/synctest"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
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

func TestTheSeriesOfAPoolThatGoesAreDropped(t *testing.T) {
	reg := prometheus.NewPedanticRegistry()
	s := NewQueues([]string{"p", "q"}, reg)
	s.SetPools([]string{"q"})
	if n, err := testutil.GatherAndCount(reg, "foregate_queue_depth", "foregate_shedding"); err != nil || n != 6 {
		t.Errorf("%d series, %v", n, err)
	}
	if err := testutil.GatherAndCompare(reg, strings.NewReader(`# HELP foregate_queue_depth Requests waiting for capacity at a pool.
# TYPE foregate_queue_depth gauge
foregate_queue_depth{pool="q",priority="high"} 0
foregate_queue_depth{pool="q",priority="low"} 0
foregate_queue_depth{pool="q",priority="normal"} 0
`), "foregate_queue_depth"); err != nil {
		t.Error(err)
	}
}
