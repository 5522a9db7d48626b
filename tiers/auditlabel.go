package tiers

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/foregate/foregate/tiers/accept"
	"github.com/foregate/foregate/tiers/audit"
	"github.com/foregate/foregate/tiers/dispatch"
	"github.com/foregate/foregate/tiers/engine"
	"github.com/foregate/foregate/tiers/openai"
	"github.com/foregate/foregate/tiers/plan"
	"github.com/foregate/foregate/tiers/pool"
)

const (
	// auditTime is the least total time limit of an audit with all its tries.
	auditTime = 10 * time.Minute
	// auditPause is the pause between two tries.
	auditPause = 500 * time.Millisecond
	// auditTries bounds the tries to get the target's label once an audit is open.
	auditTries = 3
)

// audit labels a finished draft by the target and stores the label.
func (d *auditedDraft) audit(ctx context.Context) {
	v := d.Verdict()
	if !v.Accept && !d.IsMalformed(v) {
		return // no threshold in the tested region would serve it
	}
	d.score = float64(v.Score)
	defer func() { d.settle(d.Views.SpareCapacity) }()
	if !d.prepare(ctx) {
		return
	}
	inWords := d.Decision.Auditor == plan.ScorerJudge || d.Config.Risk.Label == plan.LabelRegenerate
	if !v.Accept || d.Left() && inWords { // in words nobody can say whether a beginning is right
		_ = d.openAll(ctx) // it stays bad
		return
	}
	if !d.enter(ctx) {
		d.countDropped("busy")
		return
	}
	good, answered := d.ask(ctx)
	switch {
	case len(d.tickets) == 0:
		d.countDropped(d.why)
	case answered:
		d.close(ctx, !good)
		if d.onLabel != nil {
			d.onLabel(good)
		}
	}
}

// ask asks the target for the label. While the target has no capacity it waits and opens nothing. An open audit that
// fails three times is lost and stays bad.
func (d *auditedDraft) ask(ctx context.Context) (good, answered bool) {
	waiting, cancel := d.World.WithTimeout(ctx, audit.Wait)
	defer cancel()
	for tries := 0; tries < auditTries; {
		good, err := d.label(ctx)
		switch {
		case err == nil:
			return good, true
		case errors.Is(err, errNotOpened), ctx.Err() != nil:
			return false, false
		case len(d.tickets) > 0:
			tries++
		case !isFull(err):
			d.why = FailureReason(err) // the target cannot be asked, for example because the text is too long
			_ = d.openAll(ctx)         // it stays bad
			return false, false
		}
		if d.why = "target_full"; len(d.tickets) == 0 && waiting.Err() != nil || d.World.Sleep(ctx, auditPause) != nil {
			return false, false
		}
	}
	return false, false
}

// isFull reports whether an audit failed because the target has no capacity now.
func isFull(err error) bool {
	if refused, ok := errors.AsType[dispatch.ScoreRefusedError](err); ok {
		return refused != dispatch.ErrScoreTooLong
	}
	if f, ok := errors.AsType[*engine.Failure](err); ok { // of a question before, which may be asked elsewhere,
		return f.Status < 400 || f.Status >= 500 || f.Status == http.StatusTooManyRequests // but for one that nobody answers
	}
	return errors.Is(err, pool.ErrFull) || errors.Is(err, pool.ErrNoBackend)
}

// label asks the target in the way that risk.label says.
func (d *auditedDraft) label(ctx context.Context) (good bool, err error) {
	if d.Config.Risk.Label == plan.LabelRegenerate {
		return d.regenerated(ctx)
	}
	return d.verify(ctx, d.openAll, nil)
}

// verify asks the target to check the draft by the rule of the label, or to compare it with its own answer, if there is one.
// before is called when it has capacity. An audit without an answer counts as bad, so it has longer than for a client's score.
func (d *auditedDraft) verify(ctx context.Context, before func(context.Context) error, own []byte) (good bool, err error) {
	rule := Rule{d.Config.Risk.Label == plan.LabelExact, d.Body.Temperature}
	asker := Verifier{caller: d.caller, Scorer: d.Decision.Auditor, Rule: rule, Own: own, Patience: audit.Wait}
	if before != nil { // whether an audit gets capacity must not depend on the draft's length
		asker.Before, asker.Admission = before, d.Body.PromptTokens+plan.TypicalOutput
		asker.Funded = !d.Views.SpareCapacity && !d.Target.External() // see risk.audit_budget
	}
	r, err := asker.Verify(ctx, NewDraft(d.Draft))
	d.cost.Scored += r.Computed
	return err == nil && r.Pass, err
}

// regenerated lets the target write its own answer. The draft is good if it is the same; otherwise the target compares both
// in words.
func (d *auditedDraft) regenerated(ctx context.Context) (good bool, err error) {
	var own openai.DraftAnswer
	o := d.caller.NewRequest(d.Target, &engine.Answer{Terms: d.Terms(d.Target), Request: d.Body, Into: &own})
	o.Ticket.NoWait, o.Ticket.Class, o.Demand.Whole = true, 0, true // it is for no client
	o.FirstByteTimeout = d.Config.Timeouts.WholeAnswer(d.FirstByteTimeout(d.Config.Timeouts.TargetFirstToken), d.Body)
	o.Before = d.openAll
	if _, err := d.Dispatch.Do(ctx, o); err != nil {
		return false, err
	}
	d.cost.Target += own.Usage.Completion
	good = accept.SameAnswer(d.Transcript().Text(), own.Text)
	if !good && d.Decision.Auditor == plan.ScorerJudge {
		return d.verify(ctx, d.openAll, own.Text)
	}
	return good, nil
}
