package risk

import "slices"

const (
	// gridFrom is where the grid begins, in steps of 5 % of the drafts: less than a fifth accepted
	// hardly ever pays for its drafts, and evidence of so few is slow to come.
	gridFrom = 4
	// gridSize is J, the number of thresholds: they accept 20, 25, … 95 % of the drafts.
	gridSize = gridSteps - gridFrom
	// gridSteps is how many steps there are.
	gridSteps = 20
)

// GridScores is how many scores of drafts, whose labels nobody knows, a grid is placed by. The
// place of a quantile among 200 is off by 3.5 % of the drafts at most (one standard deviation),
// which costs acceptance, never validity.
const GridScores = 200

// Grid are the thresholds in falling order, from the strictest: it is frozen for as long as
// its version.
type Grid []float64

// GridOf places a grid at the acceptance quantiles 20, 25, … 95 % of scores. Equal ones are one
// threshold, so it may be shorter; of no scores it is empty.
func GridOf(scores []float64) Grid {
	if len(scores) == 0 {
		return nil
	}
	sorted := slices.Sorted(slices.Values(scores))
	slices.Reverse(sorted)
	var g Grid
	for j := 1; j <= gridSize; j++ {
		g = append(g, sorted[max((j+gridFrom-1)*len(sorted)/gridSteps-1, 0)])
	}
	return slices.Compact(g)
}

// IsValid reports whether the thresholds are finite, in falling order, and not too many. An empty grid is.
func (g Grid) IsValid() bool {
	last := float64(Unreachable)
	for _, lambda := range g {
		if !(lambda < last && lambda > -Unreachable) {
			return false
		}
		last = lambda
	}
	return len(g) <= gridSize
}

// At is λ_j, for j from 1; 0 is stricter than any score.
func (g Grid) At(j int) float64 {
	if j < 1 || len(g) == 0 {
		return Unreachable
	}
	return g[min(j, len(g))-1]
}

// AcceptanceShare is the share of drafts that index j accepts, by the grid's quantiles.
func AcceptanceShare(j int) float64 {
	if j < 1 {
		return 0
	}
	return float64(min(j, gridSize)+gridFrom-1) / gridSteps
}

// First is the strictest index that accepts a score, len(g)+1 where none does.
func (g Grid) First(score float64) int {
	for j, lambda := range g {
		if score >= lambda {
			return j + 1
		}
	}
	return len(g) + 1
}

// Unreachable is above every score, and its negative below every score.
const Unreachable = 1e9
