package plan

import (
	"github.com/foregate/foregate/tiers/probe"
)

// ModeState says whether a route's engines allow a mode.
type ModeState struct {
	Mode    Mode
	Missing string // the reason with which requests bypass the draft; "" where the mode works
	Reason  string // in words
}

// MissingReason words the reason of a plan that a card is behind.
func (f Facts) MissingReason(reason, target string) string {
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
