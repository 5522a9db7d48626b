package accept

// minSalvage is the least number of accepted tokens worth continuing if nothing was sent: for fewer a fresh answer is
// simpler and costs the same.
const minSalvage = 8

// State follows one draft: whether it is committed, whether it is served in the end, and how much of a rejected draft
// the target may continue. The embedded [ScoreTracker] scores its tokens.
type State struct {
	*ScoreTracker
	HoldbackTokens int  // tokens held back before the decision
	Whole          bool // nothing is released before the whole draft was judged
	CanResume      bool // the target can continue a part of it
	Checked        bool // the target checks the whole draft: its own score does not count
	KeepCommitted  bool // a committed draft stays, even if its score falls

	Warmup bool // the threshold is that of a warm-up

	committed bool
	check     *Check // what the target said, nil before
}

// NewState returns the state of one draft that is judged by cfg.
func NewState(cfg Config, c State) State {
	c.ScoreTracker = NewScoreTracker(cfg)
	if c.Checked {
		c.checked = true
		c.setThresholds(-maxThreshold, maxThreshold)
	}
	return c
}

// maxThreshold is a score that no draft has.
const maxThreshold Nats = 1e9

// Decide commits to the draft when the hold-back is over and the score so far is accepted. It reports whether it did.
// waited says that the hold-back's time is over. Call it after every chunk, so that equal tokens lead to equal decisions
// however they were split into chunks.
func (c *State) Decide(waited bool) bool {
	if c.committed || c.Whole || !c.IsDue(waited) {
		return false
	}
	v := c.EarlyVerdict()
	if !v.Accept {
		c.Reject(v.Reason)
		return false
	}
	c.committed = true
	c.requireScore(c.cfg.Threshold)
	return true
}

// IsDue reports whether the hold-back is over after the tokens so far. waited is as in [State.Decide].
func (c *State) IsDue(waited bool) bool {
	enough := max(c.HoldbackTokens, 1)
	if waited {
		enough = min(enough, headTokens) // the score of fewer tokens is mostly the prior
	}
	return c.Tokens() >= enough
}

// ApplyCheck takes the target's check of the whole draft; nil means that there is none.
func (c *State) ApplyCheck(result *Check) {
	if result == nil {
		result = &Check{Reason: ReasonNoVerdict}
	}
	c.check = result
	if !result.Pass {
		c.Reject(result.Reason)
		return
	}
	c.requireScore(Nats(c.minScore))
}

// requireScore sets the least score of an accepted draft from now on.
func (c *State) requireScore(minimum Nats) {
	if c.KeepCommitted && c.committed {
		c.setThresholds(-maxThreshold, minimum)
		return
	}
	c.setThresholds(minimum, minimum)
}

// EarlyVerdict returns the verdict on an unfinished draft, with its cohort.
func (c *State) EarlyVerdict() Verdict { return c.withCohort(c.ScoreTracker.EarlyVerdict()) }

// FinalVerdict returns the verdict on a finished draft, including its structure.
func (c *State) FinalVerdict(d Draft) Verdict {
	return c.withCohort(c.ScoreTracker.FinalVerdict(d))
}

// withCohort sets the cohort of an accepted draft.
func (c *State) withCohort(v Verdict) Verdict {
	switch {
	case !v.Accept:
	case c.check != nil && c.check.Pass:
		v.Cohort, v.Reason = CohortWhole, ReasonTargetAgrees
	case c.Warmup:
		v.Cohort = CohortWarmup
	default:
		v.Cohort = CohortConfidence
	}
	return v
}

// Committed reports whether the draft is sent as it comes.
func (c *State) Committed() bool { return c.committed }

// IsAnswer reports whether a finished draft is the answer: it was accepted, or it was committed, is complete (ended), and
// only the way in which it ended is at fault, or the score of one that stays.
func (c *State) IsAnswer(v Verdict, ended bool) bool {
	return v.Accept || (c.committed && ended && (v.Reason == ReasonCut || c.KeepCommitted && v.Reason == ReasonDoubtful))
}

// VerifiedTokens returns how many tokens the target accepted if it rejected a part; −1 if it was not asked or gave no
// verdict.
func (c *State) VerifiedTokens() int {
	if c.check == nil || c.check.Reason == ReasonNoVerdict {
		return -1
	}
	return c.check.Kept
}

// Salvage says how much of a rejected draft the target may continue; the zero value is nothing.
type Salvage struct {
	Tokens     int  // at most so many from the beginning
	AtSentence bool // prefer the end of a sentence or a line if one is near
	Min        int  // not worth it for fewer tokens
}

// Salvage returns how much of a draft that was rejected for the verdict's reason may be continued. What the client has
// of a committed draft is always within it.
func (c *State) Salvage(v Verdict, ended bool) Salvage {
	switch {
	case !c.CanResume:
		return Salvage{}
	case c.committed:
		return Salvage{Tokens: c.Tokens()}
	case c.VerifiedTokens() >= 0:
		return Salvage{Tokens: c.VerifiedTokens()} // exact: the engine has these tokens in its KV cache
	case c.Checked:
		return Salvage{} // without a check by the target nothing is used
	case v.Reason != ReasonScore && v.Reason != ReasonLost && (v.Reason != ReasonCut || ended):
		return Salvage{} // what is wrong with it is not a doubt behind a place, so no part of it was accepted
	}
	tokens := c.Tokens()
	if c.Rejected() {
		tokens = c.SafePrefix()
	}
	return Salvage{Tokens: tokens, AtSentence: true, Min: minSalvage}
}
