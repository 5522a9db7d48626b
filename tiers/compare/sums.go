package compare

import (
	"fmt"
	"math"
	"time"
)

// Moments are the sums of which a mean and its variance are made. They are whole only together.
type Moments struct{ N, Sum, Squares float64 }

// Add adds one value, which is refused unless it is finite and not negative.
func (m *Moments) Add(x float64) error {
	if !(x >= 0) || math.IsInf(x*x, 0) {
		return fmt.Errorf("value %v is not a number from 0", x)
	}
	m.N++
	m.Sum += x
	m.Squares += x * x
	return nil
}

// Mean is 0 without values.
func (m Moments) Mean() float64 {
	if m.N == 0 {
		return 0
	}
	return m.Sum / m.N
}

// variance is that of the sample, never negative.
func (m Moments) variance() float64 {
	if m.N < 2 {
		return 0
	}
	return max(0, m.Squares/m.N-m.Mean()*m.Mean())
}

// Rate counts trials, and those that were good.
type Rate struct{ N, Good float64 }

func (r *Rate) add(good bool) {
	r.N++
	if good {
		r.Good++
	}
}

// Buckets of [Histogram]: the first ends at 1 ms, each further one at a quarter more, the last takes all above (about 20
// minutes).
const (
	histogramBuckets = 64
	histogramFirst   = 0.001
	histogramGrowth  = 1.25
)

// Histogram counts seconds in buckets whose bounds grow by a quarter.
type Histogram [histogramBuckets]float64

func (h *Histogram) add(seconds float64) {
	i := 0
	if seconds > histogramFirst {
		i = int(min(histogramBuckets-1, math.Ceil(math.Log(seconds/histogramFirst)/math.Log(histogramGrowth))))
	}
	h[i]++
}

// Quantile is the upper bound, in seconds, of the bucket with the quantile q from 0 to 1; 0 without values.
func (h *Histogram) Quantile(q float64) float64 {
	var all, seen float64
	for _, n := range h {
		all += n
	}
	for i, n := range h {
		if seen += n; n > 0 && seen >= q*all {
			return histogramFirst * math.Pow(histogramGrowth, float64(i))
		}
	}
	return 0
}

// Totals is what is known of one side. Counts are whole numbers in a float64, which is exact below 2^53.
type Totals struct {
	Answers                     float64
	Unanswered                  [numUnanswered]float64 // by reason
	Drafts, Opinions            Rate
	FirstToken, Total, PerToken Moments // seconds, of answers that a client waited for
	USD                         Moments // per answer whose cost is known
	Tokens                      float64 // of all answers
	PricedTokens                float64 // of those whose cost is known
	Latency                     Histogram
	MirroredTotal               Moments // seconds, of answers that nobody waited for
}

// Add adds an answer. One with a negative time or number, or a cost that is no number, is refused whole.
func (s *Totals) Add(a Answer) error {
	if a.FirstToken < 0 || a.Total < 0 || a.Tokens < 0 || !(a.USD >= 0) || math.IsInf(a.USD*a.USD, 0) {
		return fmt.Errorf("answer with first token %v, total %v, %d tokens, %v USD: each must be a number from 0",
			a.FirstToken, a.Total, a.Tokens, a.USD)
	}
	s.Answers++
	s.Tokens += float64(a.Tokens)
	if a.USD > 0 {
		_ = s.USD.Add(a.USD) // checked above
		s.PricedTokens += float64(a.Tokens)
	}
	total := a.Total.Seconds()
	if a.Mirrored {
		_ = s.MirroredTotal.Add(total)
		return nil
	}
	_ = s.Total.Add(total)
	s.Latency.add(total)
	if a.FirstToken > 0 {
		_ = s.FirstToken.Add(a.FirstToken.Seconds())
	}
	if a.Tokens > 0 {
		_ = s.PerToken.Add((a.Total / time.Duration(a.Tokens)).Seconds())
	}
	return nil
}

// AddUnanswered adds a request without a whole answer. An unknown reason is an error.
func (s *Totals) AddUnanswered(why Unanswered) error {
	if why >= numUnanswered {
		return fmt.Errorf("reason %d of a request without an answer is unknown", why)
	}
	s.Unanswered[why]++
	return nil
}

// share returns the requests without an answer for one reason, of all.
func (s *Totals) share(why Unanswered) Rate {
	all := s.Answers
	for _, n := range s.Unanswered {
		all += n
	}
	return Rate{all, s.Unanswered[why]}
}

// AddDraft adds the side's opinion of a draft.
func (s *Totals) AddDraft(good bool) { s.Drafts.add(good) }

// AddOpinion adds the incumbent's opinion of an answer of the side.
func (s *Totals) AddOpinion(good bool) { s.Opinions.add(good) }

// Merge adds what another has counted.
func (s *Totals) Merge(o *Totals) {
	theirs := make(map[string]float64)
	o.Each(func(name string, v *float64) { theirs[name] = *v })
	s.Each(func(name string, v *float64) { *v += theirs[name] })
}

// unansweredNames are the rows and the stored fields of the reasons.
var unansweredNames = [numUnanswered]string{Failed: "failures", Rejected: "rejected", Left: "left", Diverted: "diverted"}

// Each calls f with each number and its name, which is stable: stores write it.
func (s *Totals) Each(f func(name string, v *float64)) {
	f("answers", &s.Answers)
	for why, name := range unansweredNames {
		f(name, &s.Unanswered[why])
	}
	f("tokens", &s.Tokens)
	f("priced", &s.PricedTokens)
	for name, r := range map[string]*Rate{"drafts": &s.Drafts, "opinions": &s.Opinions} {
		f(name+".n", &r.N)
		f(name+".good", &r.Good)
	}
	for name, m := range map[string]*Moments{"first": &s.FirstToken, "total": &s.Total, "token": &s.PerToken, "usd": &s.USD, "mirrored_total": &s.MirroredTotal} {
		f(name+".n", &m.N)
		f(name+".sum", &m.Sum)
		f(name+".squares", &m.Squares)
	}
	for i := range s.Latency {
		f(fmt.Sprintf("latency.%d", i), &s.Latency[i])
	}
}
