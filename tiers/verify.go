package tiers

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
	"github.com/foregate/foregate/tiers/probe"
)

// Verifier asks the target to check drafts, for a request or for its audit.
type Verifier struct {
	caller
	Scorer plan.Scorer // how [Verifier.Verify] asks
	Rule   Rule        // by which it judges what it hears

	// Before is called when there is a place for a score and before that is asked for; its error ends it. nil is not at all.
	Before func(ctx context.Context) error
	// Admission is for how many tokens a place is asked, however many are scored; 0 is for as many as are scored.
	Admission int
	// Own is the target's own answer, which a judge is asked to compare the draft with; empty: it is asked of the draft alone.
	Own []byte
	// Funded says that a budget pays for the question: it does not give way to requests.
	Funded bool
	// Patience is how long the target may take at least; 0 is as long as the timeout of scores says.
	Patience time.Duration
}

// NewVerifier returns the verifier that a request's plan asks for.
func NewVerifier(c caller) Verifier {
	return Verifier{caller: c, Scorer: c.Decision.Scorer, Rule: Rule{c.Decision.Rule == plan.RuleExact, c.Body.Temperature}}
}

// endIDs returns the target's end-of-sequence ids; nil if unknown.
func (v Verifier) endIDs() []int32 {
	if v.Target.Capabilities == nil || len(v.Target.Capabilities.EOS) == 0 {
		return nil
	}
	return v.Target.Capabilities.EOS
}

// Draft is what the target needs to know of a draft.
type Draft struct {
	PromptIDs, IDs []int32
	Tokens         int    // of it, with or without ids
	Text           []byte // as the client would get it
	WithStop       []byte // the same with the stop string that ended it, because the target must choose that, too
	Ended          bool   // by itself: by no stop string, and by no id that the client named
	AtLimit        bool   // the client's limit ended it
}

// NewDraft describes a draft as far as it is.
func NewDraft(d *draft.Draft) Draft {
	t := d.Transcript()
	return Draft{
		PromptIDs: t.PromptIDs(), IDs: t.IDs(), Tokens: d.Tokens(), Text: t.Text(), WithStop: t.TextWithStop(),
		Ended: d.EndsItself(), AtLimit: d.Finish() == "length",
	}
}

// Result is the target's check of a draft. With an error Scorer, Backend, Tokens and Computed are still valid.
type Result struct {
	accept.Check
	Scorer   plan.Scorer
	Backend  string // that was asked; "" is none
	Tokens   int    // that it was asked about
	Computed int    // tokens that it computed for that, prompts included
}

// Verify asks the target to check the draft as far as it is. An error says that there is no verdict; see
// [FailureReason].
func (v Verifier) Verify(ctx context.Context, d Draft) (Result, error) {
	r := Result{Scorer: v.Scorer, Tokens: len(d.IDs)}
	var err error
	switch v.Scorer {
	case plan.ScorerJudge:
		err = v.byJudge(ctx, d, &r)
	case plan.ScorerText:
		err = v.byText(ctx, d, &r)
	case plan.ScorerIDs:
		err = v.byIDs(ctx, d, &r)
	default:
		err = errNoScorer
	}
	return r, err
}

// Receipt returns the result for the record; err is that of [Verifier.Verify].
func (r Result) Receipt(err error, took time.Duration) Check {
	c := Check{Scorer: r.Scorer, Backend: r.Backend, Tokens: r.Tokens, Took: took}
	if err != nil {
		c.Reason = FailureReason(err)
		return c
	}
	c.Pass, c.Kept, c.Score, c.Reason = r.Pass, r.Kept, r.Score, r.Reason
	return c
}

// byIDs has the target score the draft's own ids. The end of the answer is a choice, too, even if the engine does not
// tell its id.
func (v Verifier) byIDs(ctx context.Context, d Draft, r *Result) error {
	if len(d.PromptIDs) == 0 || len(d.IDs) == 0 || len(d.IDs) != d.Tokens {
		return errNoIDs // a backend of the pool told some of them only
	}
	ids := d.IDs
	if end := v.endIDs(); d.Ended && end != nil && !slices.Contains(end, ids[len(ids)-1]) {
		ids = append(slices.Clone(ids), end[0])
	}
	s, err := v.Score(ctx, Question{Prompt: d.PromptIDs, IDs: ids})
	r.Backend, r.Computed = s.Backend, s.Computed
	if err != nil {
		return err
	}
	var match openai.TextMatch
	if !match.Add(s.Told, d.WithStop) || d.Ended && !match.Ends() {
		r.Check = accept.Check{Reason: draft.ReasonMalformed}
		return nil
	}
	r.Check = v.Rule.Check(s.Tokens)
	r.Kept = min(r.Kept, len(d.IDs))
	return nil
}

// byJudge asks the target in words whether the answer is correct.
func (v Verifier) byJudge(ctx context.Context, d Draft, r *Result) error {
	var said openai.Judgement
	computed := v.Body.PromptTokens + d.Tokens + openai.EstimateTokens(len(v.Own))
	judge := &engine.Judge{Question: openai.JudgeQuestion{Terms: v.Terms(v.Target), Request: v.Body, Answer: d.Text, Own: v.Own}, Into: &said}
	if found := v.Target.Capabilities; found != nil {
		judge.Thinks, judge.Question.Unscored = found.Thinks, found.MissingReason(probe.MissingLogprobs) != ""
	}
	o := v.newRequest(judge, computed)
	o.Demand.PromptBytes = v.Body.PromptBytes + len(d.Text) + len(v.Own)
	var err error
	if r.Backend, err = v.Dispatch.Do(ctx, o); err != nil {
		return fmt.Errorf("judge: %w", err)
	}
	r.Computed = computed
	r.Check = accept.Check{Score: accept.Nats(said.Odds), Pass: said.Odds >= 0, Reason: accept.ReasonTargetAgrees}
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
	if refused, ok := errors.AsType[dispatch.ScoreRefusedError](err); ok {
		return string(refused)
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

// byText has the target score the draft's text in its own tokens. The check is then exact in the target's tokens,
// whatever the draft's are, and nothing of a refused draft is kept.
func (v Verifier) byText(ctx context.Context, d Draft, r *Result) error {
	prompt, err := TokenizePrompt(ctx, v.caller, v.Target)
	if err != nil {
		return err
	}
	ids, err := TokenizeText(ctx, v.caller, v.Target, d.WithStop)
	if err != nil {
		return err
	}
	if end := v.endIDs(); d.Ended && end != nil {
		ids = append(ids, end[0]) // that it ends here is a choice, too
	}
	r.Tokens = len(ids)
	s, err := v.Score(ctx, Question{Prompt: prompt, IDs: ids})
	r.Backend, r.Computed = s.Backend, s.Computed
	if err != nil {
		return err
	}
	r.Check = v.Rule.Check(s.Tokens)
	if limit := v.Body.Limit(); v.Rule.Exact && r.Pass && limit > 0 && (len(ids) > limit || d.AtLimit && len(ids) < limit) {
		r.Pass, r.Reason = false, accept.ReasonTargetDisagrees // max_tokens counts the target's tokens
	}
	if !r.Pass {
		r.Kept = 0
	}
	return nil
}
