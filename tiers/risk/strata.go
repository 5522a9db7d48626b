package risk

import (
	"cmp"
	"maps"
	"math"
	"slices"
)

const (
	// maxStrata is how many applications have counts of their own in an epoch. The others share one.
	maxStrata = 8
	// minStratumShare is the least share of the audits that an application has counts of its own from. Each costs the bound of
	// the mix about two nats, so with many small ones that are alike the first certificate would take four times as many audits.
	minStratumShare = 0.1
	// maxSketch is how many applications the sketch of the traffic counts at most.
	maxSketch = 64
	// maxSketched is what its counts come to when all are halved, so that it follows the traffic.
	maxSketched = 1000
)

// Sketch finds the applications that come most often, in bounded memory (Misra and Gries 1982): where there is no room for
// one more, all counts fall by one. What is not counted is of the rest. The zero value is empty.
type Sketch struct {
	Total  int            // of all, halved with the counts
	Counts map[string]int `json:",omitempty"`
}

// Add counts a request or an audit of an application.
func (s *Sketch) Add(application string) {
	if s.Counts == nil {
		s.Counts = map[string]int{}
	}
	_, known := s.Counts[application]
	switch {
	case application == "":
	case known || len(s.Counts) < maxSketch:
		s.Counts[application]++
	default:
		s.lower(func(n int) int { return n - 1 })
	}
	if s.Total++; s.Total >= maxSketched {
		s.Total /= 2
		s.lower(func(n int) int { return n / 2 })
	}
}

// TrafficOf returns what the traffic of past audits was made of: each stands for as many drafts as one in its chance.
func TrafficOf(past []*LogEntry) (s Sketch) {
	drafts, all := map[string]float64{}, 0.0
	for _, a := range past {
		all += standsFor(a)
		drafts[a.Application] += standsFor(a)
	}
	s = Sketch{Total: int(all), Counts: make(map[string]int, len(drafts))}
	for name, n := range drafts {
		s.Counts[name] = int(n)
	}
	return s
}

// Clone returns a copy that shares nothing with it.
func (s *Sketch) Clone() Sketch { return Sketch{s.Total, maps.Clone(s.Counts)} }

func (s *Sketch) lower(to func(int) int) {
	for name, n := range s.Counts {
		if s.Counts[name] = to(n); s.Counts[name] <= 0 {
			delete(s.Counts, name)
		}
	}
}

// largest returns the names of the applications that have counts of their own, sorted.
func (s *Sketch) largest() []string {
	names := slices.SortedFunc(maps.Keys(s.Counts), func(a, b string) int {
		return cmp.Or(cmp.Compare(s.Counts[b], s.Counts[a]), cmp.Compare(a, b))
	})
	names = slices.DeleteFunc(names, func(name string) bool { return float64(s.Counts[name]) < minStratumShare*float64(s.Total) })
	names = names[:min(len(names), maxStrata)]
	slices.Sort(names)
	return names
}

// over returns how often each stratum came.
func (s *Sketch) over(of *Strata) Mix {
	mix, rest := make(Mix, len(of.Counts)), s.Total
	for i, name := range of.Names {
		mix[i] = float64(s.Counts[name])
		rest -= s.Counts[name]
	}
	mix[len(of.Names)] = float64(max(rest, 0))
	return mix
}

// Counts are the audits of one application in an epoch.
type Counts struct {
	Tally
	W      [gridSize + 1]float64 // drafts that the audits stand for, by the first index that accepts them; the last: none does
	Audits int                   // with any score
	Drift  Drift

	Weighed
}

// Weighed are sums over audits with an outcome: the drafts that they stand for, those of them that the target stands by, and the
// squares of the weights.
type Weighed struct{ Closed, Good, Squares float64 }

// add adds an audit that stands for so many drafts.
func (w *Weighed) add(drafts float64, good bool) {
	w.Closed, w.Squares = w.Closed+drafts, w.Squares+drafts*drafts
	if good {
		w.Good += drafts
	}
}

// agreement returns the share of the drafts that the target stands by, and where it is with probability 1 − delta. Weighted audits
// count for as many equal ones as have the same variance (Kish 1965).
func (w *Weighed) agreement(delta float64) (low, seen, high float64) {
	if w.Closed <= 0 {
		return 0, 0, 1
	}
	seen = w.Good / w.Closed
	n := int(w.Closed * w.Closed / w.Squares)
	low, high = shareInterval(n, int(seen*float64(n)+.5), delta)
	return low, seen, high
}

