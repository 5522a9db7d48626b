// Package accept is the acceptance logic: it judges a draft by the draft model's token logprobs, and by the target's.
// All functions are pure: no clock, no network, no log. Start at [ScoreTracker].
//
// A draft has one score, whose running minimum only falls. Early rejection, the commit decision, and the guard after the
// commit therefore apply the same rule at different times (docs/science.md, "Scores").
package accept

// Config holds the live settings of the score.
type Config struct {
	Threshold Nats `setting:"speculation.threshold_nats" default:"0" min:"-20" max:"20" doc:"Mode 'confidence': lowest score, in nats, with which a draft is served. A higher value serves fewer drafts."`

	// ScoreMap is a score that was fitted to audits; it takes the place of the plain score. nil is none.
	ScoreMap *ScoreMap
}

// ScoreVersion returns the version of the score: 0 is the plain one.
func (c *Config) ScoreVersion() int {
	if c.ScoreMap == nil {
		return 0
	}
	return c.ScoreMap.Version
}

// The plain score is the least of three terms, each shifted by its offset so that one threshold fits all three. An offset
// is the value that the worst fifth of ordinary traffic does not reach.
const (
	meanOffset    Nats = -0.45 // of the mean logprob of the answer so far
	windowOffset  Nats = -1.1  // of the worst 16-token window's mean
	entropyOffset Nats = 1     // of the mean entropy of the first 8 tokens
)
