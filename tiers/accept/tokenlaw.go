package accept

import "math"

// MaxTopLogprobs is how many of the target's likeliest tokens count at a place. The number must not depend on whether the
// drafted token is among them, which engines list in any case.
const MaxTopLogprobs = 5

const (
	// Chance takes a sum beyond its bound in three of 1,000 answers of the target's own, and so one of the three sums
	// in less than one of 100.
	rare       = 0.003
	rareSigmas = 2.748 // the normal law's quantile of 1 − rare

	minMass  = 1e-9 // less is rounding
	maxSteep = 1e6  // 1/temperature: beyond it the first choice is drawn
)

// tokenLaw is what a target draws from at one place, as far as an engine tells it: the k likeliest tokens, with the
// probabilities p_i at temperature 1, and all others together with the rest r. At a temperature T they are drawn with
//
//	q_i ∝ p_i^(1/T),  and the others together with  ∝ r·m^(1/T − 1),  m = min(p_k, r)
//
// No other token has more than m. Their true weight is Σ p·p^(1/T − 1): r·m^(1/T − 1) is exact at T = 1 and an upper bound
// below, so that the target is never expected to keep closer to its first choices than it does. Above 1 it is a lower bound.
type tokenLaw struct {
	nats, p [MaxTopLogprobs + 1]float64 // at temperature 1, falling; of the others, which are the last, m
	drawn   [MaxTopLogprobs + 1]float64 // q
	n       int                         // of these; 0 where nothing is told
	others  bool                        // they have a share
	entropy float64                     // nats, at temperature 1, the others counted as one
}

// read takes the logprobs of the likeliest tokens, falling.
func (l *tokenLaw) read(tops []float64, temperature float64) {
	steep := min(1/temperature, maxSteep) - 1
	rest := 1.0
	for _, v := range tops[:min(len(tops), MaxTopLogprobs)] {
		v = min(v, 0) // rounding may lift it
		p := math.Exp(v)
		l.add(v, p, p, steep)
		l.entropy -= p * v
		rest -= p
	}
	if l.n == 0 || l.p[0] == 0 {
		l.n = 0
		return
	}
	if k := l.n - 1; rest > minMass && l.p[k] > 0 {
		nats := math.Log(rest)
		l.others = true
		l.add(min(nats, l.nats[k]), min(rest, l.p[k]), rest, steep)
		l.entropy -= rest * nats
	}
	sum := 0.0
	for _, w := range l.drawn[:l.n] {
		sum += w
	}
	for i := range l.drawn[:l.n] {
		l.drawn[i] /= sum
	}
}

// add adds a token, or all that share a mass and have p each at most.
func (l *tokenLaw) add(nats, p, mass, steep float64) {
	i := l.n
	l.n++
	l.nats[i], l.p[i], l.drawn[i] = nats, p, mass
	if steep != 0 && p > 0 {
		l.drawn[i] *= math.Exp((nats - l.nats[0]) * steep)
	}
}

// unlisted is the most that a token may have which is not listed, and its logarithm.
func (l *tokenLaw) unlisted() (p, nats float64) {
	if !l.others {
		return 0, math.Inf(-1)
	}
	return l.p[l.n-1], l.nats[l.n-1]
}

// excess holds a sum over an answer's tokens against what it would come to in an answer of the target's own. There each
// term less its mean is a martingale difference: the variance of the sum is the expected sum of the terms' variances.
type excess struct {
	seen               float64
	mean, spread, skew float64 // first, second and third cumulant of the target's own
}

// chance adds an event that the target's own token is with probability p.
func (e *excess) chance(p float64) {
	spread := p * (1 - p)
	e.mean += p
	e.spread += spread
	e.skew += spread * (1 - 2*p)
}

// values adds a number that is x[i] with probability q[i].
func (e *excess) values(x, q []float64) {
	mean := 0.0
	for i := range x {
		mean += q[i] * x[i]
	}
	e.mean += mean
	for i := range x {
		d := x[i] - mean
		e.spread += q[i] * d * d
		e.skew += q[i] * d * d * d
	}
}

// within reports whether what was seen is above the mean by no more than is allowed, or than chance makes of it.
func (e *excess) within(allowed float64) bool { return e.seen <= e.mean+max(allowed, e.chances()) }

// chances is how far above its mean chance takes the sum in three of 1,000 answers, by Cornish and Fisher's expansion to the
// third cumulant: near Poisson's quantile where events are few, and the normal law's where they are many. It is never more
// than by Cantelli's inequality, which holds for every law and leaves no room for an event that is due in fewer of them.
func (e *excess) chances() float64 {
	if e.spread <= 0 {
		return 0
	}
	sigma := math.Sqrt(e.spread)
	return min(rareSigmas*sigma+(rareSigmas*rareSigmas-1)/6*max(e.skew, 0)/e.spread, sigma*math.Sqrt(1/rare-1))
}