// Strata are the audits of an epoch by application, so that what is served can be bounded for any mix of applications.
type Strata struct {
	Names  []string // sorted; those that began with the epoch
	Counts []Counts // of each name, and of the rest
}

// strataOf returns the empty strata of some applications.
func strataOf(names []string) (s Strata) {
	if len(names) > 0 {
		s = Strata{names, make([]Counts, len(names)+1)}
	}
	return s
}

// open counts an audit that begins.
func (c *Counts) open(b *OpenAudit) {
	c.Audits++
	c.W[min(b.First, gridSize+1)-1] += b.Weight
	c.Tally.open(b.First, b.Hi)
}

// close takes the outcome of one that was opened.
func (c *Counts) close(b *OpenAudit, bad bool) {
	c.Tally.close(b.First, b.Hi, bad)
	c.add(b.Weight, !bad)
}

// refusedDelta is the probability that more of an application's drafts agree than [Counts.refused] says.
const refusedDelta = 0.05

// refused returns the share of an application's drafts that the target does not stand by, at least; 0 where that is not known.
func (c *Counts) refused() float64 {
	_, _, high := c.agreement(refusedDelta)
	return 1 - high
}

// isWhole reports whether strata that were stored have counts for each name.
func (s *Strata) isWhole() bool {
	broken := func(c Counts) bool { return !c.isWhole() }
	return (len(s.Names) == 0 || len(s.Counts) == len(s.Names)+1) && !slices.ContainsFunc(s.Counts, broken)
}

// index returns that of an application.
func (s *Strata) index(application string) int {
	if i, ok := slices.BinarySearch(s.Names, application); ok {
		return i
	}
	return len(s.Names)
}

// accepts returns the share of an application's drafts that index j accepts; 1 where none is known.
func (c *Counts) accepts(j int) float64 {
	sum, all := 0.0, 0.0
	for i, w := range c.W {
		if all += w; i < j {
			sum += w
		}
	}
	if all <= 0 {
		return 1
	}
	return sum / all
}

// logEWithin is [LogE] against the risk of one stratum: half of the stake is not bet, so that an e-value is never below a half. It
// grows with eps, is convex in it, and falls with k.
func logEWithin(n, k int, eps float64) float64 { return betsWithin.logE(n, k, eps) }

// Mix is what the traffic of a kind of request is made of: a weight for each stratum, such as its drafts.
type Mix []float64

// Reach is what an index would serve of a mix.
type Reach struct {
	Index  int
	Served float64   // share of the mix
	Within []bool    // by stratum: whether it is served
	shares []float64 // of the strata in what it serves
}

// reach returns the index at which most of a mix is served while its disagreement is proven to be at most r.MaxDisagreement,
// and that of each application at most r.MaxDisagreementApplication, if that is a larger share than more. need is ln of the
// e-value that certifies an index. Index 0 serves nothing.
// The mix may be chosen by looking at the evidence (docs/science.md, "Applications, and a mix that moves").
func (s *Strata) reach(mix Mix, more float64, r Rule, need float64) Reach {
	var all []Reach
	for j := 1; j <= gridSize; j++ {
		all = s.candidates(all, j, mix, r, need)
	}
	all = slices.DeleteFunc(all, func(c Reach) bool {
		return c.Served <= more || s.roughly(c.Index, c.shares, need) > r.MaxDisagreement
	})
	slices.SortStableFunc(all, func(a, b Reach) int { return cmp.Compare(b.Served, a.Served) })
	for i := range all[:min(len(all), maxCandidates)] {
		if c := &all[i]; s.keeps(c.Index, c.shares, r.MaxDisagreement, need) {
			return *c
		}
	}
	return Reach{}
}

// maxCandidates bounds the candidates that are looked at: each takes 0.2 ms.
const maxCandidates = 12

