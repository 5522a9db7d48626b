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
	"github.com/foregate/foregate/tiers/transcript"
)

// maxFailovers bounds how often one answer is carried on with elsewhere: what breaks off
// four times breaks off because of what is asked.
const maxFailovers = 3

// Why a draft is not judged, or an answer carried on with elsewhere, beside the reasons of accept and draft.
const (
	reasonTargetLost  = "target_lost"       // a backend of the target broke off in mid-answer
	ReasonBlock       = "block_unusable"    // verification in blocks: of a block there are no ids of plain text, or its text is another
	reasonUnavailable = "draft_unavailable" // no backend gave one
	reasonFull        = "draft_full"        // the draft pool has no capacity for its class
)

// errNoDraft says that the draft gave nothing to carry on from and nothing was
// sent: the request goes to the target as if it had never been drafted.
var errNoDraft = errors.New("no draft to build on")

// BrokenError says that an answer broke after its first byte had gone out.
type BrokenError struct{ Cause error }

// Error names the cause.
func (e *BrokenError) Error() string { return fmt.Sprintf("broken off in mid-answer: %v", e.Cause) }

// Unwrap returns the cause.
func (e *BrokenError) Unwrap() error { return e.Cause }

// Outcome is what became of a request.
type Outcome struct {
	Tier    plan.Tier      // that the answer came from, "" while there is none
	Verdict accept.Verdict // of the draft; zero where none was judged
	Bypass  string         // why none was, or why it does not count; "" is as planned
	Finish  string         // finish_reason; "" while the answer is not whole

	receipt.Tally
	First       time.Duration // until the answer's first byte; 0 while there is none
	TargetFirst time.Duration // waited for the target's first byte
}

// IsJudged reports whether a draft was.
func (o *Outcome) IsJudged() bool { return o.Verdict.Reason != "" }

// ServedByWarmup reports whether a draft that only a warm-up's threshold stands by is the answer of a request that
// was judged so.
func (o *Outcome) ServedByWarmup(t *plan.AuditDecision) bool {
	byScore := o.Verdict.Cohort == "" || o.Verdict.Cohort == accept.CohortWarmup
	return o.IsJudged() && t.Warmup && byScore && o.Tier == plan.Draft && o.Finish != ""
}

// Options are what an answer is made from.
type Options struct {
	Request  *inflight.Request
	Record   *receipt.Recorder
	Sink     Sink
	Observer Observer // hears the answer; nil is nobody
	Auditor  Auditor  // audits drafts; nil where none is to be
	Sent     []byte   // what clients have of an answer that was lost: the target carries on from there, where that can be
}

// Answer is one answer in the making.
type Answer struct {
	inflight.Caller
	out       Outcome
	record    *receipt.Recorder
	client    client
	auditor   Auditor
	sent      []byte
	failovers int // how often it was carried on with elsewhere
}

// New prepares an answer.
func New(o Options) *Answer {
	a := &Answer{
		Caller: o.Request.Caller(o.Record), record: o.Record, auditor: o.Auditor, sent: o.Sent,
	}
	a.client = newClient(a.Request, o.Record, o.Sink, o.Observer)
	return a
}

// Outcome is what became of the request so far.
func (a *Answer) Outcome() Outcome {
	a.out.First = a.client.first
	return a.out
}

// withoutDraft is what becomes of a request for which no backend made a draft.
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

// endInterrupted ends a draft whose request was cancelled or timed out; cause is what that did to it, if
// anything.
func (a *Answer) endInterrupted(ctx context.Context, cause error) error {
	if cause == nil {
		kind := engine.Gone
		if errors.Is(ctx.Err(), context.DeadlineExceeded) || errors.Is(context.Cause(ctx), context.DeadlineExceeded) {
			kind = engine.Expired
		}
		cause = &engine.Failure{Kind: kind, Pool: a.Draft.Name(), Err: context.Cause(ctx)}
	}
	return a.wrapError(cause)
}

// wrapError words a failure: before the first byte it is an ordinary one.
func (a *Answer) wrapError(err error) error {
	if a.client.begun {
		return &BrokenError{err}
	}
	return err
}

// mayFailOver reports whether an answer that broke off may be carried on with elsewhere.
func (a *Answer) mayFailOver(f *engine.Failure) bool {
	return a.Config.MidstreamFailover && f.Retryable() && a.failovers < maxFailovers
}

// recordFailover notes from where the answer is carried on with.
func (a *Answer) recordFailover(why string, tokens, bytes int) {
	a.failovers++
	a.record.RecordFailover(receipt.Failover{Why: why, Tokens: tokens, Bytes: bytes})
}

// newDraftRequest prepares a call to the draft pool that does not wait for capacity: the target may have some.
func (a *Answer) newDraftRequest(call engine.Call) dispatch.Request {
	o := a.NewRequest(a.Draft, call)
	o.Ticket.NoWait = true
	o.FirstByteTimeout = a.FirstByteTimeout(a.Config.Timeouts.DraftFirstToken)
	return o
}

// newTranscript begins the transcript of an answer.
func (a *Answer) newTranscript() *transcript.Transcript {
	return transcript.New(transcript.Options{
		Stop: a.Body.Stop, IncludeStop: a.Body.IncludeStop, WholeWords: a.Plan.Resume == plan.ResumeText,
	})
}

// What follows keeps the outcome and the record alike.

// setPlan goes by another plan than the request had, and tells of it.
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

// recordThresholds tells the record by what the draft is judged.
func (a *Answer) recordThresholds() {
	cfg := &a.Config
	band := cfg.Accept.Band
	if a.Plan.CheckPolicy == accept.CheckNever {
		band = 0
	}
	a.record.RecordThresholds(cfg.Accept.Threshold, band, cfg.TieTolerance)
}

// recordDraft tells the record of a draft that has come to its end, and that was begun at some time.
func (a *Answer) recordDraft(d *draft.Draft, started time.Time) {
	a.record.RecordScores(d.ScoreSeries())
	a.record.RecordDraft(started)
}

// recordTally tells the record the tally.
func (a *Answer) recordTally() { a.record.RecordTally(a.out.Tally) }

// recordTargetWait notes how long the target took until its first byte, or until it could not answer.
func (a *Answer) recordTargetWait(took time.Duration) {
	a.out.TargetFirst += took
	a.record.RecordTargetWait(took)
}

// count books tokens to the tier that made them.
func (a *Answer) count(tokens int) {
	if a.out.Tier == plan.Draft {
		a.out.Accepted = tokens
	} else {
		a.out.Target = tokens
	}
	a.recordTally()
}

// recordPrompt notes how long the prompt is, as an engine counts it.
func (a *Answer) recordPrompt(u openai.Usage) {
	a.out.Prompt = u.Prompt
	a.recordTally()
}

// countWasted notes that nothing of a draft of so many tokens went into the answer.
func (a *Answer) countWasted(tokens int) {
	a.out.Accepted, a.out.Target, a.out.Wasted = 0, 0, tokens
	a.recordTally()
}
