package risk

import "math"

// bet is an alternative to the hypothesis that the probability of a bad audit is ε, as a multiple of that, at most half of the way
// from ε to 1. 1 is no bet.
type bet struct{ times, logStake float64 }

// bets share a stake of 1. Each of them alone grows fastest where the truth is what it says; the mean of seven is within a factor of
// seven of the best.
type bets []bet

var (
	betsBelow  = betsOf(7, 0, .1, .25, .4, .55, .7, .85)
	betsAbove  = betsOf(7, 1.15, 1.35, 1.7, 2.2, 3, 4.5, 7)
	betsWithin = append(betsOf(14, 0, .1, .25, .4, .55, .7, .85), bet{1, -math.Ln2})
)

// betsOf returns bets of which each has one in share of the stake.
func betsOf(share float64, times ...float64) (all bets) {
	for _, t := range times {
		all = append(all, bet{t, -math.Log(share)})
	}
	return all
}

// LogE is the natural logarithm of the e-value of n audits, k of them bad, against the hypothesis
// that each is bad with probability eps or more, given those before it:
//
//	E = 1/M · Σ_i (r_i/ε)^k · ((1−r_i)/(1−ε))^(n−k),   r_i = ε·{0, .1, .25, .4, .55, .7, .85}
//
// Under that hypothesis each term is a non-negative supermartingale with mean 1 at most (exactly 1
// where the probability is ε), so P(E ever reaches 1/δ) ≤ δ. It depends on counts alone: in
// which order audits come, and through which replica, does not matter. 0 ≤ k ≤ n, 0 < eps < 1.
func LogE(n, k int, eps float64) float64 { return betsBelow.logE(n, k, eps) }

// LogUpperE is the same against the hypothesis that each is bad with probability eps or less.
func LogUpperE(n, k int, eps float64) float64 { return betsAbove.logE(n, k, eps) }

func (b bets) logE(n, k int, eps float64) float64 {
	terms, top := b.terms(n, k, eps)
	sum := 0.0
	for _, t := range terms[:len(b)] {
		sum += math.Exp(t - top)
	}
	return top + math.Log(sum)
}

// terms are the logarithms of what each bet has become, and the largest.
func (b bets) terms(n, k int, eps float64) (terms [8]float64, top float64) {
	top = math.Inf(-1)
	for i := range b {
		times := min(b[i].times, (1+eps)/2/eps)
		if terms[i] = b[i].logStake + float64(n-k)*(math.Log1p(-times*eps)-math.Log1p(-eps)); k > 0 { // 0·ln 0 is 0
			terms[i] += float64(k) * math.Log(times)
		}
		top = max(top, terms[i])
	}
	return terms, top
}

// Interval is where the probability of a bad audit is, by n audits of which k were bad: from low
// to high at every moment with probability 1 − delta, half of which is for each side. It is made
// of the same e-values: the values of ε that neither refutes. 0 and 1 where n is 0.
func Interval(n, k int, delta float64) (low, high float64) {
	return lowerBound(n, k, delta/2), upperBound(n, k, delta/2)
}

// lowerBound is the largest ε that n audits, k of them bad, refute at delta from above: the probability is not below it at any
// moment with probability 1 − delta. It is 0 without audits.
func lowerBound(n, k int, delta float64) float64 {
	need := math.Log(1 / delta)
	return edge(share(k, n), 0, func(eps float64) bool { return LogUpperE(n, k, eps) < need })
}

// upperBound is the smallest ε that they refute at delta. It is 1 without audits.
func upperBound(n, k int, delta float64) float64 {
	need := math.Log(1 / delta)
	return edge(share(k, n), 1, func(eps float64) bool { return LogE(n, k, eps) < need })
}

// share returns part/whole, and 0 if whole is 0.
func share(part, whole int) float64 {
	if whole <= 0 {
		return 0
	}
	return float64(part) / float64(whole)
}

// edge is where, on the way from what was seen to the end, stands ceases to hold; the end where
// it does not.
func edge(from, to float64, stands func(eps float64) bool) float64 {
	const minimum = 1e-9
	to = math.Max(minimum, math.Min(to, 1-minimum))
	if stands(to) {
		return math.Round(to)
	}
	from = math.Max(minimum, math.Min(from, 1-minimum))
	for range 50 { // to 2^-50 of the way
		mid := (from + to) / 2
		if stands(mid) {
			from = mid
		} else {
			to = mid
		}
	}
	return to
}

// RequiredAudits is about how many audits certify a threshold at which the probability of a bad one is
// risk: ln(1/δ)/KL(risk‖ε), by the growth rate of the best bet. The median of
// what was simulated is 0.85 to 1.15 times that, and 1.35 times where none is bad. It is +Inf where
// risk is not below eps.
func RequiredAudits(risk, eps, delta float64) float64 {
	if risk >= eps {
		return math.Inf(1)
	}
	kl := (1 - risk) * math.Log((1-risk)/(1-eps))
	if risk > 0 {
		kl += risk * math.Log(risk/eps)
	}
	return math.Log(1/delta) / kl
}
