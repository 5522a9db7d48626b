package accept

import "math"

// Leniency says how far a token may stray from what the target would have chosen.
type Leniency struct {
	Eps      float64 // least probability, as a share of the target's first choice
	Typical  bool    // tokens that are typical for the target pass too: for answers drawn at a temperature above 0
	Failures float64 // share of the tokens that may fail
	MeanGap  Nats    // largest mean distance to the target's first choice
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
	Alike   bool    // differs from the first choice by white space or case at most
}

// Lenient judges a span of tokens by the target's opinions. The zero value with a
// Leniency is ready.
type Lenient struct {
	Leniency

	n, failed int
	gap       float64
	refused   bool
}

// Add takes the opinion on the next token.
func (l *Lenient) Add(o Opinion) {
	l.n++
	l.gap += float64(o.Top - o.Logprob)
	p, top := math.Exp(float64(o.Logprob)), math.Exp(float64(o.Top))
	if top >= sureOfOther && p < littleOfIt && !o.Alike {
		l.refused = true
	}
	if p >= l.Eps*top {
		return
	}
	if l.Typical && p >= math.Min(typicalFloor, typicalScale*math.Exp(-o.Entropy)) {
		return
	}
	l.failed++
}

// Stands reports whether the target stands by the span. It does by an empty one.
func (l *Lenient) Stands() bool {
	n := float64(l.n)
	return !l.refused && float64(l.failed) <= l.Failures*n && l.gap <= float64(l.MeanGap)*n
}
