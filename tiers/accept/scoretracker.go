package accept

import "math"

const (
	// window is the length in tokens of the running window; a run of doubtful
	// tokens of about a clause's length is what announces a rejection.
	window = 16
	// HeadTokens is how many first tokens the entropy term looks at, and the
	// fewest after which a score may abort a draft.
	HeadTokens = 8
	// priorTokens and priorMean shrink the means of short answers: as if so many
	// tokens of so many nats each had come before.
	priorTokens = 8
	priorMean   = -0.25
	// maxMissing is the share of tokens that may lack a logprob.
	maxMissing = 0.10
	// NoLogprob is what engines write for minus infinity, and stands for a token that came without a logprob.
	NoLogprob = -9999
	// maxLogprob is how far rounding may lift a logprob above 0; what is above that is none.
	maxLogprob = 0.01
)

// ScoreTracker scores one draft token by token. Its score is
//
//	s = min( mean − b_mean, minwin − b_win, −(entropy − b_H) )
//
// with mean the shrunk mean logprob so far, minwin the least shrunk mean of
// any window of 16 tokens, and entropy the mean truncated entropy of the first 8
// tokens, all in nats; or, where there is one, what a [ScoreMap] makes of the [Features].
// The judged value is the running minimum of s, so crossing the threshold is final.
// Adding a token is O(1) and does not allocate.
//
// The mean may rise again; that is why the minimum is kept over tokens from the
// eighth on, and why an answer shorter than that is scored once, at its end.
type ScoreTracker struct {
	cfg         Config
	minScore    float64 // crossing it is final
	acceptScore float64 // the least score that is accepted

	checked bool // the target decides: a draft without logprobs may be accepted

	n, missing int
	ends       int // tokens that only ended the answer and were not judged
	sum        float64
	recent     [window]float64 // the last logprobs, a ring
	recentSum  float64
	entropy    float64 // summed over the head
	doubt      float64 // summed 1 − probability
	surprise   float64 // summed nats below surpriseFrom, maxSurprise each at most
	minMean    float64 // from the eighth token on
	minWindow  float64
	minWorst   float64
	worstStart int // first token of the worst window
	min        float64
	crossed    bool
	refused    string // a reason from outside the score
}

// NewScoreTracker returns a tracker for one draft that is rejected below the threshold.
func NewScoreTracker(cfg Config) *ScoreTracker {
	maximum := math.Inf(1)
	j := &ScoreTracker{cfg: cfg, min: maximum, minMean: maximum, minWindow: maximum, minWorst: maximum}
	j.minScore, j.acceptScore = float64(cfg.Threshold), float64(cfg.Threshold)
	return j
}

// maxThreshold is a score that no draft has.
const maxThreshold = 1e9

// AwaitTarget says that the target checks the draft: its own score neither accepts nor rejects it.
func (t *ScoreTracker) AwaitTarget() {
	t.checked = true
	t.minScore, t.acceptScore = -maxThreshold, maxThreshold
}

// Pass says that the target stands by the draft.
func (t *ScoreTracker) Pass() { t.acceptScore = t.minScore }

// Add scores the next token: its logprob, and those of the most likely alternatives at its position (any order, possibly
// with its own, possibly none). It reports whether the draft may still be accepted.
func (t *ScoreTracker) Add(logprob float64, top []float64) bool {
	if !(logprob > NoLogprob && logprob <= maxLogprob) { // NaN is neither
		t.missing++
		logprob = priorMean
	}
	slot := t.n % window
	t.recentSum += logprob - t.recent[slot]
	t.recent[slot] = logprob
	t.sum += logprob
	if t.n < HeadTokens {
		t.entropy += truncatedEntropy(logprob, top)
	}
	t.doubt += max(1-math.Exp(logprob), 0) // rounding may lift the logprob above 0
	t.surprise += min(max(surpriseFrom-logprob, 0), maxSurprise)
	t.n++
	t.updateWindow()
	if t.n >= HeadTokens {
		t.updateMinimum()
	}
	return !t.crossed
}

// NeedsTopLogprobs reports whether the score uses the alternatives of the next token: only those of the first tokens.
func (t *ScoreTracker) NeedsTopLogprobs() bool { return t.n < HeadTokens }

// AddEnd counts a token that only ended the answer and has no logprob. It is neither scored nor missing.
func (t *ScoreTracker) AddEnd() { t.ends++ }

func (t *ScoreTracker) updateWindow() {
	filled := min(t.n, window)
	mean := (t.recentSum + float64(window-filled)*priorMean) / window
	if mean < t.minWindow {
		t.minWindow = mean
		t.worstStart = max(t.n-window, 0)
	}
	if t.n >= worstTokens {
		if few := t.recentMean(); few < t.minWorst {
			t.minWorst = few
		}
	}
}

