package plan

import (
	"github.com/foregate/foregate/tiers/accept"
	"github.com/foregate/foregate/tiers/risk"
)

// Keeping says when an answer may be kept for other requests.
type Keeping uint8

// The values.
const (
	KeepNow            Keeping = iota // at once
	KeepIfAudited                     // once the audit of its draft has passed; never, if there is none
	KeepIfChecked                     // once the target, asked for this, has accepted its draft
	KeepUnlessRejected                // once the target, asked for this, has accepted its draft, or could not be asked
)

// Served describes an answer as far as a draft is in it.
type Served struct {
	Verdict  accept.Verdict // of the draft; zero if none was judged
	Whole    bool           // the whole answer is the draft
	Accepted int            // tokens of the draft in the answer
}

// byScore reports whether no check of all of the draft by the target accepted it.
func (s *Served) byScore() bool {
	return s.Verdict.Reason != "" && !s.Verdict.IsChecked()
}

// KeepingOf decides when an answer by a decision may be kept. own is the evidence that the decision used.
//
// One wrong draft that is kept is served again with every hit. So drafts that nothing has certified yet, those of a
// warm-up, are kept only after the target has accepted them, and so are doubtful ones, unless c says never. Where the
// draft is audited anyway, its audit decides, whatever the score.
//
// A check is not an audit: it is made because of the draft's score, so it is no random sample, and its outcome is no
// evidence.
func (c *Config) KeepingOf(s Served, d *Decision, own risk.View) Keeping {
	t := d.Audit
	warmup := t != nil && t.Warmup && s.Accepted > 0 && s.byScore()
	audited := t != nil && t.Own.Audited && !t.Shadow
	switch {
	case warmup && (audited || !s.Whole || !c.VerifyDrafts.Checks()):
		return KeepIfAudited
	case warmup:
		return KeepIfChecked
	case !s.Whole || !s.byScore() || !c.VerifyDrafts.Checks():
		return KeepNow
	case audited:
		return KeepIfAudited
	case c.isDoubtful(&s.Verdict, d.Accept.Threshold, own):
		return KeepIfChecked
	case c.VerifyDrafts == VerifyAlways:
		return KeepUnlessRejected
	}
	return KeepNow
}

// doubtfulNats is how far above the threshold of mode confidence a score is doubtful: about a third of its spread over
// ordinary drafts.
const doubtfulNats accept.Nats = 0.3

// isDoubtful reports whether a served draft is doubtful: it was served although its verdict is a rejection, or its score
// is little above the threshold. That is, in the audited modes, within the loosest two certified thresholds, and else
// within [doubtfulNats] above the threshold.
func (c *Config) isDoubtful(v *accept.Verdict, threshold accept.Nats, own risk.View) bool {
	switch {
	case !v.Accept:
		return true
	case c.Mode.Audited():
		return float64(v.Score) < own.Sure
	}
	return v.Score < threshold+doubtfulNats
}
