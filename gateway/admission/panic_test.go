package admission

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/foregate/foregate/tiers/pool"
)

func TestAPanicOfATryIsThatOfTheRequestWhoseTryItIs(t *testing.T) {
	for name, look := range map[string]func(*Queues){
		"at a wake": func(s *Queues) { s.Wake("p") },
		"at a poll": func(*Queues) { time.Sleep(pollInterval) },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s, c := NewQueues([]string{"p"}, nil), counter{}
				bad, tries := c.waiter(high, "t"), 0
				bad.Try = func(l pool.Admission) error {
					if tries++; tries > 1 {
						panic("of a try")
					}
					return c.try(l)
				}
				caught := make(chan any, 1)
				go func() { caught <- panicOf(func() { _, _ = s.Enter(t.Context(), "p", bad) }) }()
				synctest.Wait()
				good := going(t.Context(), s, c.waiter(normal, "t"))
				c.free(1)
				look(s)
				if what := <-caught; what == nil {
					t.Error("the request does not hear of its panic")
				}
				if r := <-good; r.err != nil {
					t.Errorf("who waits behind it: %+v", r)
				}
				atRest(t, s)
			})
		})
	}
}
