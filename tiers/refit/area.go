package refit

import (
	"math"
	"slices"
)

// Area is an area under the receiver operating characteristic: the probability that a good draft
// scores higher than a bad one, a tie counted as half. 0.5 is chance, 1 is without fault.
type Area struct {
	Value float64
	Error float64 // standard error by DeLong et al. 1988; 0 where nothing overlaps
}

// AUROC is the area of scores of which some are good (Mann and Whitney 1947, with ties). Both
// have the same length. Where all are of one kind it is 0.5 ± 0.5: nothing is known.
func AUROC(scores []float64, good []bool) Area { return areaOf(placements(scores, good), good) }

// placements says of each good score which share of the bad ones is below it, and of each bad one
// which share of the good ones is above it, ties counted as half. nil where all are of one kind.
func placements(scores []float64, good []bool) []float64 {
	var of [2][]float64 // scores of bad and of good ones
	for i, s := range scores {
		of[indexOf(good[i])] = append(of[indexOf(good[i])], s)
	}
	if len(of[0]) == 0 || len(of[1]) == 0 {
		return nil
	}
	slices.Sort(of[0])
	slices.Sort(of[1])
	out := make([]float64, len(scores))
	for i, s := range scores {
		others := of[1-indexOf(good[i])]
		below, _ := slices.BinarySearch(others, s)
		above, _ := slices.BinarySearch(others, math.Nextafter(s, math.Inf(1)))
		if !good[i] {
			below, above = len(others)-above, len(others)-below
		}
		out[i] = (float64(below) + float64(above-below)/2) / float64(len(others))
	}
	return out
}

// areaOf is the mean of placements, or of a difference of such, with its error:
// var(good ones')/#good + var(bad ones')/#bad.
func areaOf(placed []float64, good []bool) Area {
	if placed == nil {
		return Area{.5, .5}
	}
	var n, mean, spread [2]float64
	for i, p := range placed {
		n[indexOf(good[i])]++
		mean[indexOf(good[i])] += p
	}
	for k := range mean {
		mean[k] /= n[k]
	}
	for i, p := range placed {
		k := indexOf(good[i])
		spread[k] += (p - mean[k]) * (p - mean[k])
	}
	variance := 0.0
	for k := range spread {
		if n[k] < 2 {
			variance += .25 // the most that it may be
			continue
		}
		variance += spread[k] / (n[k] - 1) / n[k]
	}
	return Area{mean[1], math.Sqrt(variance)}
}

// indexOf is 1 for true and 0 for false.
func indexOf(is bool) int {
	if is {
		return 1
	}
	return 0
}
