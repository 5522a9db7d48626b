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

func (p binormal) draw(rng *rand.Rand) (float64, bool) {
	if rng.Float64() < p.rho {
		return rng.NormFloat64(), true
	}
	return p.shift + rng.NormFloat64(), false
}

func (p binormal) tail(lambda float64) (accepted, bad float64) {
	bad = p.rho * above(lambda)
	return bad + (1-p.rho)*above(lambda-p.shift), bad
}

// above is the probability that a standard normal number is x or more.
func above(x float64) float64 { return math.Erfc(x/math.Sqrt2) / 2 }

// oracle is the largest acceptance of 20, 25, … 95 % at which the risk is eps at most: what one
// who knew the law would serve.
func (p binormal) oracle(eps float64) float64 {
	best := 0.0
	for j := 1; j <= gridSize; j++ {
		want := AcceptanceShare(j)
		low, high := -20.0, 20.0
		for range 60 {
			mid := (low + high) / 2
			if a, _ := p.tail(mid); a > want {
				low = mid
			} else {
				high = mid
			}
		}
		if a, bad := p.tail(high); bad <= eps*a {
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

func (p stepped) draw(rng *rand.Rand) (float64, bool) {
	score := rng.Float64()
	return score, rng.Float64() < p.local(score)
}

// local is the probability that a draft of this score is bad.
func (p stepped) local(score float64) float64 {
	switch {
	case score >= p.before:
		return p.calm
	case score >= p.wall:
		return (p.edge*(1-p.wall) - p.calm*(1-p.before)) / (p.before - p.wall)
	}
	return .5
}

func (p stepped) tail(lambda float64) (accepted, bad float64) {
	lambda = min(max(lambda, 0), 1)
	bad = p.calm * (1 - max(lambda, p.before))
	if lambda < p.before {
		bad += p.local(p.wall) * (p.before - max(lambda, p.wall))
	}
	return 1 - lambda, bad + .5*max(p.wall-lambda, 0)
}
