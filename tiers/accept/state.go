package accept

// minSalvage is the fewest accepted tokens worth carrying over when nothing
// was sent yet: below it a fresh answer is simpler and costs the same.
const minSalvage = 8

// Ask says when the target is asked about a draft.
type Ask uint8

// When.
const (
	AskNever  Ask = iota
	AskDoubt      // where its score is in the band
	AskAlways     // whatever its score
	AskExact      // whatever its score, and the score alone refuses nothing
)

// Decision is what is to be done with a draft that is under way.
type Decision uint8

// The decisions.
const (
	Wait   Decision = iota
	Commit          // it may be released as it comes
	Doubt           // the target is to be asked now; its word goes to Heard
)

// State follows one draft as it comes: whether it is committed, whether it is
// kept in the end, and how much of it the target may carry on from when it is not. Tokens are
// judged by the Judge inside.
type State struct {
	*Judge
	Holdback int  // tokens held back before the decision
	Whole    bool // nothing is released before the whole draft was judged
	Resumes  bool // the target can carry on from a part of it
	Ask      Ask
	Unscored string // why a draft is not accepted whose tokens came without logprobs; "" is [ReasonNoLogprobs], [ReasonDoubtful] has the target asked, [ReasonConfident] accepts it
	Stays    bool   // what was committed stays, however its score falls

	Warmup bool // the threshold is the warm-up's

	Pressed   bool // a draft below the threshold is kept, too, down to PressedAt: the target is short of memory
	PressedAt Nats

	committed bool
	lot       Lot
	check     *Check // what the target said, nil before
}

// NewState returns the state of one draft that is judged by cfg.
func NewState(cfg Config, c State) State {
	c.Judge = NewJudge(cfg)
	switch {
	case c.Unscored == ReasonConfident, c.Ask >= AskAlways:
		c.unscored = ""
	case c.Unscored == ReasonDoubtful && c.Ask != AskNever:
		c.unscored = ReasonDoubtful
	}
	switch c.Ask {
	case AskNever:
		if c.Pressed {
			c.hold(min(c.PressedAt, cfg.Threshold), cfg.Threshold)
		}
	case AskDoubt:
		c.hold(cfg.Threshold-cfg.Band, cfg.Threshold)
	case AskAlways:
		c.hold(cfg.Threshold-cfg.Band, always)
	case AskExact:
		c.hold(-always, always)
	}
	return c
}

// always is a score that no draft has.
const always Nats = 1e9

// Decide commits to the draft when the hold-back is over and the judge stands by
// what came so far, or wants the target asked; waited says that the hold-back's time is
// over. It is to be asked at every chunk, so that the same tokens lead to the same
// decision however they were cut into reads.
func (c *State) Decide(waited bool) Decision {
	waited = waited && c.Tokens() >= headTokens // of fewer the score says what was expected before
	if c.committed || c.Whole || c.Tokens() == 0 || (c.Tokens() < max(c.Holdback, 1) && !waited) {
		return Wait
	}
	switch v := c.Early(); {
	case v.Accept:
		if c.committed = true; !c.Pressed {
			c.lot = LotConfidence
			c.guard(c.cfg.Threshold)
		}
		return Commit
	case v.Reason == ReasonDoubtful && c.check == nil:
		return Doubt
	default:
		c.Refuse(v.Reason)
		return Wait
	}
}

// Heard takes the target's word on what came so far; nil is that it could not say. Where it
// stands by it, the draft is accepted so far, and from then on the lower edge of the band is
// what its score must keep to.
func (c *State) Heard(said *Check) {
	if said == nil {
		said = &Check{Reason: ReasonNoVerdict}
	}
	c.check = said
	if !said.Pass {
		c.Refuse(said.Reason)
		return
	}
	c.lot = LotWhole
	if !c.Whole {
		c.lot, c.committed = LotHead, true
	}
	c.unscored = ""
	c.guard(Nats(c.floor))
}

// guard sets what the score of an accepted draft must keep to from now on.
func (c *State) guard(least Nats) {
	if c.Stays && c.committed {
		c.hold(-always, least)
		return
	}
	c.hold(least, least)
}

// Early is the verdict on an unfinished draft, and by whose word it stands.
func (c *State) Early() Verdict { return c.told(c.Judge.Early()) }

// Final is the verdict on a finished draft, with its structure checked too.
func (c *State) Final(d Draft) Verdict {
	return c.told(c.Judge.Final(d))
}

// told names the lot of an accepted draft.
func (c *State) told(v Verdict) Verdict {
	switch {
	case c.Pressed && v.Reason == ReasonDoubtful:
		v.Accept, v.Lot, v.Reason = true, LotPressed, ReasonPressed
	case !v.Accept:
	case c.lot == "" || c.lot == LotConfidence:
		if v.Lot = LotConfidence; c.Warmup {
			v.Lot = LotWarmup
		}
	default:
		v.Lot, v.Reason = c.lot, ReasonStandsBy
	}
	return v
}

// Committed reports whether the draft may be released as it comes.
func (c *State) Committed() bool { return c.committed }

// Keeps reports whether a draft that is over is the answer: it was accepted, or it
// was committed, came to its end (ended), and only its shape is at fault, which
// cannot be taken back any more.
func (c *State) Keeps(v Verdict, ended bool) bool {
	return v.Accept || (c.committed && ended && (c.Stays || v.Reason != ReasonScore))
}

// Vouched is how many tokens the target stood by where it was asked and did not stand by
// all; −1 where it was not asked or could not say.
func (c *State) Vouched() int {
	if c.check == nil || c.check.Reason == ReasonNoVerdict {
		return -1
	}
	return c.check.Kept
}

// Salvage is how much of a draft that was not kept the target may carry on from: the zero value is nothing.
type Salvage struct {
	Tokens     int  // at most so many from its beginning
	AtSentence bool // rather at the end of a sentence or a line, if one is near
	Min        int  // fewer tokens than these are not worth it
}

// Salvage says how much of a draft may be carried on from that was not kept for the verdict's reason. What the client
// has of a committed one is within it.
func (c *State) Salvage(v Verdict, ended bool) Salvage {
	switch {
	case !c.Resumes:
		return Salvage{}
	case c.committed:
		return Salvage{Tokens: c.Tokens()}
	case c.Vouched() >= 0:
		return Salvage{Tokens: c.Vouched()} // to the token: the engine has its cache warm as far as that
	case c.Ask >= AskAlways:
		return Salvage{} // what the target has not seen goes to nobody
	case v.Reason == ReasonNoLogprobs, v.Reason == ReasonRepetition, v.Reason == ReasonEmpty, v.Reason == ReasonLong,
		v.Reason == ReasonCut && ended:
		return Salvage{} // no part of it was vouched for
	}
	tokens := c.Tokens()
	if c.Rejected() {
		tokens = c.SafePrefix()
	}
	return Salvage{Tokens: tokens, AtSentence: true, Min: minSalvage}
}
