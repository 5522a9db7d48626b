package probe

import (
	"maps"
	"slices"
)

// Hazard is something that goes wrong though the engine answers, and the observation that shows it.
type Hazard struct{ Name, Reason string }

// The hazards. What follows of one is in Missing and Thinks.
const (
	HazardConstantLogprobs = "constant_logprobs" // logprobs are a constant, as of tokens that the engine speculated: no logprobs
	HazardSwappedModel     = "swapped_model"     // another model answers: no logprobs, no scoring, no continuation
	HazardThinksFirst      = "thinks_first"      // it thinks before it answers: Thinks; where that cannot be turned off: no logprobs for a judge
)

// HazardNames are all hazards: the values of the metric's label.
var HazardNames = []string{HazardConstantLogprobs, HazardSwappedModel, HazardThinksFirst}

func sortedHazards(reasons map[string]string) []Hazard {
	var list []Hazard
	for _, name := range slices.Sorted(maps.Keys(reasons)) {
		list = append(list, Hazard{name, reasons[name]})
	}
	return list
}

// fewestConstant is how many tokens must have the same logprob, and no other alternative, to be refused.
const fewestConstant = 4

// constant reports whether at least half of the logprobs after the first are one constant beside which no alternative has
// another: llama.cpp tells the first token's truth, and 0.0 of all that it speculated. A token that a model is sure of has
// alternatives that are less likely.
func constant(tokens []scored) (value float64, n int, is bool) {
	if len(tokens) < 2 {
		return 0, 0, false
	}
	count := map[float64]int{}
	for _, t := range tokens[1:] {
		if !t.varied {
			count[t.logprob]++
		}
	}
	for v, k := range count {
		if k > n || k == n && v > value {
			value, n = v, k
		}
	}
	return value, n, n >= fewestConstant && 2*n >= len(tokens)-1
}
