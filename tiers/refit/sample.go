package refit

import (
	"fmt"
	"math"
	"time"

	"github.com/foregate/foregate/tiers/accept"
	"github.com/foregate/foregate/tiers/plan"
	"github.com/foregate/foregate/tiers/risk"
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

// Samples are the audits of one route that a score may be fitted to.
type Samples struct {
	Labelled []Sample
	Newest   time.Time // when the newest audit began, of all that were seen

	fullRange []bool // of each
}

// Add adds an audit, if it has an outcome and its features are those of today.
func (s *Samples) Add(e *risk.LogEntry) {
	if e.When.After(s.Newest) {
		s.Newest = e.When
	}
	if e.Label != risk.Lost && len(e.Features) == len(accept.Features{}) {
		s.Labelled = append(s.Labelled, Sample{Features: featuresOf(e), Score: e.Score, Good: e.Label == risk.Good, Greedy: plan.IsGreedy(e.TrafficClass)})
		s.fullRange = append(s.fullRange, e.IsFullRange())
	}
}

// featuresOf returns the features of an audit that has as many as there are.
func featuresOf(e *risk.LogEntry) (f accept.Features) {
	copy(f[:], e.Features)
	return f
}
