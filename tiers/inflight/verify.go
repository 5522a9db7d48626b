package inflight

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/foregate/foregate/tiers/accept"
	"github.com/foregate/foregate/tiers/dispatch"
	"github.com/foregate/foregate/tiers/draft"
	"github.com/foregate/foregate/tiers/engine"
	"github.com/foregate/foregate/tiers/openai"
	"github.com/foregate/foregate/tiers/plan"
	"github.com/foregate/foregate/tiers/pool"
	"github.com/foregate/foregate/tiers/receipt"
)

// Verify asks the target to check the draft as far as it is. An error says that there is no verdict; see
// [FailureReason].
func (a Verifier) Verify(ctx context.Context, d Draft) (Result, error) {
	r := Result{Scorer: a.Scorer, Tokens: len(d.IDs)}
	var err error
	switch a.Scorer {
	case plan.ScorerJudge:
		err = a.byJudge(ctx, d, &r)
	case plan.ScorerText:
		err = a.byText(ctx, d, &r)
	case plan.ScorerIDs:
		err = a.byIDs(ctx, d, &r)
	default:
		err = errNoScorer
	}
	return r, err
}

// Receipt returns the result for the record; err is that of [Verifier.Verify].
func (r Result) Receipt(err error, took time.Duration) receipt.Check {
	c := receipt.Check{Scorer: r.Scorer, Backend: r.Backend, Tokens: r.Tokens, Took: took}
	if err != nil {
		c.Reason = FailureReason(err)
		return c
	}
	c.Pass, c.Kept, c.Score, c.Reason = r.Pass, r.Kept, r.Score, r.Reason
	return c
}

// byIDs has the target score the draft's own ids. The end of the answer is a choice, too, even if the engine does not
// tell its id.
func (a Verifier) byIDs(ctx context.Context, d Draft, r *Result) error {
	if len(d.PromptIDs) == 0 || len(d.IDs) == 0 || len(d.IDs) != d.Tokens {
		return errNoIDs // a backend of the pool told some of them only
	}
	ids := d.IDs
	if end := a.endIDs(); d.Ended && end != nil && !slices.Contains(end, ids[len(ids)-1]) {
		ids = append(slices.Clone(ids), end[0])
	}
	s, err := a.Score(ctx, Question{Prompt: d.PromptIDs, IDs: ids})
	r.Backend, r.Computed = s.Backend, s.Computed
	if err != nil {
		return err
	}
	r.Warm = s.Backend
	var match openai.TextMatch
	if !match.Add(s.Told, d.textWithStop()) || d.Ended && !match.Ends() {
		r.Check = accept.Check{Reason: draft.ReasonMalformed}
		return nil
	}
	r.Check = a.Rule.Check(s.Choices)
	r.Kept = min(r.Kept, len(d.IDs))
	return nil
}

// byJudge asks the target in words whether the answer is correct.
func (a Verifier) byJudge(ctx context.Context, d Draft, r *Result) error {
	var odds float64
	computed := a.Body.PromptTokens + d.Tokens
	thinks := a.Target.Capabilities != nil && a.Target.Capabilities.Thinks
	o := a.newRequest(&engine.Judge{Terms: a.Terms(a.Target), Request: a.Body, Answer: d.Text, Thinks: thinks, Into: &odds}, computed)
	o.Demand.PromptBytes = a.Body.PromptBytes + len(d.Text)
	var err error
	if r.Backend, err = a.Do(ctx, o); err != nil {
		return fmt.Errorf("judge: %w", err)
	}
	r.Computed = computed
	r.Check = accept.Check{Score: accept.Nats(odds), Pass: odds >= 0, Reason: accept.ReasonTargetAgrees}
	if !r.Pass {
		r.Reason = accept.ReasonTargetDisagrees
	}
	return nil
}

var (
	errNoIDs    = errors.New("the draft came without token ids")
	errNoScorer = errors.New("there is no way to ask")
)

// FailureReason returns one word for a failed check, for receipts and metrics.
func FailureReason(err error) string {
	if refused, ok := errors.AsType[*dispatch.ScoreRefusedError](err); ok {
		return refused.Reason
	}
	if f, ok := errors.AsType[*engine.Failure](err); ok {
		return string(f.Kind)
	}
	switch {
	case errors.Is(err, pool.ErrFull):
		return "target_full"
	case errors.Is(err, errNoIDs):
		return "no_ids"
	case errors.Is(err, pool.ErrNoBackend):
		return "no_backend"
	}
	return "failed"
}
