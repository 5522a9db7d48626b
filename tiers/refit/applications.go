package refit

import (
	"cmp"
	"maps"
	"math"
	"slices"

	"github.com/foregate/foregate/tiers/accept"
)

const (
	// maxTerms is how many applications have a term, those with most samples. The record of a score has room for them.
	maxTerms = 32
	// minTermSamples is the fewest samples of one that has: a term of fewer is hardly more than 0.
	minTermSamples = 5
	// termRounds is how often weights and terms are fitted in turn. After so many the terms of the laws in the tests are
	// within 0.02 of where they end.
	termRounds = 12
	// maxTermSteps bounds the steps of Newton for one term.
	maxTermSteps = 20
)

// own are the samples of one application, by their index.
type own struct {
	key  string
	rows []int
	like *own    // of those with more samples, the one that its prompt resembles; nil: none
	term float64 // what it adds to the log odds
}

// prior is the mean of the term before any of its samples.
func (o *own) prior() float64 {
	if o.like == nil {
		return 0
	}
	return accept.Inherited * o.like.term
}

// solveWithApplications fits weights, and for each of the largest applications what it adds to the log odds: u, which is
// drawn from a normal with variance τ² and mean 0, or for a changed prompt a share of the term of the one that it resembles. τ² is
// fitted, too (empirical Bayes: each round of EM sets it to the mean of the square of u's distance from its mean plus the
// variance of u given the samples). So a term is shrunk to its mean the more, the fewer samples it has and the less
// applications differ. Terms are rounded to a hundredth of a nat.
func (r *regression) solveWithApplications(samples []Sample) (w vector, terms map[string]float64) {
	w[bias] = r.oddsOfAll()
	w = r.solve(w)
	all := applicationsOf(samples)
	if len(all) < 2 { // the bias is enough
		return w, nil
	}
	variance := 1.0
	for range termRounds {
		sum := 0.0
		for i := range all {
			sum += r.fitTerm(&all[i], &w, variance)
		}
		variance = sum / float64(len(all))
		w = r.solve(w)
	}
	terms = map[string]float64{}
	for i := range all {
		terms[all[i].key] = math.Round(all[i].term*100) / 100
	}
	return w, terms
}

// applicationsOf returns the applications that have a term, those with most samples first.
func applicationsOf(samples []Sample) []own {
	rows := map[string][]int{}
	for i := range samples {
		if name := samples[i].Application; name != "" {
			rows[name] = append(rows[name], i)
		}
	}
	var all []own
	for name, of := range rows {
		if len(of) >= minTermSamples {
			all = append(all, own{key: accept.ApplicationKey(name), rows: of})
		}
	}
	slices.SortFunc(all, func(a, b own) int {
		return cmp.Or(cmp.Compare(len(b.rows), len(a.rows)), cmp.Compare(a.key, b.key))
	})
	all = all[:min(len(all), maxTerms)]
	byKey := map[string]*own{}
	for i := range all {
		all[i].like = byKey[accept.Resembled(all[i].key, slices.Collect(maps.Keys(byKey)))]
		byKey[all[i].key] = &all[i]
	}
	return all
}

// fitTerm fits the term of one application by Newton's method, with all else as it is. It returns the mean of the
// square of its distance from its prior, given the samples.
func (r *regression) fitTerm(a *own, w *vector, variance float64) float64 {
	precision, prior := 1/max(variance, 1e-6), a.prior()
	curve := precision
	for range maxTermSteps {
		slope := (prior - a.term) * precision
		curve = precision
		for _, k := range a.rows {
			p := sigmoid(dot(w, &r.rows[k].x) + a.term)
			slope -= p
			if r.rows[k].good {
				slope++
			}
			curve += p * (1 - p)
		}
		step := slope / curve
		if a.term += min(max(step, -1), 1); math.Abs(step) < 1e-6 { // a longer step may lead past the least
			break
		}
	}
	for _, k := range a.rows {
		r.rows[k].own = a.term
	}
	return (a.term-prior)*(a.term-prior) + 1/curve
}
