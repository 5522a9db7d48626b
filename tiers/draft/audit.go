package draft

import (
	"github.com/foregate/foregate/tiers/accept"
	"github.com/foregate/foregate/tiers/openai"
	"github.com/foregate/foregate/tiers/plan"
)

// Audit is a draft that is audited: it is judged like the one that the client may get, but goes on
// to its end while its score is of interest, whatever becomes of the other meanwhile. A draft in
// the shadow is an Audit only. Nobody gets it, and nobody is asked before it is over.
type Audit struct {
	*Draft                  // committed where the client would have been shown its beginning
	over    bool            // nothing more of it is wanted
	left    bool            // the client left before its end
	verdict *accept.Verdict // of one that came in one piece
}

// NewAudit starts the audit of a draft with the given options. Scores below floor are of no interest.
func NewAudit(o Options, floor accept.Nats) *Audit {
	was := o.Decision
	d := &plan.Decision{Plan: plan.Plan{Tier: plan.Draft, Judged: true, Whole: was.Whole, Calls: was.Calls, Resume: was.Resume}, Accept: was.Accept}
	d.Accept.Threshold = floor
	o.Decision = d
	return &Audit{Draft: New(o)}
}

// Observe takes a chunk of the client's draft. waited says that the hold-back's time is over. Whoever has a threshold that
// is at or below the score would have been shown the draft from the end of the hold-back on, as [Draft.Commit] does.
func (a *Audit) Observe(c *openai.Chunk, waited bool) {
	if !a.NeedsMore() {
		return
	}
	if a.over = a.Take(c) || a.state == Rejected; a.over || a.finish != "" {
		return
	}
	a.Commit(waited)
	a.over = a.state == Rejected
}

// ObserveWhole takes a draft that came in one piece.
func (a *Audit) ObserveWhole(whole *openai.DraftAnswer) {
	a.TakeWhole(whole)
	v := a.End()
	a.verdict, a.over = &v, !v.Accept
}

// Leave says that the draft ended with its request. It reports whether the client was shown its beginning, which is then
// the draft.
func (a *Audit) Leave() (shown bool) {
	a.left = a.finish == ""
	return a.Committed()
}

// Left reports whether the draft is only the beginning of one, whose client has left.
func (a *Audit) Left() bool { return a.left }

// NeedsMore reports whether the audit needs more of the draft. It is false on nil.
func (a *Audit) NeedsMore() bool { return a != nil && !a.over && a.finish == "" }

// Verdict is that on the whole draft; zero where it was not read to its end.
func (a *Audit) Verdict() accept.Verdict {
	switch {
	case a.verdict != nil:
		return *a.verdict
	case a.left:
		return a.EarlyVerdict()
	case a.over && a.finish == "" && !a.Committed():
		return accept.Verdict{}
	}
	return a.End()
}

// IsMalformed reports whether the shape of a draft turned out to be at fault after the client was shown its beginning.
// Nobody needs to be asked: it is bad.
func (a *Audit) IsMalformed(v accept.Verdict) bool {
	return a.Committed() && v.Tokens > 0 && v.Reason != accept.ReasonScore
}
