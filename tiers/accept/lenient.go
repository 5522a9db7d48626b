package accept

import "math"

// Leniency says how far a token may stray from what the target would have chosen.
type Leniency struct {
	Eps      float64 // least probability, as a share of the target's first choice
	Typical  bool    // tokens that are typical for the target pass too: for answers drawn at a temperature above 0
	Failures float64 // share of the tokens that may fail
	MeanGap  Nats    // largest mean distance to the target's first choice
}

// Strictness is a public name for a Leniency (acceptance.md §3.4).
type Strictness string

// The names, from the strictest. What exact means is in [Greedy].
const (
	StrictHigh     Strictness = "high"     // half of the first choice's probability
	StrictBalanced Strictness = "balanced" // three tenths
	StrictLoose    Strictness = "loose"    // a tenth
)

// Leniency returns what the name stands for; sampled says that the answer is drawn at a
// temperature above 0. Any other name is balanced.
func (s Strictness) Leniency(sampled bool) Leniency {
	switch s {
	case StrictHigh:
		return Leniency{Eps: 0.5, Failures: 0.005, MeanGap: 0.15}
	case StrictLoose:
		return Leniency{Eps: 0.1, Typical: sampled, Failures: 0.05, MeanGap: 0.15}
	}
	return Balanced(sampled)
}

// Balanced is the default strictness (acceptance.md §3.4): a token passes with at
// least 0.3 of the first choice's probability, and one in fifty may fail.
func Balanced(sampled bool) Leniency {
	return Leniency{Eps: 0.3, Typical: sampled, Failures: 0.02, MeanGap: 0.15}
}

const (
	// A token is a confident disagreement when the target was this sure of another
	// one, and thought this little of it.
	sureOfOther = 0.9
	littleOfIt  = 0.01
	// A token is typical when p ≥ min(0.09, 0.3·exp(−H)) (Hewitt et al. 2022, as
	// used for acceptance in Medusa).
	typicalFloor = 0.09
	typicalScale = 0.3
)

// Opinion is what the target says of one token that it did not choose itself.
type Opinion struct {
	Logprob Nats    // of the token
	Top     Nats    // of the target's first choice
	Entropy float64 // of the target's distribution, nats; used only when Typical
	First   bool    // the token is the first choice, or ends the answer as that does
	Alike   bool    // differs from the first choice by white space or case at most
}

// Check is the target's word on a span of a draft.
type Check struct {
	Pass   bool
	Kept   int    // tokens that it stands by when it does not stand by all
	Score  Nats   // higher is better: minus the mean distance to its first choices, or a judge's log odds
	Failed int    // tokens that failed
	Reason string // one of the Reason constants
}

// Check judges a span by the target's opinions. The tokens kept of one that is refused end
// before the first confident disagreement, or else before the first token that failed.
func (l Leniency) Check(span []Opinion) Check {
	run := Lenient{Leniency: l}
	for _, o := range span {
		run.Add(o)
	}
	c := Check{Pass: run.Stands(), Kept: len(span), Failed: run.failed, Reason: ReasonStandsBy}
	if run.n > 0 {
		c.Score = Nats(-run.gap / float64(run.n))
	}
	if c.Pass {
		return c
	}
	c.Reason = ReasonDisagrees
	switch {
	case run.refused:
		c.Kept = run.firstRefused
	case run.failed > 0:
		c.Kept = run.firstFailed
	default: // the sum of small distances: nothing stands out
		c.Kept = 0
	}
	return c
}

// Lenient judges a span of tokens by the target's opinions. The zero value with a
// Leniency is ready.
type Lenient struct {
	Leniency

	n, failed                 int
	firstFailed, firstRefused int
	gap                       float64
	refused                   bool
}

// Add takes the opinion on the next token.
func (l *Lenient) Add(o Opinion) {
	l.n++
	l.gap += float64(o.Top - o.Logprob)
	p, top := math.Exp(float64(o.Logprob)), math.Exp(float64(o.Top))
	if top >= sureOfOther && p < littleOfIt && !o.Alike && !o.First {
		if !l.refused {
			l.firstRefused = l.n - 1
		}
		l.refused = true
	}
	if p >= l.Eps*top {
		return
	}
	if l.Typical && p >= math.Min(typicalFloor, typicalScale*math.Exp(-o.Entropy)) {
		return
	}
	if l.failed == 0 {
		l.firstFailed = l.n - 1
	}
	l.failed++
}

// Stands reports whether the target stands by the span. It does by an empty one.
func (l *Lenient) Stands() bool {
	n := float64(l.n)
	return !l.refused && float64(l.failed) <= l.Failures*n && l.gap <= float64(l.MeanGap)*n
}
