// Package refit fits the score of a route again when there are new audits, and decides when the new score replaces the
// one in force. The new score is a candidate: it has evidence and thresholds of its own, and it serves nothing before they
// are certified.
//
// Start at [Next], the decision, which is a pure function of the log of audits. [Refitter] carries decisions out.
//
// # Why the guarantee holds although data choose the score
//
// A score that was fitted to audits looks better on these audits than it is. So the evidence of a candidate are only
// audits that began after the newest audit that the fit could see. They are independent of the fit: given the candidate,
// each is a random draft of the traffic class, as for a score that was fixed beforehand, and the e-values of package risk
// hold without a change. Its thresholds are placed by the audits of the fit, too, so they are fixed before its evidence
// begins.
//
// Only full-range audits count. An audit with a floor is of a draft that the score in force found good enough; the drafts
// above a threshold of the candidate that it found worse would be missing, and they are the worse ones. So while a
// candidate collects evidence, all audits of the route are full-range audits ([Refitter.Collects]). An audit without an
// outcome counts as bad. What the candidate accepts, and when it is compared, depends on its evidence; an e-value holds
// at every moment, so this costs nothing.
//
// Each candidate is one more chance to err. The i-th since the last one that was promoted has the error probability
// δ/(2i²) of an epoch that is the i-th without a certificate (package risk): all of them together have 0.83 δ at most.
//
// A drift alarm ends a candidate: its evidence is of other drafts. A change of ε does not: certificates hold for any ε that
// is chosen by looking at the evidence (package risk).
package refit

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/foregate/foregate/tiers/accept"
	"github.com/foregate/foregate/tiers/calibrate"
	"github.com/foregate/foregate/tiers/plan"
	"github.com/foregate/foregate/tiers/risk"
)

// Progress is what replicas share about the refits of one route.
type Progress struct {
	Version  int       `json:"version"`  // of the candidate; 0: there is none
	Fitted   time.Time `json:"fitted"`   // when the newest audit began that the last fit could see; zero: nothing was fitted
	Samples  int       `json:"samples"`  // labelled audits of that fit
	Grids    grids     `json:"grids"`    // the candidate's thresholds
	Failed   int       `json:"failed"`   // candidates since the last promotion that were given up
	Promoted int       `json:"promoted"` // version that a refit put in force last; 0: none
	Waiting  bool      `json:"waiting"`  // the candidate is certified, and an operator must put it in force

	Status Status `json:"status"`
}

// grids are the thresholds for sampled and for greedy requests, from the strictest.
type grids [2]risk.Grid

// of returns the thresholds for a traffic class.
func (g grids) of(trafficClass string) risk.Grid {
	if plan.IsGreedy(trafficClass) {
		return g[1]
	}
	return g[0]
}

// Status is how far a candidate is, for people.
type Status struct {
	Audits     int `json:"audits"`     // its evidence
	Index      int `json:"index"`      // largest certified index of the class with the most evidence
	Thresholds int `json:"thresholds"` // of which there are so many
	Live       int `json:"live"`       // operating index of the score in force in this class
}

// Bounds of a record.
const (
	maxVersion = 1_000_000
	maxCount   = 1 << 31
	maxRecord  = 8 << 10 // bytes
)

// Parse reads a record; an empty one is the zero Progress. What [Progress.Encode] does not write is an error: records come
// from Redis.
func Parse(record string) (Progress, error) {
	if record == "" {
		return Progress{}, nil
	}
	if len(record) > maxRecord {
		return Progress{}, fmt.Errorf("refit: a record of %d bytes, want %d at most", len(record), maxRecord)
	}
	d := json.NewDecoder(strings.NewReader(record))
	d.DisallowUnknownFields()
	var p Progress
	if err := d.Decode(&p); err != nil {
		return Progress{}, fmt.Errorf("refit: %w", err)
	}
	if d.More() {
		return Progress{}, errors.New("refit: something follows the record")
	}
	if err := p.check(); err != nil {
		return Progress{}, fmt.Errorf("refit: %w", err)
	}
	return p, nil
}

