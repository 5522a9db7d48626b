// Package verify asks the target about drafts: whether it stands by one ([Asker.Ask]), what it would have written in a
// block's place ([Asker.Score]), and what it draws itself ([Asker.ScoreListed], [Asker.Draws]). It also has engines turn text
// into ids and back ([TokenizeText], [Counter]).
//
// It keeps no record and settles nothing: what the target said is a value.
package verify

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/foregate/foregate/tiers/accept"
	"github.com/foregate/foregate/tiers/draft"
	"github.com/foregate/foregate/tiers/engine"
	"github.com/foregate/foregate/tiers/inflight"
	"github.com/foregate/foregate/tiers/plan"
	"github.com/foregate/foregate/tiers/pool"
	"github.com/foregate/foregate/tiers/receipt"
	"github.com/foregate/foregate/tiers/scoring"
)

// Asker asks the target in the name of a request, or of its audit.
type Asker struct {
	inflight.Caller
	Scorer plan.Scorer // how [Asker.Ask] asks
	Rule   Rule        // by which it judges what it hears

	// Before is called when there is a place for a score and before that is asked for; its error ends it. nil is not at all.
	Before func(ctx context.Context) error
	// Place is for how many tokens a place is asked, however many are scored; 0 is for as many as are scored.
	Place int
}

// Of returns who asks about a request's draft as its plan says.
func Of(c inflight.Caller) Asker {
	return Asker{Caller: c, Scorer: c.Plan.Scorer, Rule: RuleOf(c.Plan.Mode, &c.Config, c.Body.Temperature)}
}

// Rule is how the target's opinions of a draft are judged.
type Rule struct {
	Exact    bool            // every token is what the target would have chosen, but for ties
	Tie      accept.Nats     // of these
	Leniency accept.Leniency // else
}

// RuleOf is a mode's rule for answers at a temperature.
func RuleOf(m plan.Mode, cfg *plan.Config, temperature float64) Rule {
	return Rule{Exact: m == plan.ModeVerify, Tie: cfg.Tie, Leniency: cfg.Strictness.Leniency(temperature)}
}

// Check judges what the target said of the tokens of a draft.
func (r Rule) Check(choices []accept.Choice) accept.Check {
	opinions := make([]accept.Opinion, len(choices))
	for i := range choices {
		opinions[i] = choices[i].Opinion
	}
	if r.Exact {
		return accept.Greedy(opinions, r.Tie)
	}
	return r.Leniency.Check(opinions)
}

// Draft is what is known of a draft when the target is asked about it.
type Draft struct {
	PromptIDs, IDs []int32
	Tokens         int    // of it, with or without ids
	Text           []byte // as the client would get it
	StopWord       []byte // the stop string that ended it, where Text does not hold that
	Ended          bool   // by itself: by no stop string, and by no id that the client named
	AtLimit        bool   // the client's limit ended it
	Resumes        bool   // the target can carry on from a part of it
}

// About is what a target is told of a draft as far as it is.
func About(d *draft.Draft) Draft {
	t := d.Transcript()
	out := Draft{
		PromptIDs: t.PromptIDs(), IDs: t.IDs(), Tokens: d.Tokens(), Text: t.Text(),
		Ended: d.EndsItself(), AtLimit: d.Finish() == "length", Resumes: d.Resumes(),
	}
	if withStop := t.TextWithStop(); len(withStop) > len(out.Text) {
		out.StopWord = withStop[len(out.Text):]
	}
	return out
}

// Result is the target's word on a draft. With an error it holds what is known all the same: Scorer, Backend, Tokens and
// Computed.
type Result struct {
	accept.Check
	Scorer   plan.Scorer
	Backend  string // that was asked; "" is none
	Tokens   int    // that it was asked about
	Computed int    // tokens that it computed for that, prompts included
	Warm     string // the backend that has the prompt and the draft in its cache now; "" is none
	Part     *Part  // from where the target may carry on in tokens of its own; nil is nowhere
}

// Part is the beginning of a draft, in the target's own ids.
type Part struct {
	PromptIDs, IDs []int32
	Text           int // bytes of the draft's text
}

// Ask asks the target what it thinks of the draft as far as it is. An error is that it could not say: see [WhyUnheard].
func (a Asker) Ask(ctx context.Context, d Draft) (Result, error) {
	r := Result{Scorer: a.Scorer, Tokens: len(d.IDs)}
	var err error
	switch a.Scorer {
	case plan.ScorerJudge:
		err = a.inWords(ctx, d, &r)
	case plan.ScorerText:
		err = a.byText(ctx, d, &r)
	case plan.ScorerIDs:
		err = a.byIDs(ctx, d, &r)
	default:
		err = errNoScorer
	}
	return r, err
}

// Checked is a result for the record; err is that of [Asker.Ask].
func (r Result) Checked(err error, took time.Duration) receipt.Checked {
	c := receipt.Checked{Scorer: r.Scorer, Backend: r.Backend, Tokens: r.Tokens, Took: took}
	if err != nil {
		c.Reason = WhyUnheard(err)
		return c
	}
	c.Pass, c.Kept, c.Score, c.Reason = r.Pass, r.Kept, r.Score, r.Reason
	return c
}

// byIDs has the target score the draft's own ids. That the answer ends is a choice, too, also where an engine does not
// tell its id.
func (a Asker) byIDs(ctx context.Context, d Draft, r *Result) error {
	if len(d.PromptIDs) == 0 || len(d.IDs) == 0 || len(d.IDs) != d.Tokens {
		return errNoIDs // a backend of the pool told some of them only
	}
	ids := d.IDs
	if end := a.end(); d.Ended && end != nil && !slices.Contains(end, ids[len(ids)-1]) {
		ids = append(slices.Clone(ids), end[0])
	}
	s, err := a.Score(ctx, Question{Prompt: d.PromptIDs, IDs: ids})
	r.Backend, r.Computed = s.Backend, s.Computed
	if err != nil {
		return err
	}
	r.Warm = s.Backend
	r.Check = a.Rule.Check(s.Choices)
	r.Kept = min(r.Kept, len(d.IDs))
	return nil
}

// end are the ids that end the target's answers; nil where none is known.
func (a Asker) end() []int32 {
	if a.Target.Card == nil || len(a.Target.Card.EOS) == 0 {
		return nil
	}
	return a.Target.Card.EOS
}

var (
	errNoIDs    = errors.New("the draft came without token ids")
	errNoScorer = errors.New("there is no way to ask")
)

// WhyUnheard is why the target could not say, in one word, for receipts and metrics.
func WhyUnheard(err error) string {
	if refused, ok := errors.AsType[*scoring.RefusedError](err); ok {
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
