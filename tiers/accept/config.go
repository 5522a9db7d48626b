// Package accept is the acceptance logic: it judges a draft by the draft model's token logprobs, and by the target's.
// All functions are pure: no clock, no network, no log. Start at [State] and [ScoreTracker].
//
// A draft has one score, whose running minimum only falls. Early rejection, the commit decision, and the guard after the
// commit therefore apply the same rule at different times (docs/science.md, "Scores").
package accept

// Config holds the live settings of the score.
type Config struct {
	// Threshold is the lowest score with which a draft is kept
	// (setting speculation.threshold_nats, −20 … 20).
	Threshold Nats

	// The score is the least of three terms, each shifted by its offset so that
	// one threshold fits all three. An offset is the value that the worst fifth
	// of ordinary traffic does not reach.
	MeanOffset    Nats // of the mean logprob of the answer so far (speculation.offset_mean_nats)
	WindowOffset  Nats // of the worst 16-token window's mean (speculation.offset_window_nats)
	EntropyOffset Nats // of the mean entropy of the first 8 tokens (speculation.offset_entropy_nats)

	// ScoreMap is a score that was fitted to audits; it takes the place of the three terms. nil is none.
	ScoreMap *ScoreMap
}
