package refit

import (
	"fmt"
	"math"

	"github.com/foregate/foregate/tiers/accept"
)

const (
	// MinSamples is how many labels a fit takes. All fits of so many beat the plain score (docs/measurements.md#fitted-scores); of 300
	// labels 1 in 157 did not.
	MinSamples = 500
	// MinPerLabel is how many of them must be good, and how many bad. Of fits of 500 with 20 to 49 bad ones 2 in 65 did not beat
	// the plain score.
	MinPerLabel = 50

	// folds is how many parts the samples are cut in, each of which is held out once.
	folds = 5
)

// Sample is one audit with an outcome.
type Sample struct {
	Features  accept.Features // finite
	Score     float64         // by which the draft was judged then, nats
	Good      bool            // the target stood by the draft
	Greedy    bool            // the request had temperature 0
	FullRange bool            // the draft was a random one of all
}

// Fitted is a fitted score, and what it is worth. What is said of its worth comes from
// drafts that were held out: each fifth was scored by a fit of the other four.
type Fitted struct {
	Map accept.ScoreMap // of all samples; version 0, whoever keeps it numbers it

	Before, After Area // how well the score of then, and this one, tell good from bad
	Gain          Area // the difference, with its own error: both see the same drafts
}

// tooFew returns an error if labels are fewer than [MinSamples], or those of one kind fewer than [MinPerLabel].
func tooFew(samples []Sample) error {
	good := 0
	for i := range samples {
		good += indexOf(samples[i].Good)
	}
	if bad := len(samples) - good; len(samples) < MinSamples || min(good, bad) < MinPerLabel {
		return fmt.Errorf("refit: %d good and %d bad labels, want %d together and %d of each", good, bad, MinSamples, MinPerLabel)
	}
	return nil
}

// FitScore fits a score to samples. The same samples in the same order make the same fit. Its time
// grows with the number of samples and is bounded. It fails if they are too few.
func FitScore(samples []Sample) (f Fitted, err error) {
	if err := tooFew(samples); err != nil {
		return f, err
	}
	f.Map = regress(samples).ScoreMap
	f.validate(samples)
	return f, nil
}

// validate holds out one part of the samples after the other. The areas are means over the
// parts, whose scores come from different fits and are not compared with each other.
func (f *Fitted) validate(samples []Sample) {
	for _, part := range split(samples) {
		m := regress(part.train)
		var kinds [2]validationSet
		for i := range part.test {
			s := &part.test[i]
			kinds[indexOf(s.Greedy)].add(s, m.odds(s))
		}
		before, after, gain := joined(kinds)
		f.Before.join(before, 1./folds)
		f.After.join(after, 1./folds)
		f.Gain.join(gain, 1./folds)
	}
}

// join adds a share of another area, which is of other drafts.
func (a *Area) join(part Area, share float64) {
	a.Value += part.Value * share
	a.Error = math.Hypot(a.Error, part.Error*share)
}

// validationSet are the scores of drafts that a fit has not seen.
type validationSet struct {
	before, after []float64
	good          []bool
	bad           int
}

func (h *validationSet) add(s *Sample, after float64) {
	h.before = append(h.before, s.Score)
	h.after = append(h.after, after)
	h.good = append(h.good, s.Good)
	h.bad += 1 - indexOf(s.Good)
}

// pairs is how many pairs of a good and a bad draft there are.
func (h *validationSet) pairs() float64 { return float64(h.bad) * float64(len(h.good)-h.bad) }

// joined returns the areas of sampled and of greedy requests, joined by how many pairs of drafts each compares: a good and a
// bad draft are compared only if their requests are of the same kind.
func joined(kinds [2]validationSet) (before, after, gain Area) {
	pairs := kinds[0].pairs() + kinds[1].pairs()
	if pairs == 0 {
		return Area{.5, .5}, Area{.5, .5}, Area{0, .5}
	}
	for _, h := range kinds {
		if h.pairs() == 0 {
			continue
		}
		share := h.pairs() / pairs
		was, is := placements(h.before, h.good), placements(h.after, h.good)
		before.join(areaOf(was, h.good), share)
		after.join(areaOf(is, h.good), share)
		for i := range is {
			is[i] -= was[i]
		}
		gain.join(areaOf(is, h.good), share)
	}
	return before, after, gain
}

// part is what a fit is made of and what it is tried on.
type part struct{ train, test []Sample }

// split deals the samples out to the parts in turn, those of each label and kind of request by themselves, so that all parts
// have their share of each.
func split(samples []Sample) [folds]part {
	var parts [folds]part
	var dealt [4]int
	for _, s := range samples {
		kind := 2*indexOf(s.Greedy) + indexOf(s.Good)
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