// recentMean returns the mean logprob of the last 4 tokens. It is summed anew each time, so that rounding errors do not
// accumulate.
func (t *ScoreTracker) recentMean() float64 {
	at, r := uint(t.n)+window, &t.recent
	return (r[(at-1)%window] + r[(at-2)%window] + r[(at-3)%window] + r[(at-4)%window]) / worstTokens
}

// updateMinimum lowers the running minimum to the current score.
func (t *ScoreTracker) updateMinimum() {
	if mean := (t.sum + priorTokens*priorMean) / float64(t.n+priorTokens); mean < t.minMean {
		t.minMean = mean
	}
	if s := t.currentScore(); s < t.min {
		t.min = s
	}
	t.crossed = t.crossed || t.min < t.minScore
}

// currentScore returns the score of the tokens so far.
func (t *ScoreTracker) currentScore() float64 {
	if m := t.cfg.ScoreMap; m != nil {
		return float64(m.Score(t.Features()))
	}
	return min(
		t.minMean-float64(meanOffset),
		t.minWindow-float64(windowOffset),
		float64(entropyOffset)-t.headEntropy(),
	)
}

// headEntropy returns the mean entropy of the first tokens.
func (t *ScoreTracker) headEntropy() float64 {
	return t.entropy / float64(max(min(t.n, HeadTokens), 1))
}

// Features returns the features of the tokens so far. A feature of more tokens than there are uses those that there are.
// All are 0 before the first token.
func (t *ScoreTracker) Features() Features {
	if t.n == 0 {
		return Features{}
	}
	f := Features{
		FeatureMean:     t.minMean,
		FeatureWindow:   t.minWindow,
		FeatureEntropy:  -t.headEntropy(),
		FeatureWorst:    t.minWorst,
		FeatureLength:   -math.Log(float64(t.n)),
		FeatureDoubt:    -math.Log(1 + t.doubt),
		FeatureSurprise: -math.Log(1 + t.surprise),
	}
	if math.IsInf(f[FeatureMean], 1) {
		f[FeatureMean] = (t.sum + priorTokens*priorMean) / float64(t.n+priorTokens)
	}
	if t.n < worstTokens {
		f[FeatureWorst] = t.sum / float64(t.n)
	}
	return f
}

// Reject rejects the draft for a reason other than its score.
func (t *ScoreTracker) Reject(reason string) {
	if t.refused == "" {
		t.refused = reason
	}
}

// Rejected reports whether the draft can no longer be accepted.
func (t *ScoreTracker) Rejected() bool { return t.crossed || t.refused != "" }

// Score returns the running minimum; before the eighth token the current score.
func (t *ScoreTracker) Score() Nats {
	if math.IsInf(t.min, 1) && t.n > 0 {
		early := *t
		early.updateMinimum()
		return Nats(early.min)
	}
	return Nats(t.min)
}

// Tokens returns the number of tokens so far.
func (t *ScoreTracker) Tokens() int { return t.n + t.ends }

// FinalVerdict returns the verdict on a finished draft, including its structure.
func (t *ScoreTracker) FinalVerdict(d Draft) Verdict {
	if t.n > 0 {
		t.updateMinimum()
	}
	v := t.EarlyVerdict()
	if v.Accept || v.Reason == ReasonDoubtful {
		if reason := d.fault(); reason != "" {
			v.Accept, v.Reason = false, reason
		}
	}
	return v
}

// EarlyVerdict returns the verdict on an unfinished draft: whether its tokens so far may be sent.
func (t *ScoreTracker) EarlyVerdict() Verdict {
	v := Verdict{Accept: true, Reason: ReasonConfident, Score: t.Score(), Tokens: t.n}
	switch {
	case t.refused != "":
		v.Accept, v.Reason = false, t.refused
	case t.n == 0:
		v = Verdict{Reason: ReasonEmpty}
	case !t.checked && float64(t.missing) > maxMissing*float64(t.n):
		v.Accept, v.Reason = false, ReasonNoLogprobs
	case t.crossed || float64(v.Score) < t.minScore:
		v.Accept, v.Reason = false, ReasonScore
	case float64(v.Score) < t.acceptScore:
		v.Accept, v.Reason = false, ReasonDoubtful
	}
	return v
}

// SafePrefix returns how many leading tokens of a rejected draft the target may continue: those before the worst window.
func (t *ScoreTracker) SafePrefix() int {
	if t.missing > 0 {
		return 0
	}
	return min(t.worstStart, t.n)
}

// truncatedEntropy is H = −Σ p ln p over the alternatives, the unlisted mass r
// counted as one more: − r ln r. Nats.
func truncatedEntropy(logprob float64, top []float64) float64 {
	if len(top) == 0 {
		top = []float64{logprob}
	}
	h, mass := 0.0, 0.0
	for _, lp := range top {
		lp = min(lp, 0) // rounding may lift it
		p := math.Exp(lp)
		mass += p
		if p > 0 {
			h -= p * lp
		}
	}
	if rest := 1 - mass; rest > 1e-9 {
		h -= rest * math.Log(rest)
	}
	return h
}
