package risk

import "sync"

// pointEstimate certifies what has kept to ε so far, from 30 audits on.
func pointEstimate(n, k int, r Rule) bool {
	return n >= 30 && float64(k) <= r.MaxDisagreement*float64(n)
}

// clopperPearson certifies where the exact upper bound of Clopper and Pearson, at the level that
// is promised, is ε or less: P(Bin(n, ε) ≤ k) ≤ δ. It holds for one look at a number
// of audits that was fixed before; here it is asked after each. It is for ε = δ = 0.05.
func clopperPearson(n, k int, _ Rule) bool {
	minimum := fewest()
	return k < len(minimum) && n >= minimum[k]
}

// fewest are, for each k, the fewest audits of which k bad ones refute that the risk is ε. It
// walks along n and k by the recursions of the binomial law.
var fewest = sync.OnceValue(func() []int {
	const p, level, most = .05, .05, 4000
	minimum := make([]int, most)
	n, at, upTo := 0, 1.0, 1.0 // P(Bin(n, p) = k), P(Bin(n, p) ≤ k)
	for k := range minimum {
		for upTo > level {
			upTo -= p * at
			at *= float64(n+1) / float64(n+1-k) * (1 - p)
			n++
		}
		minimum[k] = n
		at *= float64(n-k) / float64(k+1) * p / (1 - p)
		upTo += at
	}
	return minimum
})
