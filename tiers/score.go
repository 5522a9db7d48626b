package tiers

import (
	"context"
	"slices"
	"time"

	"github.com/foregate/foregate/tiers/accept"
	"github.com/foregate/foregate/tiers/dispatch"
	"github.com/foregate/foregate/tiers/engine"
	"github.com/foregate/foregate/tiers/openai"
)

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
