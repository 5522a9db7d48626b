package plan

import (
	"strings"

	"github.com/foregate/foregate/tiers/probe"
)

// Scorer says how the target checks a draft.
type Scorer string

// The scorers.
const (
	ScorerNone  Scorer = ""
	ScorerIDs   Scorer = "ids"   // it scores the draft's own tokens
	ScorerText  Scorer = "text"  // it scores the draft's text in its own tokens, because the tokenizers differ
	ScorerJudge Scorer = "judge" // it is asked in words whether the answer is correct
)

// ScorerFor returns how the target can score drafts, or the capability that it lacks for that.
func ScorerFor(f Facts) (s Scorer, missing string) {
	same, known := probe.SameTokens(f.Draft, f.Target)
	switch {
	case f.Target.Pending(probe.MissingScoring):
		return ScorerNone, "target_unprobed"
	case f.Target.Scoring == "":
		return ScorerNone, "target_without_scoring"
	case known && same && f.Draft.Pending(probe.MissingPromptIDs):
		return ScorerNone, "draft_unprobed"
	case known && same && f.Draft.TokenIDs && f.Draft.MissingReason(probe.MissingPromptIDs) == "":
		return ScorerIDs, ""
	case f.Target.MissingReason(probe.MissingTokenize) == "" && f.Target.MissingReason(probe.MissingWords) == "" && !f.Request.Rendered():
		return ScorerText, ""
	}
	return ScorerNone, "tokenizers_differ"
}

// AuditorFor returns how the target can label audited drafts, or the capability that it lacks. Evidence is kept by it, so
// what is not known yet is not taken for missing.
func AuditorFor(cfg Config, f Facts) (s Scorer, missing string) {
	s, missing = ScorerFor(f)
	switch label := cfg.Risk.Label; {
	case label == LabelExact:
		return s, missing
	case label != LabelJudge && label != LabelRegenerate && (missing == "" || strings.HasSuffix(missing, "_unprobed")):
		return s, missing
	case f.Target.Pending(probe.MissingLogprobs):
		return ScorerNone, "target_unprobed"
	case f.Target.MissingReason(probe.MissingLogprobs) == "":
		return ScorerJudge, ""
	case label == LabelJudge:
		return ScorerNone, "target_without_logprobs"
	case label == LabelRegenerate:
		return ScorerNone, "" // then a draft is good only if the target's answer is the same
	}
	return s, missing
}
