package accept

import "math"

const (
	// minShare is the share of the first choice's probability with which a token passes, maxFailures the share of the tokens
	// that may fail, and maxMeanGap the largest mean distance to the first choices in nats: the last two beyond what
	// chance makes.
	minShare    = 0.3
	maxFailures = 0.02
	maxMeanGap  = 0.15
	// A token is a confident disagreement when the target was this sure of another
	// one, and thought this little of it.
	minTopProbability   = 0.9
	maxTokenProbability = 0.01
	// A token is typical when p ≥ min(0.09, 0.3·exp(−H)) (Hewitt et al. 2022, as
	// used for acceptance in Medusa).
	typicalFloor = 0.09
	typicalScale = 0.3
)

// TargetScore is the target's score of one token of the draft.
type TargetScore struct {
	Logprob Nats      // of the token, at temperature 1
	Top     Nats      // of the target's first choice
	Tops    []float64 // of its likeliest tokens, falling; the first MaxTopLogprobs count, where answers are drawn
	First   bool      // the token is the first choice, or ends the answer as that does
	Alike   bool      // differs from the first choice by white space or case at most
}

// Check is the target's verdict on a span of a draft.
type Check struct {
	Pass   bool
	Kept   int    // accepted tokens if not all are accepted
	Score  Nats   // higher is better: minus the mean distance to its first choices, or a judge's log odds
	Reason string // one of the Reason constants
}

// CheckLenient judges a span as rule lenient does, of answers that are drawn at a temperature of 0 … 2; at 0 the first choice
// is taken, and nothing is drawn. The kept tokens of a rejected span end before the first confident disagreement, or else
// before the first token that failed.
func CheckLenient(temperature float64, span []TargetScore) Check {
	run := LenientCheck{Temperature: temperature}
	for _, o := range span {
		run.Add(o)
	}
	c := Check{Pass: run.Passes(), Kept: len(span), Reason: ReasonTargetAgrees}
	if run.n > 0 {
		c.Score = Nats(-run.gap / float64(run.n))
	}
	if c.Pass {
		return c
	}
	c.Reason = ReasonTargetDisagrees
	switch {
	case run.against.seen > 0:
		c.Kept = run.firstAgainst
	case run.failures.seen > 0:
		c.Kept = run.firstFailed
	default: // the sum of small distances: nothing stands out
		c.Kept = 0
	}
	return c
}

// LenientCheck judges a span of tokens by the target's opinions. The zero value is ready for a greedy answer.
//
// It sums three things over the tokens: confident disagreements, failures, and the distance to the first choices. Where answers are
// drawn, the target's own have such tokens too: a sum may then exceed what it would come to in an answer of the target's own at that
// temperature (docs/science.md, "The lenient rule"). A token that the target does not list counts as the likeliest that it might be.
// Without Tops nothing is allowed for chance, and the entropy is taken for 0.
type LenientCheck struct {
	Temperature float64 // that answers are drawn at; 0: nothing is drawn

	n                         int
	firstAgainst, firstFailed int
	gap                       float64 // nats, of all tokens as they are

	against, failures, far excess
}

// Add takes the score of the next token. It does not keep o.Tops.
func (l *LenientCheck) Add(o TargetScore) {
	l.n++
	l.gap += float64(o.Top - o.Logprob)
	nats, top := float64(o.Logprob), math.Exp(float64(o.Top))
	p, enough := math.Exp(nats), minShare*top
	if l.Temperature > 0 {
		var own tokenLaw
		own.read(o.Tops, l.Temperature)
		enough = min(enough, typicalFloor, typicalScale*math.Exp(-own.entropy))
		l.addExpected(&own, enough)
		if bound, boundNats := own.unlisted(); p < bound {
			p, nats = bound, boundNats
		}
	}
	l.far.seen += float64(o.Top) - nats
	if confidentlyDisagrees(top, p) && !o.Alike && !o.First {
		if l.against.seen == 0 {
			l.firstAgainst = l.n - 1
		}
		l.against.seen++
	}
	if p >= enough {
		return
	}
	if l.failures.seen == 0 {
		l.firstFailed = l.n - 1
	}
	l.failures.seen++
}

// confidentlyDisagrees reports whether the target was sure of another token and gave this one a probability of p.
func confidentlyDisagrees(top, p float64) bool {
	return top >= minTopProbability && p < maxTokenProbability
}

// addExpected adds the expected values for a token that the target draws itself.
func (l *LenientCheck) addExpected(own *tokenLaw, enough float64) {
	refused, failed := 0.0, 0.0
	var far [MaxTopLogprobs + 1]float64
	for i, q := range own.drawn[:own.n] {
		far[i] = own.nats[0] - own.nats[i]
		if p := own.p[i]; p < enough {
			failed += q
		}
		if confidentlyDisagrees(own.p[0], own.p[i]) {
			refused += q
		}
	}
	l.against.chance(refused)
	l.failures.chance(failed)
	l.far.values(far[:own.n], own.drawn[:own.n])
}

// Passes reports whether the target accepts the span. It accepts an empty one.
func (l *LenientCheck) Passes() bool {
	n := float64(l.n)
	return l.against.within(0) && l.failures.within(maxFailures*n) && l.far.within(maxMeanGap*n)
}