// candidates adds those of one index: the applications that keep to their own bound, those with the fewest bad ones first;
// the first, the first two, and so on.
func (s *Strata) candidates(all []Reach, j int, mix Mix, r Rule, need float64) []Reach {
	total := 0.0
	var order []int
	for a := range s.Counts {
		total += mix[a]
		if c := &s.Counts[a]; mix[a] > 0 && c.keeps(j, r.application(), need) {
			order = append(order, a)
		}
	}
	slices.SortStableFunc(order, func(a, b int) int {
		return cmp.Compare(share(s.Counts[a].K[j-1], s.Counts[a].N[j-1]), share(s.Counts[b].K[j-1], s.Counts[b].N[j-1]))
	})
	within, parts, served := make([]bool, len(s.Counts)), make([]float64, len(s.Counts)), 0.0
	for _, a := range order {
		within[a], parts[a] = true, mix[a]*s.Counts[a].accepts(j)
		served += parts[a]
		if served <= 0 {
			continue
		}
		shares := slices.Clone(parts)
		for i := range shares {
			shares[i] /= served
		}
		all = append(all, Reach{j, served / total, slices.Clone(within), shares})
	}
	return all
}

// keeps reports whether the risk of index j is proven to be below eps for one application, by its own audits.
func (c *Counts) keeps(j int, eps, need float64) bool {
	n, k := c.N[j-1], c.K[j-1]
	return float64(k) < eps*float64(n) && LogE(n, k, eps) >= need
}

// keeps reports whether the largest Σ share_a·r_a with Σ ln E_a(r_a) ≤ need is at most eps. Both are convex, so that is so
// if and only if for some price μ of a nat μ·need + Σ max_r (share_a·r − μ·ln E_a(r)) is at most eps (Lagrange). The price is
// right where what the maxima spend is need.
func (s *Strata) keeps(j int, shares []float64, eps, need float64) bool {
	if s.seen(j, shares) >= eps {
		return false
	}
	low, high := math.Log(1e-6), 0.0
	for range 20 {
		log := (low + high) / 2
		mu := math.Exp(log)
		bound, reached, spent := mu*need, 0.0, 0.0
		for a, share := range shares {
			c := &s.Counts[a]
			from, to := highest(c.N[j-1], c.K[j-1], share/mu)
			cost := logEWithin(c.N[j-1], c.K[j-1], from)
			spent += cost
			bound += share*to - mu*cost
			reached += share * from
		}
		switch {
		case bound <= eps:
			return true
		case spent > need: // too cheap
			low = log
		case reached > eps:
			return false // a mix of risks that is not refuted
		default:
			high = log
		}
	}
	return false
}

// seen is the share of bad ones in what is served, by the counts.
func (s *Strata) seen(j int, shares []float64) (sum float64) {
	for a, share := range shares {
		if c := &s.Counts[a]; c.N[j-1] > 0 {
			sum += share * float64(c.K[j-1]) / float64(c.N[j-1])
		}
	}
	return sum
}

// roughly is about the largest sum, and mostly less: what is seen and most of the deviation that need allows a normal law. It
// costs little, so that what is far from being kept is not looked at more closely.
func (s *Strata) roughly(j int, shares []float64, need float64) float64 {
	const most, nats = 0.8, 2 // of the deviation; that each application costs
	variance := 0.0
	for a, share := range shares {
		if c := &s.Counts[a]; share > 0 && c.N[j-1] > 0 {
			n := float64(c.N[j-1])
			p := (float64(c.K[j-1]) + 0.5) / (n + 1)
			variance += share * share * p * (1 - p) / n
			need += nats
		}
	}
	return s.seen(j, shares) + most*math.Sqrt(2*need*variance)
}

// highest returns bounds of the r at which worth·r − ln E(r) is largest, which is concave.
func highest(n, k int, worth float64) (low, high float64) {
	if high = 1 - 1e-9; n == 0 && worth > 0 {
		return high, high
	}
	for range 24 {
		if mid := (low + high) / 2; slopeWithin(n, k, mid) < worth {
			low = mid
		} else {
			high = mid
		}
	}
	return low, high
}

// slopeWithin is the derivative of [logEWithin] by eps.
func slopeWithin(n, k int, eps float64) float64 {
	terms, top := betsWithin.terms(n, k, eps)
	sum, slope := 0.0, 0.0
	for i, b := range betsWithin {
		w := math.Exp(terms[i] - top)
		sum += w
		slope += w * (1/(1-eps) - b.times/(1-b.times*eps))
	}
	return float64(n-k) * slope / sum
}
