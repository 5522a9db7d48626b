package proof

import (
	"strconv"

	"github.com/foregate/foregate/loadtest"
)

// The prices of two fleets, in dollars an hour of an instance, and the hours of a month.
const (
	rentBefore    = 3.50
	rentAfter     = 2.10
	hoursPerMonth = 730
)

// fleetClaims are about how many GPUs carry the same load.
func fleetClaims() []Claim {
	five := Cases{Scenario: "fleet-five", Baseline: "naive 5", Foregate: "foregate", Needed: []string{"naive 5", "foregate 5", "foregate 4", "foregate 3", "foregate 2"}, Short: true}
	twelve := Cases{Scenario: "fleet-twelve", Baseline: "naive 12", Foregate: "foregate", Needed: []string{"naive 12", "foregate 6", "foregate 5", "foregate 4", "foregate 3"}}
	five5, fiveUSD, fiveBusy := five, five, five
	five5.Of = func(rows map[string]loadtest.Row) Pair {
		return Pair{5, float64(smallestFleet(rows, "naive 5", 5))}
	}
	fiveUSD.Of = func(rows map[string]loadtest.Row) Pair {
		return Pair{5 * rentBefore * hoursPerMonth, float64(smallestFleet(rows, "naive 5", 5)) * rentAfter * hoursPerMonth}
	}
	fiveBusy.Of = func(rows map[string]loadtest.Row) Pair {
		n := smallestFleet(rows, "naive 5", 5)
		return Pair{busy(rows["naive 5"], 5), busy(rows["foregate "+strconv.Itoa(n)], n)}
	}
	twelve.Of = func(rows map[string]loadtest.Row) Pair {
		return Pair{12, float64(smallestFleet(rows, "naive 12", 12))}
	}
	return []Claim{
		{ID: "gpus-twelve", Text: "GPUs that carry the same load within the same P99, 8B model, with the cache", Unit: plain, Goal: valueAtMost(5), Source: twelve,
			Note: "The smallest fleet that loses no more requests, and whose P99 to first token is no longer.", Headline: "GPUs with which Foregate carries a load for which round robin needs twelve, without a later first token (P99)"},
		{ID: "gpus-five", Text: "GPUs that carry the same load within the same P99, long prompts in bursts, without the cache", Unit: plain, Goal: valueAtMost(3), Source: five5},
		{ID: "dollars", Text: "dollars a month of five GPUs, and of the fewest that carry the same load at a lower price", Unit: dollars, Goal: ratioAtMost(0.36), Source: fiveUSD,
			Note: "3.50 $ an hour before, 2.10 $ after, 730 hours. The lower price alone makes × 0.60."},
		{ID: "gpu-utilisation", Text: "GPU utilisation of these fleets (share of the time in which an engine computes)", Unit: share, Goal: valueAtLeast(0.78), Source: fiveBusy},
	}
}

// smallestFleet is the smallest count of backends with which Foregate loses no more requests than the baseline and has no
// longer P99 to first token, going down from the largest that was run; all is what the baseline has, if none does.
func smallestFleet(rows map[string]loadtest.Row, baseline string, all int) int {
	bound, smallest := rows[baseline], all
	for n := all; n > 0; n-- {
		r, ok := rows["foregate "+strconv.Itoa(n)]
		if !ok {
			continue
		}
		if lost(r) > lost(bound) || r.TTFT99 > bound.TTFT99 {
			break
		}
		smallest = n
	}
	return smallest
}

// busy is the share of the measured time in which the backends, of one GPU each, compute.
func busy(r loadtest.Row, backends int) float64 {
	return r.GPUSeconds / max(window(r), 1e-9) / float64(backends)
}

// window is the measured time, in seconds.
func window(r loadtest.Row) float64 {
	return (float64(r.Requests) - lost(r)) / max(r.RequestsPerSecond, 1e-9)
}
