// Package calibrate fits a score to the outcomes of audits: the log odds that the target accepts a draft, as a
// weighted sum of its features. It is arithmetic; labels and the storage of fitted scores are elsewhere.
//
// Start at [Fit]. It is a logistic regression with weights of 0 or more, so that the score only
// falls while tokens come, and it says what the fit is worth by drafts that it has not seen.
//
// # Scope
//
// Only drafts above the audited floor are audited, so this is a fit of that range: its values for lower drafts are
// extrapolated. Within the range drafts are audited at random, never by content, so samples need no weights. A
// fitted score is a different score: thresholds of the previous one are void, and so are their certificates.
//
// # Quality of the fit
//
// Of the simulator's drafts, 3,000 of them fitted and 3,000 others scored: the area under the curve,
// with an error of 0.02 at most, and the largest share of drafts that a threshold keeps with no
// more than a tenth of them bad. Before is the least of the three terms (accept.ScoreTracker).
//
//	divergence  blind  temperature    bad  before  after  kept before  kept after
//	       0.1      0            0   10 %   0.608  0.707         1.00        1.00
//	       0.3      0            0   36 %   0.727  0.808         0.00        0.29
//	       0.3      0            1   10 %   0.868  0.917         1.00        1.00
//	       0.3    0.3            0   38 %   0.647  0.697         0.00        0.00
//	         1      0            0   73 %   0.893  0.938         0.00        0.07
//
// (TestAFittedScoreTellsGoodDraftsFromBadBetterThanTheOneBefore in loadtest/quality.) No draft of a
// real model was scored.
package calibrate

import (
	"fmt"
	"math"

	"github.com/foregate/foregate/tiers/accept"
)

const (
	// MinSamples is how many labels a fit takes.
	MinSamples = 2000
	// MinPerLabel is how many of them must be good, and how many bad: of fewer than that, each
	// of six coefficients would rest on eight.
	MinPerLabel = 50

	// folds is how many parts the samples are cut in, each of which is held out once.
	folds = 5
)

// Fitted is a calibrated score, and what it is worth. What is said of its worth comes from
// drafts that were held out: each fifth was scored by a fit of the other four.
type Fitted struct {
	Map    accept.ScoreMap // of all samples; version 0, whoever keeps it numbers it
	N, Bad int             // samples, and those that the target did not stand by

	Before, After Area // how well the score of then, and this one, tell good from bad
	Gain          Area // the difference, with its own error: both see the same drafts

	Loss      float64 // mean log loss of this score, nats a draft
	ShareLoss float64 // what knowing nothing but the share of bad ones costs, nats a draft
	Isotonic  []Point // how often it is right, 50 points at most
}

// TooFewError says that there are too few labels for a fit.
type TooFewError struct{ Good, Bad int }

func (e *TooFewError) Error() string {
	return fmt.Sprintf("calibrate: %d good and %d bad labels, want %d together and %d of each", e.Good, e.Bad, MinSamples, MinPerLabel)
}

// Fit fits a score to samples. The same samples in the same order make the same fit. Its time
// grows with the number of samples and is bounded. It fails with a *[TooFewError] where labels are
// fewer than [MinSamples], or those of one kind fewer than [MinPerLabel], and where a sample is not
// made of finite numbers of an ordinary size.
func Fit(samples []Sample) (Fitted, error) {
	f := Fitted{N: len(samples)}
	for i, s := range samples {
		if err := s.check(); err != nil {
			return Fitted{}, fmt.Errorf("calibrate: sample %d: %w", i, err)
		}
		if !s.Good {
			f.Bad++
		}
	}
	if err := (&TooFewError{Good: f.N - f.Bad, Bad: f.Bad}); f.N < MinSamples || min(err.Good, err.Bad) < MinPerLabel {
		return Fitted{}, err
	}
	f.Map = regress(samples)
	f.validate(samples)
	return f, nil
}

// validate holds out one part of the samples after the other. The areas are means over the
// parts, whose scores come from different fits and are not compared with each other.
func (f *Fitted) validate(samples []Sample) {
	var all validationSet
	for _, part := range split(samples) {
		m := regress(part.train)
		var h validationSet
		for _, s := range part.test {
			h.add(s, float64(m.Score(s.Features)))
		}
		before, after := placements(h.before, h.good), placements(h.after, h.good)
		f.Before.join(areaOf(before, h.good))
		f.After.join(areaOf(after, h.good))
		for i := range after {
			after[i] -= before[i]
		}
		f.Gain.join(areaOf(after, h.good))
		all.after, all.good = append(all.after, h.after...), append(all.good, h.good...)
	}
	for i, z := range all.after {
		f.Loss += logLoss(z, all.good[i]) / float64(f.N)
	}
	bad := float64(f.Bad) / float64(f.N)
	f.ShareLoss = -bad*math.Log(bad) - (1-bad)*math.Log1p(-bad)
	f.Isotonic = isotonic(all.after, all.good)
}

// join takes one part's area into the mean of all parts.
func (a *Area) join(part Area) {
	a.Value += part.Value / folds
	a.Error = math.Hypot(a.Error, part.Error/folds)
}

// validationSet are the scores of drafts that a fit has not seen.
type validationSet struct {
	before, after []float64
	good          []bool
}

func (h *validationSet) add(s Sample, after float64) {
	h.before = append(h.before, s.Score)
	h.after = append(h.after, after)
	h.good = append(h.good, s.Good)
}

// part is what a fit is made of and what it is tried on.
type part struct{ train, test []Sample }

// split deals the good and the bad samples out to the parts in turn, each kind by itself, so that
// all parts have their share of both.
func split(samples []Sample) [folds]part {
	var parts [folds]part
	var dealt [2]int
	for _, s := range samples {
		kind := kindOf(s.Good)
		for i := range parts {
			if i == dealt[kind]%folds {
				parts[i].test = append(parts[i].test, s)
			} else {
				parts[i].train = append(parts[i].train, s)
			}
		}
		dealt[kind]++
	}
	return parts
}
