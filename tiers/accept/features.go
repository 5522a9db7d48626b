package accept

const (
	// featureCount is how many features a draft has.
	featureCount = 7
	// worstTokens is the length in tokens of the short window: about a name or a number, which
	// is where a draft that is fluent goes wrong.
	worstTokens = 4
	// surpriseFrom is the logprob in nats below which a token is a surprise, and maxSurprise the most nats that one token adds to
	// [FeatureSurprise].
	surpriseFrom = -1
	maxSurprise  = 4
)

// Features are the inputs of the score. From the eighth token on each of them only falls, so a sum with weights of 0 or
// more only falls, too, and crossing a threshold is final. They are finite.
type Features [featureCount]float64

// The features, in nats where nothing is said.
const (
	FeatureMean     = iota // least shrunk mean logprob of the answer so far, from the eighth token on
	FeatureWindow          // least shrunk mean logprob of any 16 tokens
	FeatureEntropy         // minus the mean entropy of the first 8 tokens
	FeatureWorst           // least mean logprob of any 4 tokens
	FeatureLength          // minus the natural logarithm of the tokens
	FeatureDoubt           // −ln(1 + Σ (1 − p)), p the probability of each token: the sum is how many other tokens are expected
	FeatureSurprise        // −ln(1 + Σ nats below −1 of each token, 4 at most)
)

// FeatureNames are their names in order, as logs show them.
var FeatureNames = [featureCount]string{"mean", "window", "entropy", "worst4", "length", "doubt", "surprise"}

// maxScore is the highest fitted score. A score that no draft has is at least as high.
const maxScore Nats = 1e9

// ScoreMap is a fitted score: the log odds that the target accepts a draft, fitted to audits (tiers/refit).
// Weights are 0 or more.
type ScoreMap struct {
	Version int      `json:"version"`
	Bias    float64  `json:"bias"`
	Weights Features `json:"weights"`
	// Applications are what the log odds of applications differ by from those of a draft of any, by [ApplicationKey].
	Applications map[string]float64 `json:"applications,omitempty"`
}

// Score returns bias + Σ weight·feature: log odds in nats, within ±1e9. If the map or the features are not numbers it is
// −1e9, which no threshold accepts.
func (m *ScoreMap) Score(f Features) Nats {
	s := m.Bias
	for i, w := range m.Weights {
		s += w * f[i]
	}
	if !(s > -float64(maxScore) && s < float64(maxScore)) { // NaN is neither
		return -maxScore
	}
	return Nats(s)
}
