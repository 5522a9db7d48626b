package plan

import (
	"github.com/foregate/foregate/tiers/probe"
)

// ModeState says whether a route's engines support a mode.
type ModeState struct {
	Mode    Mode
	Missing string // reason by which requests bypass the draft; "": the mode works
	Reason  string // the same as a sentence
}

// MissingReason returns a sentence for a plan's reason that comes from a missing capability.
func (f Facts) MissingReason(reason, target string) string {
	if reason == "draft_unprobed" {
		return "the draft's engines were not asked yet"
	}
	what := map[string]string{
		"target_unprobed": probe.MissingScoring, "target_without_scoring": probe.MissingScoring,
		"target_without_logprobs": probe.MissingLogprobs, "tokenizers_differ": probe.MissingTokenize,
	}[reason]
	why := f.Target.MissingReason(what)
	if reason == "tokenizers_differ" && why == "" {
		why = "the pools' tokenizers or templates differ"
	}
	return "pool " + target + ": " + why
}
