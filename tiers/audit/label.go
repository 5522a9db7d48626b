package audit

import (
	"context"
	"errors"
	"net/http"

	"github.com/foregate/foregate/tiers/accept"
	"github.com/foregate/foregate/tiers/engine"
	"github.com/foregate/foregate/tiers/openai"
	"github.com/foregate/foregate/tiers/plan"
	"github.com/foregate/foregate/tiers/pool"
	"github.com/foregate/foregate/tiers/scoring"
	"github.com/foregate/foregate/tiers/verify"
)

// audit asks the target about a draft that came to its end, and books what it says.
func (d *Draft) audit(ctx context.Context) {
	v := d.Verdict()
	if !v.Accept && !d.IsMalformed(v) {
		return // nothing that would be served by any threshold in the region
	}
	b := &auditRun{Draft: d, score: float64(v.Score)}
	defer d.end()
	if !b.prepare(ctx) {
		return
	}
	if !v.Accept {
		b.leaveBad(ctx)
		return
	}
	if !d.Auditor.enter(ctx, d.Config.Risk.MaxConcurrentAudits) {
		d.countDropped("busy")
		return
	}
	defer d.Auditor.leave()
	if d.AuditDecision.Head.Audited {
		b.tryHead(ctx)
	}
	if len(b.entries) == 0 {
		return
	}
	good, heard := b.ask(ctx)
	switch {
	case len(b.opened) == 0:
		d.countDropped(b.why)
	case heard:
		b.close(ctx, !good)
		if good && d.AuditDecision.Warmup && d.OnAuditPassed != nil {
			d.OnAuditPassed()
		}
	}
}

// tryHead asks the target about the first tokens of a draft that would have been doubtful: what it
// stands by is evidence for the cohort of such.
func (b *auditRun) tryHead(ctx context.Context) {
	ids, at := b.Transcript().IDs(), b.Head()
	h := head{
		ids: at.IDs, score: at.Score, all: len(ids), whole: b.score, band: b.Views.Own.Band, threshold: b.AuditDecision.Own.Threshold,
	}
	if !h.isDoubtful() {
		return
	}
	asker := b.newVerifier()
	asker.Scorer = plan.ScorerIDs
	r, err := asker.Verify(ctx, verify.Draft{PromptIDs: b.Transcript().PromptIDs(), IDs: ids[:h.ids], Tokens: h.ids})
	if b.cost.Scored += r.Computed; err != nil || !r.Pass {
		return
	}
	b.add(ctx, entry{Decision: b.AuditDecision.Head, score: float64(r.Score)})
}

// newVerifier asks the target by the label's rule.
func (d *Draft) newVerifier() verify.Verifier {
	mode := plan.ModeLenient
	if d.Config.Risk.Label == plan.LabelPrefix {
		mode = plan.ModeVerify
	}
	return verify.Verifier{Caller: d.caller, Scorer: d.Plan.Auditor, Rule: verify.RuleOf(mode, &d.Config, d.Body.Temperature)}
}

// ask has the target label the draft. Where there is no place it waits, and nothing is booked;
// what was booked and comes to nothing three times is lost.
func (b *auditRun) ask(ctx context.Context) (good, heard bool) {
	waiting, cancel := b.World.WithTimeout(ctx, auditWait)
	defer cancel()
	for tries := 0; tries < auditTries; {
		good, err := b.label(ctx)
		switch {
		case err == nil:
			return good, true
		case errors.Is(err, errNotOpened), ctx.Err() != nil:
			return false, false
		case len(b.opened) > 0:
			tries++
		case !isFull(err):
			b.why = verify.FailureReason(err) // what cannot be asked about at all, such as a text that is too long
			b.leaveBad(ctx)
			return false, false
		}
		if b.why = "target_full"; len(b.opened) == 0 && waiting.Err() != nil || b.World.Sleep(ctx, auditPause) != nil {
			return false, false
		}
	}
	return false, false
}

// isFull reports whether an audit failed because the target has no place for it now.
func isFull(err error) bool {
	if refused, ok := errors.AsType[*scoring.RefusedError](err); ok {
		return refused.Reason != scoring.ReasonTooLong
	}
	if f, ok := errors.AsType[*engine.Failure](err); ok { // of a question before, which may be asked elsewhere,
		return f.Status < 400 || f.Status >= 500 || f.Status == http.StatusTooManyRequests // but for one that nobody answers
	}
	return errors.Is(err, pool.ErrFull) || errors.Is(err, pool.ErrNoBackend)
}

// label asks the target in the way that the setting says.
func (b *auditRun) label(ctx context.Context) (good bool, err error) {
	if b.Config.Risk.Label == plan.LabelRegenerate {
		return b.regenerated(ctx)
	}
	r, err := b.applyCheck(ctx)
	if err != nil || r.Pass || b.Config.Risk.Label != plan.LabelPrefix {
		return err == nil && r.Pass, err
	}
	return float64(r.Kept) >= b.Config.Risk.MinPrefixShare*float64(max(len(b.Transcript().IDs()), 1)), nil
}

// applyCheck asks the target about the draft. Whether there is a place for an audit must not depend on how long the draft became.
func (b *auditRun) applyCheck(ctx context.Context) (verify.Result, error) {
	asker := b.newVerifier()
	asker.Before, asker.Admission = b.openAll, b.Body.PromptTokens+plan.TypicalOutput
	draft := verify.NewDraft(b.Audit.Draft)
	draft.Resumes = false // nobody carries on with it
	r, err := asker.Verify(ctx, draft)
	b.cost.Scored += r.Computed
	return r, err
}

// regenerated has the target write an answer of its own. A draft that says the same is good; of
// another one the target is asked whether it is right.
func (b *auditRun) regenerated(ctx context.Context) (good bool, err error) {
	var own openai.DraftAnswer
	o := b.caller.NewRequest(b.Target, &engine.Answer{Terms: b.Terms(b.Target), Request: b.Body, Into: &own})
	o.Ticket.NoWait, o.Ticket.Class, o.Demand.Whole, o.Before = true, 0, true, b.openAll
	o.FirstByteTimeout = b.whole(b.Config.Timeouts.TargetFirstToken)
	if _, err := b.caller.Do(ctx, o); err != nil {
		return false, err
	}
	b.cost.Target += own.Usage.Completion
	if accept.SameAnswer(b.Transcript().Text(), own.Text) {
		return true, nil
	}
	if b.Plan.Auditor != plan.ScorerJudge {
		return false, nil
	}
	r, err := b.applyCheck(ctx)
	return err == nil && r.Pass, err
}
