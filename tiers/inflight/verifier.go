package inflight

import (
	"context"
	"time"

	"github.com/foregate/foregate/tiers/accept"
	"github.com/foregate/foregate/tiers/draft"
	"github.com/foregate/foregate/tiers/plan"
)

// Verifier asks the target to check drafts, for a request or for its audit.
type Verifier struct {
	Caller
	Scorer plan.Scorer // how [Verifier.Verify] asks
	Rule   Rule        // by which it judges what it hears

	// Before is called when there is a place for a score and before that is asked for; its error ends it. nil is not at all.
	Before func(ctx context.Context) error
	// Admission is for how many tokens a place is asked, however many are scored; 0 is for as many as are scored.
	Admission int
	// Patience is how long the target may take at least; 0 is as long as the timeout of scores says.
	Patience time.Duration
}

// NewVerifier returns the verifier that a request's plan asks for.
func NewVerifier(c Caller) Verifier {
	return Verifier{Caller: c, Scorer: c.Plan.Scorer, Rule: RuleOf(c.Plan.Rule, c.Body.Temperature)}
}

// endIDs returns the target's end-of-sequence ids; nil if unknown.
func (a Verifier) endIDs() []int32 {
	if a.Target.Capabilities == nil || len(a.Target.Capabilities.EOS) == 0 {
		return nil
	}
	return a.Target.Capabilities.EOS
}

// Draft is what the target needs to know of a draft.
type Draft struct {
	PromptIDs, IDs []int32
	Tokens         int    // of it, with or without ids
	Text           []byte // as the client would get it
	StopWord       []byte // the stop string that ended it, where Text does not hold that
	Ended          bool   // by itself: by no stop string, and by no id that the client named
	AtLimit        bool   // the client's limit ended it
	Resumes        bool   // the target can carry on from a part of it
}

// NewDraft describes a draft as far as it is.
func NewDraft(d *draft.Draft) Draft {
	t := d.Transcript()
	out := Draft{
		PromptIDs: t.PromptIDs(), IDs: t.IDs(), Tokens: d.Tokens(), Text: t.Text(),
		Ended: d.EndsItself(), AtLimit: d.Finish() == "length", Resumes: d.CanResume(),
	}
	if withStop := t.TextWithStop(); len(withStop) > len(out.Text) {
		out.StopWord = withStop[len(out.Text):]
	}
	return out
}

// Result is the target's check of a draft. With an error Scorer, Backend, Tokens and Computed are still valid.
type Result struct {
	accept.Check
	Scorer   plan.Scorer
	Backend  string // that was asked; "" is none
	Tokens   int    // that it was asked about
	Computed int    // tokens that it computed for that, prompts included
	Warm     string // the backend that has the prompt and the draft in its cache now; "" is none
	Part     *Part  // from where the target may carry on in tokens of its own; nil is nowhere
}

// Part is the accepted beginning of a draft in the target's own ids.
type Part struct {
	PromptIDs, IDs []int32
	Text           int // bytes of the draft's text
}
