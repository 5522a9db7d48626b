package accept

// minSalvage is the fewest accepted tokens worth carrying over when nothing
// was sent yet: below it a fresh answer is simpler and costs the same.
const minSalvage = 8

// CheckPolicy says when the target is asked about a draft.
type CheckPolicy uint8

// When.
const (
	CheckNever    CheckPolicy = iota
	CheckDoubtful             // where its score is in the band
	CheckAlways               // whatever its score
	CheckExact                // whatever its score, and the score alone refuses nothing
)

// Decision is what is to be done with a draft that is under way.
type Decision uint8

// The decisions.
const (
	Wait        Decision = iota
	Commit               // it may be released as it comes
	CheckTarget          // the target is to be asked now; its word goes to Heard
)

// State follows one draft as it comes: whether it is committed, whether it is
// kept in the end, and how much of it the target may carry on from when it is not. Tokens are
// judged by the Judge inside.
type State struct {
	*ScoreTracker
	HoldbackTokens        int  // tokens held back before the decision
	Whole                 bool // nothing is released before the whole draft was judged
	CanResume             bool // the target can carry on from a part of it
	CheckPolicy           CheckPolicy
	MissingLogprobsReason string // why a draft is not accepted whose tokens came without logprobs; "" is [ReasonNoLogprobs], [ReasonDoubtful] has the target asked, [ReasonConfident] accepts it
	KeepCommitted         bool   // what was committed stays, however its score falls

	Warmup bool // the threshold is the warm-up's

	AllowLowScore bool // a draft below the threshold is kept, too, down to MinLowScore: the target is short of memory
	MinLowScore   Nats

	committed bool
	cohort    Cohort
	check     *Check // what the target said, nil before
}

// NewState returns the state of one draft that is judged by cfg.
func NewState(cfg Config, c State) State {
	c.ScoreTracker = NewScoreTracker(cfg)
	switch {
	case c.MissingLogprobsReason == ReasonConfident, c.CheckPolicy >= CheckAlways:
		c.unscored = ""
	case c.MissingLogprobsReason == ReasonDoubtful && c.CheckPolicy != CheckNever:
		c.unscored = ReasonDoubtful
	}
	switch c.CheckPolicy {
	case CheckNever:
		if c.AllowLowScore {
			c.setThresholds(min(c.MinLowScore, cfg.Threshold), cfg.Threshold)
		}
	case CheckDoubtful:
		c.setThresholds(cfg.Threshold-cfg.Band, cfg.Threshold)
	case CheckAlways:
		c.setThresholds(cfg.Threshold-cfg.Band, maxThreshold)
	case CheckExact:
		c.setThresholds(-maxThreshold, maxThreshold)
	}
	return c
}

// maxThreshold is a score that no draft has.
const maxThreshold Nats = 1e9

// Decide commits to the draft when the hold-back is over and the judge stands by
// what came so far, or wants the target asked; waited says that the hold-back's time is
// over. It is to be asked at every chunk, so that the same tokens lead to the same
// decision however they were cut into reads.
func (c *State) Decide(waited bool) Decision {
	waited = waited && c.Tokens() >= headTokens // of fewer the score says what was expected before
	if c.committed || c.Whole || c.Tokens() == 0 || (c.Tokens() < max(c.HoldbackTokens, 1) && !waited) {
		return Wait
	}
	switch v := c.EarlyVerdict(); {
	case v.Accept:
		if c.committed = true; !c.AllowLowScore {
			c.cohort = CohortConfidence
			c.requireScore(c.cfg.Threshold)
		}
		return Commit
	case v.Reason == ReasonDoubtful && c.check == nil:
		return CheckTarget
	default:
		c.Reject(v.Reason)
		return Wait
	}
}

// ApplyCheck takes the target's word on what came so far; nil is that it could not say. Where it
// stands by it, the draft is accepted so far, and from then on the lower edge of the band is
// what its score must keep to.
func (c *State) ApplyCheck(said *Check) {
	if said == nil {
		said = &Check{Reason: ReasonNoVerdict}
	}
	c.check = said
	if !said.Pass {
		c.Reject(said.Reason)
		return
	}
	c.cohort = CohortWhole
	if !c.Whole {
		c.cohort, c.committed = CohortHead, true
	}
	c.unscored = ""
	c.requireScore(Nats(c.minScore))
}

// requireScore sets what the score of an accepted draft must keep to from now on.
func (c *State) requireScore(least Nats) {
	if c.KeepCommitted && c.committed {
		c.setThresholds(-maxThreshold, least)
		return
	}
	c.setThresholds(least, least)
}

// EarlyVerdict is the verdict on an unfinished draft, and by whose word it stands.
func (c *State) EarlyVerdict() Verdict { return c.withCohort(c.ScoreTracker.EarlyVerdict()) }

// FinalVerdict is the verdict on a finished draft, with its structure checked too.
func (c *State) FinalVerdict(d Draft) Verdict {
	return c.withCohort(c.ScoreTracker.FinalVerdict(d))
}

// withCohort names the lot of an accepted draft.
func (c *State) withCohort(v Verdict) Verdict {
	switch {
	case c.AllowLowScore && v.Reason == ReasonDoubtful:
		v.Accept, v.Cohort, v.Reason = true, CohortPressure, ReasonPressure
	case !v.Accept:
	case c.cohort == "" || c.cohort == CohortConfidence:
		if v.Cohort = CohortConfidence; c.Warmup {
			v.Cohort = CohortWarmup
		}
	default:
		v.Cohort, v.Reason = c.cohort, ReasonTargetAgrees
	}
	return v
}

// Committed reports whether the draft may be released as it comes.
func (c *State) Committed() bool { return c.committed }

// IsAnswer reports whether a draft that is over is the answer: it was accepted, or it
// was committed, came to its end (ended), and only its shape is at fault, which
// cannot be taken back any more.
func (c *State) IsAnswer(v Verdict, ended bool) bool {
	return v.Accept || (c.committed && ended && (c.KeepCommitted || v.Reason != ReasonScore))
}

// VerifiedTokens is how many tokens the target stood by where it was asked and did not stand by
// all; −1 where it was not asked or could not say.
func (c *State) VerifiedTokens() int {
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
	case !c.CanResume:
		return Salvage{}
	case c.committed:
		return Salvage{Tokens: c.Tokens()}
	case c.VerifiedTokens() >= 0:
		return Salvage{Tokens: c.VerifiedTokens()} // to the token: the engine has its cache warm as far as that
	case c.CheckPolicy >= CheckAlways:
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
