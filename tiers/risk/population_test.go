package risk

import (
	"math"
	"math/rand/v2"
)

// population is a law of drafts: of their scores, and of which of them the target refuses. Its
// tails are known in closed form, so that what a threshold really does need not be estimated.
type population interface {
	draw(rng *rand.Rand) (score float64, bad bool)
	tail(lambda float64) (accepted, bad float64) // P(score ≥ λ), P(score ≥ λ and bad)
}

// binormal are scores that are normal with deviation 1: with mean 0 of drafts that are bad, and
// with mean shift of those that are good.
type binormal struct{ rho, shift float64 }

// binormalOf has a share rho of bad drafts, and scores that order a good and a bad one rightly
// with probability auroc.
func binormalOf(rho, auroc float64) binormal {
	return binormal{rho, math.Sqrt2 * math.Sqrt2 * math.Erfinv(2*auroc-1)}
}

func (b binormal) draw(rng *rand.Rand) (float64, bool) {
	if rng.Float64() < b.rho {
		return rng.NormFloat64(), true
	}
	return b.shift + rng.NormFloat64(), false
}

func (b binormal) tail(lambda float64) (accepted, bad float64) {
	bad = b.rho * above(lambda)
	return bad + (1-b.rho)*above(lambda-b.shift), bad
}

// above is the probability that a standard normal number is x or more.
func above(x float64) float64 { return math.Erfc(x/math.Sqrt2) / 2 }

// oracle is the largest acceptance of 20, 25, … 95 % at which the risk is eps at most: what one
// who knew the law would serve.
func (b binormal) oracle(eps float64) float64 {
	best := 0.0
	for j := 1; j <= gridSize; j++ {
		want := AcceptanceShare(j)
		low, high := -20.0, 20.0
		for range 60 {
			mid := (low + high) / 2
			if a, _ := b.tail(mid); a > want {
				low = mid
			} else {
				high = mid
			}
		}
		if a, bad := b.tail(high); bad <= eps*a {
			best = want
		}
	}
	return best
}

// stepped is the population that is hardest for a grid: scores are even in 0 … 1, what scores
// above λ_wall is bad with probability calm or less, and the risk at λ_wall itself is edge, which
// is just more than may be served. Below it, every second draft is bad.
type stepped struct {
	wall, before float64 // λ of the index that must not be certified, and of the one before it; 1 is above all scores
	calm, edge   float64
}

// steppedAt builds it around index j of a grid that was placed.
func steppedAt(g Grid, j int, calm, edge float64) stepped {
	p := stepped{wall: g.At(j), before: 1, calm: calm, edge: edge}
	if j > 1 {
		p.before = g.At(j - 1)
	}
	return p
}

func (s stepped) draw(rng *rand.Rand) (float64, bool) {
	score := rng.Float64()
	return score, rng.Float64() < s.local(score)
}

// local is the probability that a draft of this score is bad.
func (s stepped) local(score float64) float64 {
	switch {
	case score >= s.before:
		return s.calm
	case score >= s.wall:
		return (s.edge*(1-s.wall) - s.calm*(1-s.before)) / (s.before - s.wall)
	}
	return .5
}

func (s stepped) tail(lambda float64) (accepted, bad float64) {
	lambda = min(max(lambda, 0), 1)
	bad = s.calm * (1 - max(lambda, s.before))
	if lambda < s.before {
		bad += s.local(s.wall) * (s.before - max(lambda, s.wall))
	}
	return 1 - lambda, bad + .5*max(s.wall-lambda, 0)
}
