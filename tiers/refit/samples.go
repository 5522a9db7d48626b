package refit

import (
	"time"

	"github.com/foregate/foregate/tiers/accept"
	"github.com/foregate/foregate/tiers/evidence"
	"github.com/foregate/foregate/tiers/plan"
	"github.com/foregate/foregate/tiers/risk"
)

// Samples are the audits of one route that a score may be fitted to, and how many were left out.
type Samples struct {
	Labelled []Sample
	Keys     []risk.Key // of each
	Newest   time.Time  // when the newest audit began, of all that were seen
	Lost     int        // left out: without an outcome
	Odd      int        // left out: with other features, of another version

	fullRange []bool // of each
}

// Add adds an audit, or counts it as left out.
func (s *Samples) Add(e *evidence.LogEntry) {
	if e.When.After(s.Newest) {
		s.Newest = e.When
	}
	switch {
	case e.Label != evidence.Good && e.Label != evidence.Bad:
		s.Lost++
	case len(e.Features) != len(accept.Features{}):
		s.Odd++
	default:
		s.Labelled = append(s.Labelled, Sample{Features: featuresOf(e), Score: e.Score, Good: e.Label == evidence.Good, Greedy: plan.IsGreedy(e.Key.TrafficClass)})
		s.Keys = append(s.Keys, e.Key)
		s.fullRange = append(s.fullRange, isFullRange(e))
	}
}

// featuresOf returns the features of an audit that has as many as there are.
func featuresOf(e *evidence.LogEntry) (f accept.Features) {
	copy(f[:], e.Features)
	return f
}

// isFullRange reports whether the audit was of a random one of all drafts.
func isFullRange(e *evidence.LogEntry) bool { return e.Floor <= -risk.Unreachable }
