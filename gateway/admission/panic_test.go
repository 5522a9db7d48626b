package admission

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/foregate/foregate/internal/panics"
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

func TestAPanicThatIsNoRequestsIsToldAndTheLineGoesOn(t *testing.T) {
	for name, broken := range map[string]*tenantQueue{"before anybody is looked at": nil, "after one was let in": {}} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s, c := NewQueues([]string{"p"}, nil), counter{}
				var told []error
				ctx, stop := context.WithCancel(panics.OnPanic(t.Context(), func(err error) { told = append(told, err) }))
				ended := make(chan error, 1)
				go func() { ended <- s.Run(ctx) }()
				set := func(tenants map[string]*tenantQueue) {
					l := s.line("p")
					l.mu.Lock()
					defer l.mu.Unlock()
					l.queue.waiting[low].tenants = tenants
				}
				waits := going(t.Context(), s, c.waiter(high, "t"))
				synctest.Wait()
				c.free(1)
				set(map[string]*tenantQueue{"none": broken})
				s.Wake("p")
				time.Sleep(3*time.Second + pollInterval/2) // it recurs at each poll while somebody waits
				synctest.Wait()
				if n := len(told); n < 1 || n > 4 || !strings.HasPrefix(told[0].Error(), "panic: the line of pool p: ") {
					t.Errorf("told %d times: %v", n, told)
				}
				set(nil)
				s.Wake("p")
				if r := <-waits; r.err != nil {
					t.Errorf("who waits: %+v", r)
				}
				stop()
				if err := <-ended; err != nil {
					t.Error(err)
				}
				atRest(t, s)
			})
		})
	}
}
