// Package refit fits the score of a route again when there are new audits, and decides when the new score replaces the
// one in force. The new score is a candidate: it has evidence and thresholds of its own, and it serves nothing before they
// are certified.
//
// Start at [Next], the decision, which is a pure function of the log of audits. [Refitter] carries decisions out.
//
// A score is the log odds that the target accepts a draft, as a weighted sum of its features: a logistic regression
// ([FitScore]) with weights of 0 or more, so that the score only falls while tokens come. Greedy and sampled requests have one map.
// Each kind has an intercept of its own in the fit, because greedy drafts score higher and are worse; thresholds of the two are
// apart, so the map has only the mean of both.
//
// The guarantee holds although data choose the score (docs/science.md, "A score that is fitted while it runs"): the evidence of a
// candidate are only full-range audits that began after the newest audit that the fit could see, and the i-th candidate since the
// last one that was promoted has the error probability of the i-th epoch without a certificate.
package refit

import (
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/foregate/foregate/tiers/accept"
	"github.com/foregate/foregate/tiers/plan"
	"github.com/foregate/foregate/tiers/risk"
)

// Progress is what replicas share about the refits of one route.
type Progress struct {
	Live      accept.ScoreMap `json:"live"`      // the score in force; version 0 is the plain one
	Candidate accept.ScoreMap `json:"candidate"` // version 0: there is none
	Promoted  time.Time       `json:"promoted"`  // when the score in force replaced the one before; zero: not known, or it is the plain one
	Last      int             `json:"last"`      // version of the last candidate
	Fitted    time.Time       `json:"fitted"`    // when the newest audit began that the last fit could see; zero: nothing was fitted
	Samples   int             `json:"samples"`   // labelled audits of that fit
	Grids     grids           `json:"grids"`     // the candidate's thresholds
	Failed    int             `json:"failed"`    // candidates since the last promotion that were given up
	Audits    int             `json:"audits"`    // the candidate's evidence
}

// record is a Progress with what its weights are of: a score of other features is refused, and not taken for one of these.
type record struct {
	Progress
	Features []string `json:"features"`
}

// grids are the thresholds for sampled and for greedy requests, from the strictest.
type grids [2]risk.Grid

// of returns the thresholds for a traffic class.
func (g grids) of(trafficClass string) risk.Grid {
	return g[indexOf(plan.IsGreedy(trafficClass))]
}

// Parse reads a record that a replica has written; an empty one is the zero Progress.
func Parse(text string) (Progress, error) {
	if text == "" {
		return Progress{}, nil
	}
	var p record
	if err := json.Unmarshal([]byte(text), &p); err != nil {
		return Progress{}, fmt.Errorf("refit: %w", err)
	}
	if !slices.Equal(p.Features, accept.FeatureNames[:]) {
		return Progress{}, fmt.Errorf("refit: scores of other features: %.200q", p.Features)
	}
	for _, g := range p.Grids { // without one, the evidence would place its own
		if !g.IsValid() || p.Candidate.Version != 0 && len(g) == 0 {
			return Progress{}, fmt.Errorf("refit: thresholds that are no grid: %v", p.Grids)
		}
	}
	return p.Progress, nil
}

// Encode returns the record.
func (p Progress) Encode() string {
	raw, err := json.Marshal(record{p, accept.FeatureNames[:]})
	if err != nil { // a threshold that is no number; a fit has none
		return ""
	}
	return string(raw)
}

const (
	// clearGain is how many standard errors a fit must be better by than the score in force, on drafts that it has not seen.
	clearGain = 2
	// minGain is how many more of the pairs of a good and a bad draft it must order rightly, as a share. Less serves hardly more
	// drafts, and a candidate costs four times the audits.
	minGain = 0.01
)

// IsBetter reports whether a fit is clearly better than the score in force on drafts that it has not seen. A fit that is
// not would only cost audits.
func IsBetter(f *Fitted) bool {
	return f.Gain.Value >= minGain && f.Gain.Value > clearGain*f.Gain.Error
}

// minGridScores is how many full-range audits place a grid. The place of the median among 60 is off by 6 % of the drafts
// (one standard deviation).
const minGridScores = 60

// withCandidate returns the progress after a fit that is the candidate from now on.
func (s *Step) withCandidate(f *Fitted) Progress {
	next := s.withFit()
	next.Candidate, next.Last = f.Map, s.Version
	next.Candidate.Version = s.Version
	next.Grids = place(&f.Map, s.Samples)
	return next
}

// place places the candidate's thresholds by the samples of its fit, those of greedy requests apart. The lowest scores are
// known from full-range audits alone, so if there are enough of these, they alone are used.
func place(m *accept.ScoreMap, samples []Sample) (g grids) {
	var all, full [2][]float64
	for i := range samples {
		s := &samples[i]
		score, kind := float64(m.For(s.Application).Score(s.Features)), indexOf(s.Greedy)
		all[kind] = append(all[kind], score)
		if s.FullRange {
			full[kind] = append(full[kind], score)
		}
	}
	for kind := range g {
		scores := all[kind]
		switch {
		case len(full[kind]) >= minGridScores:
			scores = full[kind]
		case len(scores) < minGridScores: // hardly any request is of this kind
			scores = append(all[1-kind], scores...)
		}
		g[kind] = risk.GridOf(scores)
	}
	return g
}

// withFit returns the progress after a fit that made no candidate.
func (s *Step) withFit() Progress {
	return Progress{Live: s.Progress.Live, Promoted: s.Progress.Promoted, Last: s.Progress.Last, Fitted: s.Newest, Samples: len(s.Samples), Failed: s.Progress.Failed}
}

// withPromotion returns the progress after its candidate was put in force at that time.
func (p Progress) withPromotion(now time.Time) Progress {
	return Progress{Live: p.Candidate, Promoted: now, Last: p.Last, Fitted: p.Fitted, Samples: p.Samples}
}

// withoutCandidate returns the progress after its candidate was given up.
func (p Progress) withoutCandidate() Progress {
	return Progress{Live: p.Live, Promoted: p.Promoted, Last: p.Last, Fitted: p.Fitted, Samples: p.Samples, Failed: p.Failed + 1}
}
