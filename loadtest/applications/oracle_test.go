package applications

import "math"

// Oracle is the largest share of a mix that one who knows the law could serve with a disagreement of at most eps: by one
// threshold on the log odds that a draft of the application with the score is good. mix has a weight for each application.
func (l Law) Oracle(mix []float64, eps float64) (share float64) {
	low, high := -20.0, 20.0
	for range 60 {
		mid := (low + high) / 2
		if served, bad := l.above(mix, mid); bad > eps*served {
			low = mid
		} else {
			high, share = mid, served
		}
	}
	return share
}

// above is the share of a mix whose log odds are at least odds, and the share of it that is bad besides.
func (l Law) above(mix []float64, odds float64) (served, bad float64) {
	sum := 0.0
	for _, w := range mix {
		sum += w
	}
	for a, p := range l.Agreement {
		if p <= 0 {
			continue // its odds are below any
		}
		from := (odds-math.Log(p/(1-p)))/l.Gap + l.Gap/2 // the score from which they are
		wrong := mix[a] / sum * (1 - p) * beyond(from)
		served += wrong + mix[a]/sum*p*beyond(from-l.Gap)
		bad += wrong
	}
	return served, bad
}

// beyond is the probability that a standard normal number is x or more.
func beyond(x float64) float64 { return math.Erfc(x/math.Sqrt2) / 2 }
