// Package strategy holds the ways to answer a request, one type each:
//
//   - relay passes the answer of one pool on.
//   - speculate streams a draft while it is judged.
//   - verifyWhole judges the whole draft first.
//   - callTools judges a draft that comes in one piece.
//   - resume continues an answer that was lost.
//
// Start at [Answer.Run]. All of them continue a partial answer through a [continuation]: after a rejected draft, a
// failed backend or a lost leader.
package strategy

import (
	"context"
	"errors"

	"github.com/foregate/foregate/tiers/inflight"
	"github.com/foregate/foregate/tiers/plan"
)

// New returns an answer that has not started.
func New(o Options) *Answer {
	both := &struct { // one allocation for an answer that one pool gives
		Answer
		relay
	}{}
	a := &both.Answer
	a.recorder, a.auditor, a.sent, a.straight = o.Record, o.Auditor, o.Sent, &both.relay
	a.record = &a.recorder
	a.Caller = o.Request.Caller(a.record)
	a.client = client{
		request: a.Request, record: a.record, sink: o.Sink, observer: o.Observer, startedAt: a.World.Now(),
	}
	if o.Observer == nil {
		a.client.observer = noObserver{}
	}
	return a
}

// Run answers the request by its plan. After an error before the first byte nothing was written. After the first byte
// the error is a *[BrokenError] or the sink's own.
func (a *Answer) Run(ctx context.Context) error {
	s := a.strategy()
	if r, ok := s.(*relay); ok { // one call: its own context is enough
		a.deadline = a.World.Now().Add(a.Deadline())
		return r.run(ctx)
	}
	ctx, cancel := a.World.WithTimeout(ctx, a.Deadline())
	defer cancel()
	err := s.run(ctx)
	if errors.Is(err, errNoDraft) {
		return a.relay(a.Target).run(ctx)
	}
	return err
}

// relay returns the strategy that passes the answer of a pool on. An answer uses one at most.
func (a *Answer) relay(p inflight.Pool) *relay {
	r, _ := a.straight.(*relay)
	*r = relay{Answer: a, pool: p}
	return r
}

// strategy returns the strategy that the plan asks for.
func (a *Answer) strategy() strategy {
	p := &a.Plan
	demanded := p.Tier == plan.Draft && !p.Judged
	switch {
	case len(a.sent) > 0 && !demanded && a.Config.MidstreamFailover && a.Target.CanContinue(a.Body):
		return &resume{a, a.sent}
	case demanded:
		return a.relay(a.Draft)
	case !p.Judged:
		return a.relay(a.Target)
	case p.Calls:
		return &callTools{a}
	}
	if p.Whole {
		return &verifyWhole{draftRun{Answer: a}}
	}
	return &speculate{draftRun{Answer: a}}
}
