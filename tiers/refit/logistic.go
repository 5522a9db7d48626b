package refit

import (
	"math"

	"github.com/foregate/foregate/tiers/accept"
)

const (
	features = len(accept.Features{})
	greedy   = features     // index of what greedy requests add to the bias
	inputs   = features + 1 // all but the bias
	bias     = inputs
	terms    = inputs + 1

	// maxWeight is the largest weight of a feature: a hundredth of a nat more or less would
	// then be e^10 in the odds.
	maxWeight = 1e3
	// minSpread is the standard deviation below which a feature says nothing.
	minSpread = 1e-9
	// minCurve keeps the bias' curvature away from 0 where all odds are extreme.
	minCurve = 1e-9

	maxSteps   = 100    // of Newton
	maxSweeps  = 10_000 // over the terms within a step
	maxHalving = 30     // of a step that leads up
	settled    = 1e-12  // nats a draft: what promises to gain less is not worth a step
	still      = 1e-10  // deviations: a term that moves less stands still
)

// vector is a value for each weight, one for what greedy requests add to the bias, and one for the bias.
type vector [terms]float64

// regression is a logistic regression on features x that are scaled to mean 0 and deviation 1:
//
//	minimise  1/n·Σ ln(1 + exp(∓z)) + 1/(2n)·(Σ w² + g²),   z = b + g·k + Σ w·x,   0 ≤ w ≤ 1000·deviation
//
// k, which is scaled, too, says whether the request was greedy. Thresholds of greedy and of sampled requests are never
// compared, so g belongs to no score; without it, the weights would explain the difference between the two
// (docs/measurements.md#fitted-scores).
//
// The second sum is as if each weight had been drawn from a unit normal: it keeps weights finite
// where the features tell good from bad without fault, and settles which of two features that say
// the same is meant. With thousands of samples it moves the others by about a hundredth.
type regression struct {
	rows        []row
	mean, scale [inputs]float64
	most        vector // bounds of the weights; 0: the feature says nothing
}

// row is one sample, scaled, with the 1 of the bias.
type row struct {
	x    vector
	good bool
	own  float64 // what its application adds to the log odds
}

// model is a fitted map, and what the log odds of sampled and of greedy requests differ from its score by.
type model struct {
	accept.ScoreMap
	offset [2]float64
}

// odds returns the log odds that the draft of a sample is good.
func (m *model) odds(s *Sample) float64 {
	return float64(m.For(s.Application).Score(s.Features)) + m.offset[indexOf(s.Greedy)]
}

// regress fits a model to samples with both labels. The bias is the mean over the samples of both kinds.
func regress(samples []Sample) (m model) {
	r := scaled(samples)
	w, terms := r.solveWithApplications(samples)
	m.Applications = terms
	m.Bias = w[bias]
	for i := range features {
		if r.most[i] > 0 {
			m.Weights[i] = min(w[i]/r.scale[i], maxWeight)
			m.Bias -= m.Weights[i] * r.mean[i]
		}
	}
	if r.most[greedy] > 0 {
		for k := range m.offset {
			m.offset[k] = w[greedy] * (float64(k) - r.mean[greedy]) / r.scale[greedy]
		}
	}
	return m
}

// scaled prepares samples for a regression.
func scaled(samples []Sample) *regression {
	r := &regression{rows: make([]row, len(samples))}
	n := float64(len(samples))
	for k := range samples {
		s, to := &samples[k], &r.rows[k]
		copy(to.x[:], s.Features[:])
		to.good, to.x[greedy], to.x[bias] = s.Good, float64(indexOf(s.Greedy)), 1
		for i := range inputs {
			r.mean[i] += to.x[i] / n
		}
	}
	for k := range r.rows {
		for i := range inputs {
			x := r.rows[k].x[i] - r.mean[i]
			r.scale[i] += x * x / n
		}
	}
	for i := range inputs {
		if r.scale[i] = math.Sqrt(r.scale[i]); r.scale[i] > minSpread {
			r.most[i] = maxWeight * r.scale[i]
		}
		for k := range r.rows {
			x := &r.rows[k].x[i]
			if *x -= r.mean[i]; r.most[i] > 0 {
				*x /= r.scale[i]
			} else {
				*x = 0
			}
		}
	}
	return r
}

// solve is Newton's method within bounds: each step goes to the least of the quadratic that the
// loss looks like from here, and is halved while it does not lead down. It begins at w.
func (r *regression) solve(w vector) vector {
	cost := r.cost(&w)
	for range maxSteps {
		slope, curve := r.slopes(&w)
		step := r.within(&w, &slope, &curve)
		down, to, next, halved := dot(&slope, &step), w, 0.0, 0
		for part := 1.0; halved < maxHalving; halved, part = halved+1, part/2 {
			for i := range to {
				to[i] = w[i] + part*step[i]
			}
			if next = r.cost(&to); next <= cost+1e-4*down {
				break
			}
		}
		if down > -settled || halved == maxHalving { // as low as rounding lets it come
			break
		}
		w, cost = to, next
	}
	return w
}

// oddsOfAll are the log odds of good among all samples.
func (r *regression) oddsOfAll() float64 {
	good := 0.5 // half a sample more of each kind, so that none is never
	for i := range r.rows {
		if r.rows[i].good {
			good++
		}
	}
	return math.Log(good / (float64(len(r.rows)) + 1 - good))
}

// cost is what is minimised.
func (r *regression) cost(w *vector) float64 {
	sum := 0.0
	for i := range r.rows {
		sum += logLoss(dot(w, &r.rows[i].x)+r.rows[i].own, r.rows[i].good)
	}
	for i, v := range w {
		if i != bias {
			sum += v * v / 2
		}
	}
	return sum / float64(len(r.rows))
}

// slopes are the first and the second derivatives of the cost.
func (r *regression) slopes(w *vector) (slope vector, curve [terms]vector) {
	n := float64(len(r.rows))
	for k := range r.rows {
		x := &r.rows[k].x
		p := sigmoid(dot(w, x) + r.rows[k].own)
		miss, spread := p, p*(1-p)/n
		if r.rows[k].good {
			miss = p - 1
		}
		for i, xi := range x {
			slope[i] += miss * xi / n
			for j := range i + 1 {
				curve[i][j] += spread * xi * x[j]
			}
		}
	}
	for i := range terms {
		if i != bias {
			slope[i] += w[i] / n
			curve[i][i] += 1 / n
		}
	}
	curve[bias][bias] += minCurve
	for i := range terms {
		for j := range i {
			curve[j][i] = curve[i][j]
		}
	}
	return slope, curve
}

// within is the step to the least of slope·d + ½·d·curve·d that keeps the weights within their
// bounds, one term after the other until none moves.
func (r *regression) within(w, slope *vector, curve *[terms]vector) (step vector) {
	for range maxSweeps {
		moved := 0.0
		for i := range step {
			to := step[i] - (slope[i]+dot(&curve[i], &step))/curve[i][i]
			if i < features {
				to = min(max(to, -w[i]), r.most[i]-w[i])
			}
			moved = max(moved, math.Abs(to-step[i]))
			step[i] = to
		}
		if moved < still {
			break
		}
	}
	return step
}

func dot(a, b *vector) float64 {
	sum := 0.0
	for i, v := range a {
		sum += v * b[i]
	}
	return sum
}

func sigmoid(z float64) float64 { return 1 / (1 + math.Exp(-z)) }

// logLoss is −ln of the probability that log odds of z give to what came. Nats.
func logLoss(z float64, good bool) float64 {
	if good {
		z = -z
	}
	return max(z, 0) + math.Log1p(math.Exp(-math.Abs(z)))
}
