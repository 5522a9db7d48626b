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

	Application string // of the request; "": not known
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
	good := goods(samples)
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

// part is what a fit is made of, and what it is tried on: drafts of sampled and of greedy requests.
type part struct {
	train []Sample
	test  [2][]Sample
}

// split deals the samples out to the parts in turn, those of each label and kind of request by themselves, so that all parts
// have their share of each.
func split(samples []Sample) (parts [folds]part) {
	var dealt [4]int
	for _, s := range samples {
		greedy := indexOf(s.Greedy)
		turn := &dealt[2*greedy+indexOf(s.Good)]
		for i := range parts {
			if i == *turn%folds {
				parts[i].test[greedy] = append(parts[i].test[greedy], s)
			} else {
				parts[i].train = append(parts[i].train, s)
			}
		}
		*turn++
	}
	return parts
}

// validate holds out one part of the samples after the other. The areas are means over the parts, whose scores come from
// different fits and are not compared with each other; nor are drafts of sampled and of greedy requests, which are weighed by
// how many pairs of a good and a bad draft there are.
func (f *Fitted) validate(samples []Sample) {
	for _, p := range split(samples) {
		m := regress(p.train)
		pairs := [2]float64{pairsOf(p.test[0]), pairsOf(p.test[1])}
		for kind, test := range p.test {
			if pairs[kind] > 0 {
				f.compare(&m, test, pairs[kind]/(pairs[0]+pairs[1])/folds)
			}
		}
	}
}

// pairsOf is how many pairs of a good and a bad draft there are.
func pairsOf(samples []Sample) float64 {
	good := goods(samples)
	return float64(good) * float64(len(samples)-good)
}

func goods(samples []Sample) (n int) {
	for i := range samples {
		n += indexOf(samples[i].Good)
	}
	return n
}

// compare adds a share of what the score of then, and a fit, are worth on samples that the fit has not seen.
func (f *Fitted) compare(m *model, test []Sample, share float64) {
	before, after, good := make([]float64, len(test)), make([]float64, len(test)), make([]bool, len(test))
	for i := range test {
		before[i], after[i], good[i] = test[i].Score, m.odds(&test[i]), test[i].Good
	}
	was, is := placements(before, good), placements(after, good)
	f.Before.join(areaOf(was, good), share)
	f.After.join(areaOf(is, good), share)
	for i := range is {
		is[i] -= was[i]
	}
	f.Gain.join(areaOf(is, good), share)
}

// join adds a share of another area, which is of other drafts.
func (a *Area) join(part Area, share float64) {
	a.Value += part.Value * share
	a.Error = math.Hypot(a.Error, part.Error*share)
}
