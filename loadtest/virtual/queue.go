package virtual

import (
	"context"
	"time"

	"github.com/foregate/foregate/gateway/admission"
	"github.com/foregate/foregate/gateway/identity"
	"github.com/foregate/foregate/loadtest/virtual/eventloop"
	"github.com/foregate/foregate/tiers/dispatch"
	"github.com/foregate/foregate/tiers/pool"
)

// poll is how often those who wait are looked at, as the gateway does.
const poll = 50 * time.Millisecond

// queue is the gateway's own admission queue at one pool of a replica, on the virtual clock.
type queue struct {
	admission.Queue
	lab   *lab
	woken bool // a look is among the events
	polls bool
}

// queues are those of a replica, by pool.
type queues map[string]*queue

// wake looks whether there is capacity, behind what goes on at this moment.
func (q *queue) wake() {
	if q.woken || q.Len() == 0 {
		return
	}
	q.woken = true
	q.lab.clock.After(0, func() {
		q.woken = false
		q.serve()
	})
}

func (q *queue) serve() {
	q.Serve(q.lab.clock.Now())
	if q.Len() == 0 || q.polls {
		return
	}
	q.polls = true
	q.lab.clock.After(poll, func() {
		q.polls = false
		q.serve()
	})
}

// Enter implements [dispatch.Queue].
func (qs queues) Enter(ctx context.Context, t dispatch.Ticket, try func(pool.Admission) error) (waited time.Duration, err error) {
	q := qs[t.Pool]
	l := q.lab
	came, over := l.clock.Elapsed(), false
	var waiter eventloop.Waiter
	w := &admission.Ticket{
		Route: t.Route, Class: identity.Priority(t.Class), Tenant: t.Tenant, Tokens: t.Tokens, Config: l.values.Admission,
		Waited: t.Waited, NoWait: t.NoWait, MidStream: t.MidStream, Try: try,
		Done: func(what error) {
			over, err = true, what
			waiter.Wake(l.clock)
		},
	}
	q.Enter(w, l.clock.Now())
	if q.Len() > 0 {
		q.serve()
	}
	if !over {
		if left := waiter.Wait(ctx, l.clock); left != nil && !over {
			q.Leave(w)
			return l.clock.Elapsed() - came, left
		}
	}
	return l.clock.Elapsed() - came, err
}
