package accept

// Nats is a natural-log probability or a difference of such. Thresholds carry
// the unit in their names; never compare a score with a number of another unit.
type Nats float64

// Verdict is the answer of the acceptance logic.
type Verdict struct {
	Accept bool
	Reason string // why; one of the Reason constants
	Score  Nats   // the running minimum
	Tokens int    // tokens judged
}

// LateReason returns the reason for a draft that is the answer although it was rejected: the client had it already.
func (v Verdict) LateReason() string { return "late_" + v.Reason }

// IsChecked reports whether the target has checked all of the draft and stands by it; else its own score has decided.
func (v Verdict) IsChecked() bool { return v.Reason == ReasonTargetAgrees }

// Why a draft was kept or not.
const (
	ReasonConfident       = "confident"        // the score stayed at or above the threshold
	ReasonScore           = "low_score"        // the score fell below the threshold
	ReasonNoLogprobs      = "missing_logprobs" // too few tokens came with logprobs
	ReasonEmpty           = "empty"            // nothing, or only white space
	ReasonRepetition      = "repetition"       // the answer runs in circles
	ReasonLost            = "draft_lost"       // its backend failed
	ReasonCut             = "cut_short"        // it ended for another reason than the model's or the client's limit
	ReasonInvalid         = "invalid_json"     // JSON was asked for, and this is none
	ReasonLong            = "too_long"         // it outgrew what an answer may be
	ReasonDoubtful        = "doubtful"         // the score does not decide: the target is asked
	ReasonTargetAgrees    = "target_agrees"    // the target was asked, and stands by it
	ReasonTargetDisagrees = "target_disagrees" // the target was asked, and does not
	ReasonNoVerdict       = "no_verdict"       // the target was asked, and could not say
)

// ScorePoint is the score of a draft when so many tokens had come.
type ScorePoint struct {
	Tokens int
	Score  Nats
}