// Encode returns the record.
func (p Progress) Encode() string {
	raw, err := json.Marshal(p)
	if err != nil { // a threshold that is no number; a fit has none
		return ""
	}
	return string(raw)
}

// check refuses what no refit comes to.
func (p Progress) check() error {
	for _, n := range [...]struct{ n, most int }{
		{p.Version, maxVersion}, {p.Promoted, maxVersion}, {p.Samples, maxCount}, {p.Failed, maxCount},
		{p.Status.Audits, maxCount}, {p.Status.Index, maxCount}, {p.Status.Thresholds, maxCount}, {p.Status.Live, maxCount},
	} {
		if n.n < 0 || n.n > n.most {
			return fmt.Errorf("a count of %d, want 0 to %d", n.n, n.most)
		}
	}
	switch {
	case !p.Grids[0].IsValid() || !p.Grids[1].IsValid():
		return fmt.Errorf("thresholds that are no grid: %v", p.Grids)
	case p.Version != 0 && (len(p.Grids[0]) == 0 || len(p.Grids[1]) == 0 || p.Fitted.IsZero()):
		return fmt.Errorf("the candidate %d has no thresholds or no beginning", p.Version)
	}
	return nil
}

// IsPinned reports whether an operator chose the score in force: risk.score_version is set, and not by a refit. live is
// its value.
func (p Progress) IsPinned(live int, set bool) bool {
	return set && (live == 0 || live != p.Promoted && live != p.Version)
}

// String says in one line how far the candidate is; "" without one.
func (p Progress) String() string {
	if p.Version == 0 {
		return ""
	}
	s := p.Status
	certified := "nothing certified"
	if s.Index > 0 {
		certified = fmt.Sprintf("certified at index %d of %d", s.Index, s.Thresholds)
	}
	text := fmt.Sprintf("candidate v%d: %d audits, %s, live at %d", p.Version, s.Audits, certified, s.Live)
	if p.Waiting {
		text += fmt.Sprintf("; the gateway may not change settings: set risk.score_version to %d", p.Version)
	}
	return text
}

// clearGain is how many standard errors a fit must be better by than the score in force, on drafts that it has not seen.
const clearGain = 2

// IsBetter reports whether a fit is clearly better than the score in force on drafts that it has not seen. A fit that is
// not would only cost audits.
func IsBetter(f *calibrate.Fitted) bool {
	return f.Gain.Value > 0 && f.Gain.Value > clearGain*f.Gain.Error
}

// minGridScores is how many full-range audits place a grid. The place of the median among 60 is off by 6 % of the drafts
// (one standard deviation).
const minGridScores = 60

// WithCandidate returns the progress after a fit was saved under a version.
func (p Progress) WithCandidate(version int, f *calibrate.Fitted, s *Samples) Progress {
	next := p.WithFit(s)
	next.Version = version
	next.Grids = place(&f.Map, s)
	return next
}

// place places the candidate's thresholds by the samples of its fit, those of greedy requests apart. The lowest scores are
// known from full-range audits alone, so if there are enough of these, they alone are used.
func place(m *accept.ScoreMap, s *Samples) (g grids) {
	var all, full [2][]float64
	for i := range s.Labelled {
		score, kind := float64(m.Score(s.Labelled[i].Features)), 0
		if s.Labelled[i].Greedy {
			kind = 1
		}
		all[kind] = append(all[kind], score)
		if s.fullRange[i] {
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

// WithFit returns the progress after a fit that made no candidate.
func (p Progress) WithFit(s *Samples) Progress {
	return Progress{Fitted: s.Newest, Samples: len(s.Labelled), Failed: p.Failed, Promoted: p.Promoted}
}

// WithPromotion returns the progress after its candidate was put in force.
func (p Progress) WithPromotion() Progress {
	return Progress{Fitted: p.Fitted, Samples: p.Samples, Promoted: p.Version}
}

// withoutCandidate returns the progress after its candidate was given up.
func (p Progress) withoutCandidate() Progress {
	return Progress{Fitted: p.Fitted, Samples: p.Samples, Promoted: p.Promoted, Failed: int(math.Min(float64(p.Failed)+1, maxCount))}
}
