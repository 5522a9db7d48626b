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

const (
	// scoreUnit is the length in tokens up to which the timeout of a score holds; longer ones get proportionally more. It is
	// timeout.target_first_token divided by scoreShare, 1.5 s by default: a score is a short prefill, and who waits for it
	// can still be answered by the target.
	scoreUnit, scoreShare = 1000, 20
	// distributionTop is how many alternatives are wanted where the target's law counts, because
	// answers are drawn from it, and firstTop where only its first choice does.
	distributionTop, firstTop = accept.MaxTopLogprobs, 1
)

// Question asks for scores of ids after a prompt.
type Question struct {
	Prompt, IDs []int32
}

// Scores are the target's scores. With an error only Backend and Computed are valid.
type Scores struct {
	Tokens   []accept.TargetScore // of each
	Told     openai.TokenText     // what the engine says of them
	Backend  string               // that was asked, and has all of them in its cache now; "" is none
	Computed int                  // tokens that it computed for that
}

// Score has a target backend score ids.
func (v Verifier) Score(ctx context.Context, q Question) (Scores, error) {
	top := firstTop
	if v.Body.Temperature > 0 {
		top = distributionTop
	}
	var said openai.Scores
	backend, err := v.Dispatch.Do(ctx, v.newRequest(&engine.Score{Question: v.scoreQuestion(q, top), Into: &said}, len(q.Prompt)+len(q.IDs)))
	out := Scores{Backend: backend}
	if backend != "" {
		out.Computed = len(q.Prompt) + len(q.IDs) - said.Cached
	}
	if err != nil {
		return out, err
	}
	out.Told, out.Tokens = said.Told, targetScores(q.IDs, v.endIDs(), said.Tokens)
	return out, nil
}

// targetScores converts an engine's scores of ids. All end-of-sequence ids mean the same.
func targetScores(ids, eos []int32, scores []openai.Scored) []accept.TargetScore {
	out := make([]accept.TargetScore, len(ids))
	for i, s := range scores {
		ends := slices.Contains(eos, ids[i]) && slices.Contains(eos, s.TopID)
		out[i] = accept.TargetScore{
			Logprob: accept.Nats(s.Logprob), Top: accept.Nats(s.Top), Tops: s.Tops, First: s.TopID == ids[i] || ends, Alike: s.Alike,
		}
	}
	return out
}

// scoreQuestion converts a question to the engines' request.
func (v Verifier) scoreQuestion(q Question, top int) openai.ScoreQuestion {
	w := openai.ScoreQuestion{Terms: v.Terms(v.Target), Prompt: q.Prompt, Draft: q.IDs, Top: top}
	if v.Target.Capabilities != nil {
		w.Style = v.Target.Capabilities.Scoring
	}
	return w
}

// newRequest returns a call to the target that computes so many tokens. It is admitted like the lowest priority class,
// because an unchecked draft costs less than an overloaded target, unless a budget pays for it.
func (v Verifier) newRequest(call engine.Call, tokens int) dispatch.Request {
	o := v.NewRequest(v.Target, call)
	o.Role, o.Before = dispatch.RoleScore, v.Before
	o.Scoring = &dispatch.Score{MaxConcurrent: v.Config.MaxConcurrentScores, Tokens: tokens}
	timeout := float64(v.Config.Timeouts.TargetFirstToken) / scoreShare
	o.FirstByteTimeout = max(time.Duration(timeout*max(1, float64(tokens)/scoreUnit)), v.Patience)
	if v.Admission > 0 {
		tokens = v.Admission
	}
	if o.Ticket.Tokens = tokens; v.Funded {
		o.Ticket.MidStream = true // it waits for a moment, and is not turned away
	} else {
		o.Ticket.NoWait, o.Ticket.Class = true, 0
	}
	o.Demand.PromptTokens, o.Demand.PromptBytes, o.Demand.OutputTokens, o.Demand.MaxOutput = tokens, 0, 1, 1
	o.Demand.Answers, o.Demand.Whole = 1, true
	return o
}

// Rule says how the target's scores of a draft are judged.
type Rule struct {
	Exact       bool    // every token is what the target would have chosen; else it is plausible to the target
	Temperature float64 // that answers are drawn at
}

// Check judges the target's scores of a draft's tokens.
func (r Rule) Check(scores []accept.TargetScore) accept.Check {
	if r.Exact {
		return accept.CheckGreedy(scores)
	}
	return accept.CheckLenient(r.Temperature, scores)
}

// caller makes calls for a request.
type caller struct {
	*Request
	Identity dispatch.Identity // of its calls; an audit's calls are not part of the request's trace
	Events   dispatch.Events   // receives their outcomes
}

// calls returns the caller whose calls are part of the request's record.
func (r *Request) calls() caller { return caller{r, r.Identity, (*events)(r)} }

