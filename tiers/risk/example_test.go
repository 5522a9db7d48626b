package risk_test

import (
	"fmt"
	"math"

	"github.com/foregate/foregate/tiers/risk"
)

// Evidence against "at least 5 % are bad" grows with each good audit. At 1/δ it certifies the threshold, and
// an error has the probability δ at most, however often one looks.
func ExampleLogE() {
	const eps, delta = 0.05, 0.05
	for _, bad := range []int{0, 1, 5} {
		audits := bad
		for risk.LogE(audits, bad, eps) < math.Log(1/delta) {
			audits++
		}
		fmt.Printf("%d bad: certified after %d audits\n", bad, audits)
	}
	// Output:
	// 0 bad: certified after 79 audits
	// 1 bad: certified after 135 audits
	// 5 bad: certified after 279 audits
}
