package strategy

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/foregate/foregate/tiers/accept"
	"github.com/foregate/foregate/tiers/dispatch"
	"github.com/foregate/foregate/tiers/draft"
	"github.com/foregate/foregate/tiers/engine"
	"github.com/foregate/foregate/tiers/inflight"
	"github.com/foregate/foregate/tiers/openai"
	"github.com/foregate/foregate/tiers/plan"
	"github.com/foregate/foregate/tiers/pool"
	"github.com/foregate/foregate/tiers/receipt"
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

// errNoDraft says that no part of a draft can be used and that nothing was sent. The target then answers as if there had
// been no draft.
var errNoDraft = errors.New("no draft to build on")

// BrokenError says that an answer failed after its first byte was sent.
type BrokenError struct{ Cause error }

// Error names the cause.
func (e *BrokenError) Error() string { return fmt.Sprintf("broken off in mid-answer: %v", e.Cause) }

// Unwrap returns the cause.
func (e *BrokenError) Unwrap() error { return e.Cause }

// Outcome is the result of a request.
type Outcome struct {
	Tier    plan.Tier      // that the answer came from, "" while there is none
	Verdict accept.Verdict // of the draft; zero where none was judged
	Bypass  string         // why none was, or why it does not count; "" is as planned
	Finish  string         // finish_reason; "" while the answer is not whole

	receipt.Tally
	Served *draft.Draft // the draft that is the whole answer; nil for others

	First time.Duration // until the answer's first byte; 0 while there is none
}

// IsJudged reports whether a draft was judged.
func (o *Outcome) IsJudged() bool { return o.Verdict.Reason != "" }

// ServedByWarmup reports whether the answer is a draft that was accepted by the threshold of a warm-up, which no audit
// has certified yet.
func (o *Outcome) ServedByWarmup(t *plan.AuditDecision) bool {
	byScore := o.Verdict.Cohort == "" || o.Verdict.Cohort == accept.CohortWarmup
	return o.IsJudged() && t.Warmup && byScore && o.Tier == plan.Draft && o.Finish != ""
}

// Options configure an [Answer].
type Options struct {
	Request  *inflight.Request
	Record   receipt.Recorder
	Sink     Sink
	Observer Observer // receives the answer's content; nil: none
	Auditor  Auditor  // audits drafts; nil: no audit
	Sent     []byte   // the prefix that clients already have of a lost answer; the target continues it if it can
}

// Answer produces one answer.
type Answer struct {
	inflight.Caller
	out       Outcome
	record    *receipt.Recorder // recorder
	recorder  receipt.Recorder
	client    client
	auditor   Auditor
	sent      []byte
	failovers int // how often it moved to another backend

	deadline time.Time // of the answer, if the contexts of its calls are the only ones that have it; else zero

	straight strategy // the *relay of an answer that one pool gives
}

// strategy is one way to answer. run returns errNoDraft if the target must answer from the start.
type strategy interface {
	run(ctx context.Context) error
}

// Outcome returns the result so far.
func (a *Answer) Outcome() Outcome {
	a.out.First = a.client.first
	return a.out
}

// withoutDraft records why no backend made a draft. It returns errNoDraft, or err if the request is over.
func (a *Answer) withoutDraft(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return err
	}
	reason := reasonUnavailable
	if errors.Is(err, pool.ErrFull) {
		reason = reasonFull
	}
	a.recordBypass(reason)
	return errNoDraft
}

// endInterrupted returns the error of a request that was cancelled or timed out. cause is the failure that this caused,
// or nil.
func (a *Answer) endInterrupted(ctx context.Context, cause error) error {
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
func (a *Answer) wrapError(err error) error {
	if a.client.headSent {
		return &BrokenError{err}
	}
	return err
}

// mayFailOver reports whether another backend may continue the answer after a failure.
func (a *Answer) mayFailOver(f *engine.Failure) bool {
	return a.Config.MidstreamFailover && f.Retryable() && a.failovers < maxFailovers
}

// recordFailover records that another backend continues the answer, and from which position.
func (a *Answer) recordFailover(why string, tokens, bytes int) {
	a.failovers++
	a.record.RecordFailover(receipt.Failover{Why: why, Tokens: tokens, Bytes: bytes})
}

// newDraftRequest returns a call to the draft pool. It does not wait for capacity, because the target may have some.
func (a *Answer) newDraftRequest(call engine.Call) dispatch.Request {
	o := a.NewRequest(a.Draft, call)
	o.Ticket.NoWait = true
	o.FirstByteTimeout = a.FirstByteTimeout(a.Config.Timeouts.DraftFirstToken)
	return o
}

// The methods below keep the outcome and the record consistent.

// setPlan replaces the plan of the request and records the new one.
func (a *Answer) setPlan(p plan.Plan) {
	r := *a.Request
	r.Plan = p
	a.Request = &r
	a.out.Bypass = p.Reason
	a.record.RecordPlan(p, a.AuditDecision)
}

func (a *Answer) setTier(t plan.Tier) {
	a.out.Tier = t
	a.record.SetTier(t)
}

func (a *Answer) recordVerdict(v accept.Verdict) {
	a.out.Verdict = v
	a.record.RecordVerdict(v)
}

func (a *Answer) recordBypass(reason string) {
	a.out.Bypass = reason
	a.record.RecordBypass(reason)
}

func (a *Answer) recordFinish(finish string) {
	a.out.Finish = finish
	a.record.RecordFinish(finish)
}

// recordDraft records a draft that has ended. started is when it was requested.
func (a *Answer) recordDraft(d *draft.Draft, started time.Time) {
	a.record.RecordScores(d.ScoreSeries())
	a.record.RecordDraft(started)
}

// recordTally records the token counts.
func (a *Answer) recordTally() { a.record.RecordTally(a.out.Tally) }

// count sets the number of answer tokens of the current tier.
func (a *Answer) count(tokens int) {
	if a.out.Tier == plan.Draft {
		a.out.Accepted = tokens
	} else {
		a.out.Target = tokens
	}
	a.recordTally()
}

// recordPrompt records the length of the prompt as the engine counted it.
func (a *Answer) recordPrompt(u openai.Usage) {
	a.out.Prompt = u.Prompt
	a.recordTally()
}

// promptTokens returns the length of the prompt: as an engine has told it, else as one of the pool counts it, else estimated,
// which is marked.
func (a *Answer) promptTokens(ctx context.Context, told int, p inflight.Pool) int {
	if told > 0 {
		return told
	}
	ids, err := inflight.TokenizePrompt(ctx, a.Caller, p)
	if err != nil {
		a.out.Estimated = true
		return a.Body.PromptTokens
	}
	return len(ids)
}

// countWasted records that no token of a draft became part of the answer.
func (a *Answer) countWasted(tokens int) {
	a.out.Accepted, a.out.Target, a.out.Wasted = 0, 0, tokens
	a.recordTally()
}
