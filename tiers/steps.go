package tiers

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/foregate/foregate/tiers/dispatch"
	"github.com/foregate/foregate/tiers/draft"
	"github.com/foregate/foregate/tiers/engine"
	"github.com/foregate/foregate/tiers/plan"
	"github.com/foregate/foregate/tiers/pool"
)

// maxFailovers bounds how often one answer moves to another backend. An answer that breaks four times is likely to break
// because of the request itself.
const maxFailovers = 3

// Why a draft is not judged, or an answer carried on with elsewhere, beside the reasons of accept and draft.
const (
	reasonTargetLost  = "target_lost"       // a backend of the target broke off in mid-answer
	reasonUnavailable = "draft_unavailable" // no backend gave one
	reasonFull        = "draft_full"        // the draft pool has no capacity for its class
)

// errNext says that a step gave no answer and that nothing was sent: the next step is taken.
var errNext = errors.New("no draft to build on")

// BrokenError says that an answer failed after its first byte was sent.
type BrokenError struct{ Cause error }

// Error names the cause.
func (e *BrokenError) Error() string { return fmt.Sprintf("broken off in mid-answer: %v", e.Cause) }

// Unwrap returns the cause.
func (e *BrokenError) Unwrap() error { return e.Cause }

// Delivery is where one answer goes.
type Delivery struct {
	Sink         Sink
	Observer     Observer      // receives the answer's content; nil: none
	Confirmation *confirmation // of an answer that is to be kept for others; nil: it is not kept
}

// answer is a request that is being answered.
type answer struct {
	caller
	client    client
	auditor   *auditor  // of its drafts; nil: they are not audited
	failovers int       // how often it moved to another backend
	deadline  time.Time // of an answer that one call gives; else the context has it, and this is zero
	straight  relay     // of an answer that one pool gives
}

// answer answers a request by the steps of its decision. The next step is taken where one gives no answer and the client
// has nothing of it. After an error before the first byte nothing was written. After the first byte the error is a
// *[BrokenError] or the sink's own. A nil auditor audits no draft.
func (r *Request) answer(ctx context.Context, to Delivery, by *auditor) error {
	a := &answer{caller: r.calls(), auditor: by}
	a.client = client{request: r, sink: to.Sink, observer: to.Observer, startedAt: r.World.Now()}
	if to.Observer == nil {
		a.client.observer = Observers(nil)
	}
	steps := r.Decision.Steps
	if len(steps) == 1 { // one call: its own context is enough
		a.deadline = r.World.Now().Add(r.Deadline())
		return a.relay(steps[0].Tier).run(ctx)
	}
	ctx, cancel := r.World.WithTimeout(ctx, r.Deadline())
	defer cancel()
	for _, step := range steps {
		if err := a.take(ctx, step); !errors.Is(err, errNext) {
			return err
		}
	}
	return errNext // not reached: the last step is a relay, which has no next
}

// take takes one step.
func (a *answer) take(ctx context.Context, step plan.Step) error {
	switch step.Way {
	case plan.Speculate, plan.Hold:
		return (&drafted{answer: a, streams: step.Way == plan.Speculate}).run(ctx)
	case plan.InOnePiece:
		return (&tools{a}).run(ctx)
	}
	return a.relay(step.Tier).run(ctx)
}

// relay returns the step that passes on the answer of the draft pool, or else of the target. An answer takes one at most.
func (a *answer) relay(t plan.Tier) *relay {
	a.straight = relay{answer: a, pool: a.Target}
	if t == plan.Draft {
		a.straight.pool = a.Draft
	}
	return &a.straight
}

// withoutDraft records why no backend made a draft. It returns errNext, or err if the request is over: it has left, or the
// queue has turned it away.
func (a *answer) withoutDraft(ctx context.Context, err error) error {
	_, spent := errors.AsType[*dispatch.ExhaustedError](err)
	_, failed := errors.AsType[*engine.Failure](err)
	switch {
	case ctx.Err() != nil:
		return err
	case errors.Is(err, pool.ErrFull):
		a.Bypass = reasonFull
	case spent, failed, errors.Is(err, pool.ErrNoBackend):
		a.Bypass = reasonUnavailable
	default:
		return err
	}
	return errNext
}

// interrupted returns the error of a request that was cancelled or timed out. cause is the failure that this caused, or
// nil.
func (a *answer) interrupted(ctx context.Context, cause *engine.Failure) error {
	if cause == nil {
		kind := engine.ClientGone
		if errors.Is(ctx.Err(), context.DeadlineExceeded) || errors.Is(context.Cause(ctx), context.DeadlineExceeded) {
			kind = engine.Expired
		}
		cause = &engine.Failure{Kind: kind, Pool: a.Draft.Name(), Err: context.Cause(ctx)}
	}
	return a.wrapError(cause)
}

// wrapError turns a failure after the first byte into a [BrokenError].
func (a *answer) wrapError(err error) error {
	if a.client.headSent {
		return &BrokenError{err}
	}
	return err
}

// mayFailOver reports whether another backend may continue the answer after a failure.
func (a *answer) mayFailOver(f *engine.Failure) bool {
	return a.Config.MidstreamFailover && f.Retryable() && a.failovers < maxFailovers
}

// failOver records that another backend continues the answer, and from which position.
func (a *answer) failOver(why string, at draft.CutPoint) {
	a.failovers++
	a.recordFailover(Failover{Why: why, Tokens: at.Tokens, Bytes: at.Text})
}

// draftRequest returns a call to the draft pool. A backend that is expected to take a quarter of the timeout to begin is
// full: who waits does so better in the gateway, by priority and with the target beside.
func (a *answer) draftRequest(call engine.Call) dispatch.Request {
	o := a.NewRequest(a.Draft, call)
	o.Demand.Optional = true
	o.FirstByteTimeout = a.FirstByteTimeout(a.Config.Timeouts.DraftFirstToken)
	o.MaxDelay = o.FirstByteTimeout / 4
	return o
}

// checkDraft asks the target to check a draft as far as it is, and tells the draft. It returns the backend that has the prompt
// and the draft in its cache now, "" if the target gave no answer.
func (a *answer) checkDraft(ctx context.Context, d *draft.Draft) (warm string) {
	began := a.World.Now()
	verdict, err := NewVerifier(a.caller).Verify(ctx, NewDraft(d))
	a.ScoredTokens += verdict.Computed
	a.recordCheck(verdict.Receipt(err, a.World.Now().Sub(began)))
	if err != nil {
		d.Check(nil)
		return ""
	}
	d.Check(&verdict.Check)
	return verdict.Backend
}

// promptTokens returns the length of the prompt: as an engine has told it, else as one of the pool counts it, else estimated,
// which is marked.
func (a *answer) promptTokens(ctx context.Context, told int, p Pool) int {
	if told > 0 {
		return told
	}
	ids, err := TokenizePrompt(ctx, a.caller, p)
	if err != nil {
		a.Estimated = true
		return a.Body.PromptTokens
	}
	return len(ids)
}