// NewRequest returns a call to one of the request's pools, with the configured retries.
func (c caller) NewRequest(p Pool, call engine.Call) dispatch.Request {
	return dispatch.Request{
		Call: call, Pool: p.Pool, Tier: p.Tier, Role: dispatch.Role(p.Tier), Demand: c.Needs,
		Ticket: dispatch.Ticket{
			Route: c.Body.Model, Pool: p.Name(), Tenant: c.Caller.Tenant, Class: c.class(), Tokens: c.Needs.Tokens(),
			MidStream: p.Tier == plan.Fallback, // its KV memory is not the operator's to queue for
		},
		IdleTimeout: c.Config.Timeouts.StreamIdle,
		Retry:       dispatch.Retry{MaxRetries: c.Config.MaxRetries, Budget: c.Config.RetryBudget},
		Identity:    c.Identity, Events: c.Events,
	}
}

// NewFrontEndRequest returns a call that an engine's front end answers without its GPU.
func (c caller) NewFrontEndRequest(p Pool, call engine.Call) dispatch.Request {
	o := c.NewRequest(p, call)
	o.Role = dispatch.RoleTokenize
	o.Ticket.MidStream = true // it needs no KV memory
	o.Demand = pool.Demand{Whole: true}
	o.FirstByteTimeout = FrontEndTimeout
	return o
}

// FrontEndTimeout bounds one call to an engine's front end, and all counts of one continuation together.
const FrontEndTimeout = 2 * time.Second

// Open sends a call whose answer is streamed or passed on; see [dispatch.Dispatcher.Open]. A prompt is not refused by its
// estimate: one that is longer than a backend's memory is counted first, and where no engine counts it, an engine decides.
func (c caller) Open(ctx context.Context, o dispatch.Request) (*dispatch.Exchange, error) {
	x, err := c.Dispatch.Open(ctx, o)
	none, ok := errors.AsType[*pool.NoBackendError](err)
	if !ok || none.Full == 0 && !none.TooLong || none.Answers > 0 || o.Demand.PromptBytes == 0 || ctx.Err() != nil {
		return x, err
	}
	more := openai.EstimateTokens(max(o.Demand.PromptBytes-c.Needs.PromptBytes, 0)) // of an answer so far
	o.Demand.PromptTokens, o.Demand.PromptBytes = none.Largest, 0
	if ids, err := TokenizePrompt(ctx, c, Pool{Pool: o.Pool}); err == nil {
		o.Demand.PromptTokens = len(ids) + more
	}
	return c.Dispatch.Open(ctx, o)
}

// TokenizePrompt has an engine of a pool tokenize the request's prompt with its chat template.
func TokenizePrompt(ctx context.Context, c caller, p Pool) (ids []int32, err error) {
	_, err = c.Dispatch.Do(ctx, c.NewFrontEndRequest(p, &engine.TokenizePrompt{Model: p.Model(), Request: c.Body, Into: &ids}))
	return ids, err
}

// CountPrompt has engines of a pool count the tokens of the request's prompt, with its chat template: others within the
// request's retries, if one fails. The error is as of [dispatch.Dispatcher.Open].
func CountPrompt(ctx context.Context, c caller, p Pool) (int, error) {
	var ids []int32
	x, err := c.Open(ctx, c.NewFrontEndRequest(p, &engine.TokenizePrompt{Model: p.Model(), Request: c.Body, Into: &ids}))
	if err != nil {
		return 0, err
	}
	x.Close(nil, 0)
	return len(ids), nil
}

// TokenizeText has an engine of a pool tokenize a text.
func TokenizeText(ctx context.Context, c caller, p Pool, text []byte) (ids []int32, err error) {
	_, err = c.Dispatch.Do(ctx, c.NewFrontEndRequest(p, &engine.TokenizeText{Model: p.Model(), Text: text, Into: &ids}))
	return ids, err
}

// maxCountTries bounds how often engines are asked to count the tokens of one text.
const maxCountTries = 4

// Counter counts the tokens of a continued answer. All its calls together take [FrontEndTimeout] at most.
type Counter struct {
	Lost []string // backends that were lost: they are asked only where there is no other

	spent time.Duration
}

// Count has an engine of a pool count the tokens of a text.
func (cn *Counter) Count(ctx context.Context, c caller, p Pool, text []byte) (int, error) {
	var ids []int32
	o := c.NewFrontEndRequest(p, &engine.TokenizeText{Model: p.Model(), Text: text, Into: &ids})
	exclude, err := slices.Clone(cn.Lost), engine.ErrFirstByte
	for range maxCountTries {
		if o.FirstByteTimeout = FrontEndTimeout - cn.spent; o.FirstByteTimeout <= 0 {
			break
		}
		o.Demand.Exclude = exclude
		began := c.World.Now()
		var backend string
		backend, err = c.Dispatch.Do(ctx, o)
		cn.spent += c.World.Now().Sub(began)
		f, failed := errors.AsType[*engine.Failure](err)
		switch {
		case err == nil:
			return len(ids), nil
		case ctx.Err() != nil, failed && !f.Retryable(), !failed && len(exclude) == 0:
			return 0, err
		case failed:
			exclude = append(exclude, backend)
		case len(exclude) > len(cn.Lost):
			exclude = exclude[:len(cn.Lost)] // nobody else: once more those that failed now
		default:
			exclude = nil // a connection that broke need not be a backend that is dead
		}
	}
	return 0, err
}
