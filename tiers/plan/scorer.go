package plan

import "github.com/foregate/foregate/tiers/probe"

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
	if f.Target == nil {
		return ScorerNone, "target_unprobed"
	}
	same, known := probe.SameTokens(f.Draft, f.Target)
	switch {
	case f.Target.Scoring == "":
		return ScorerNone, "target_without_scoring"
	case known && same && f.Draft.TokenIDs && f.Draft.MissingReason(probe.MissingPromptIDs) == "":
		return ScorerIDs, ""
	case f.Target.MissingReason(probe.MissingTokenize) == "" && f.Target.MissingReason(probe.MissingWords) == "" && !f.Request.Rendered():
		return ScorerText, ""
	}
	return ScorerNone, "tokenizers_differ"
}

// AuditorFor returns how the target can label audited drafts, or the capability that it lacks.
func AuditorFor(cfg Config, f Facts) (s Scorer, missing string) {
	if f.Target == nil {
		return ScorerNone, "target_unprobed"
	}
	judge := f.Target.MissingReason(probe.MissingLogprobs) == ""
	switch cfg.Risk.Label {
	case LabelJudge:
		if !judge {
			return ScorerNone, "target_without_logprobs"
		}
		return ScorerJudge, ""
	case LabelExact:
		return ScorerFor(f)
	case LabelRegenerate:
		if judge {
			return ScorerJudge, ""
		}
		return ScorerNone, "" // then a draft is good only if the target's answer is the same
	}
	if s, missing = ScorerFor(f); missing != "" && judge {
		return ScorerJudge, ""
	}
	return s, missing
}
