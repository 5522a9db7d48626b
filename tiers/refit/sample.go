package refit

import (
	"fmt"
	"math"

	"github.com/foregate/foregate/tiers/accept"
)

// maxFeature is what no feature exceeds: engines write −9999 for minus infinity.
const maxFeature = 1e4

// Sample is one audit.
type Sample struct {
	Features accept.Features
	Score    float64 // by which the draft was judged then, nats
	Good     bool    // the target stood by the draft
	Greedy   bool    // the request had temperature 0
}

// check refuses what no judge has said.
func (s *Sample) check() error {
	for i, x := range s.Features {
		if !(math.Abs(x) <= maxFeature) { // NaN is not
			return fmt.Errorf("feature %s is %v", accept.FeatureNames[i], x)
		}
	}
	if math.IsNaN(s.Score) || math.IsInf(s.Score, 0) {
		return fmt.Errorf("its score is %v", s.Score)
	}
	return nil
}
