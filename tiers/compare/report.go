package compare

import "slices"

// Verdict is what a row's interval says of the candidate.
type Verdict string

// The verdicts.
const (
	Worse    Verdict = "worse"
	Better   Verdict = "better"
	NoneSeen Verdict = "no_difference_found"
	TooFew   Verdict = "too_few"
)

// minRate is the number of trials of a side below which a rate without a difference is too few.
const minRate = 30

// Value is one side of a row.
type Value struct {
	Value    float64   `json:"value"`
	N        float64   `json:"n"`
	Interval *Interval `json:"interval,omitempty"`
	P50      float64   `json:"p50,omitempty"` // seconds
	P95      float64   `json:"p95,omitempty"` // seconds
}

// Row compares both sides in one thing. Times are in seconds.
type Row struct {
	Name       string    `json:"name"`
	Incumbent  Value     `json:"incumbent"`
	Candidate  Value     `json:"candidate"`
	Difference *Interval `json:"difference,omitempty"` // candidate minus incumbent; nil with too few values
	Verdict    Verdict   `json:"verdict"`
}

// Report compares both sides. Each row's interval misses with a probability of at most [Alpha] over all looks; rows are
// not corrected for one another. Thousand is the USD per 1,000 tokens of each side, without an interval.
type Report struct {
	Pair     Pair       `json:"pair"`
	Rows     []Row      `json:"rows"`
	Thousand [2]float64 `json:"usd_per_1000_tokens"`
	Mirrored [2]float64 `json:"mirrored_answers"`
}

// NewReport compares the sums of the incumbent and of the candidate.
func NewReport(p Pair, incumbent, candidate *Totals) Report {
	a, b := incumbent, candidate
	total := meanRow("total", a.Total, b.Total)
	for _, side := range []struct {
		v *Value
		s *Totals
	}{{&total.Incumbent, a}, {&total.Candidate, b}} {
		side.v.P50, side.v.P95 = side.s.Latency.Quantile(0.5), side.s.Latency.Quantile(0.95)
	}
	rows := []Row{
		rateRow("acceptance", a.Drafts, b.Drafts, true),
		rateRow("agreement", a.Opinions, b.Opinions, true),
		meanRow("first_token", a.FirstToken, b.FirstToken),
		total,
		meanRow("per_token", a.PerToken, b.PerToken),
		meanRow("usd_per_answer", a.USD, b.USD),
	}
	if b.Mirrored == 0 {
		rows = slices.Insert(rows, 2, rateRow("failures", failures(a), failures(b), false))
	} else { // a mirror is asked only where the incumbent has answered
		rows = append(rows, meanRow("mirrored_total", a.Total.plus(a.MirroredTotal), b.MirroredTotal))
	}
	return Report{
		Pair:     p,
		Rows:     rows,
		Thousand: [2]float64{thousand(a), thousand(b)},
		Mirrored: [2]float64{a.Mirrored, b.Mirrored},
	}
}

func failures(s *Totals) Rate { return Rate{s.Answers + s.Failures, s.Failures} }

func thousand(s *Totals) float64 {
	if s.PricedTokens == 0 {
		return 0
	}
	return s.USD.Sum / s.PricedTokens * 1000
}

func rateRow(name string, a, b Rate, moreIsBetter bool) Row {
	row := Row{Name: name, Incumbent: rateValue(a), Candidate: rateValue(b)}
	d := rateInterval(b, Alpha/2).minus(rateInterval(a, Alpha/2))
	row.Difference = &d
	row.Verdict = verdict(d, moreIsBetter)
	if row.Verdict == NoneSeen && min(a.N, b.N) < minRate {
		row.Verdict = TooFew
	}
	return row
}

func rateValue(r Rate) Value {
	i := rateInterval(r, Alpha)
	return Value{Value: Moments{N: r.N, Sum: r.Good}.Mean(), N: r.N, Interval: &i}
}

func meanRow(name string, a, b Moments) Row {
	row := Row{Name: name, Incumbent: meanValue(a), Candidate: meanValue(b), Verdict: TooFew}
	ia, okA := meanInterval(a, Alpha/2)
	ib, okB := meanInterval(b, Alpha/2)
	if okA && okB {
		d := ib.minus(ia)
		row.Difference, row.Verdict = &d, verdict(d, false)
	}
	return row
}

func meanValue(m Moments) Value {
	v := Value{Value: m.Mean(), N: m.N}
	if i, ok := meanInterval(m, Alpha); ok {
		v.Interval = &i
	}
	return v
}

// verdict says on which side of 0 a difference lies.
func verdict(d Interval, moreIsBetter bool) Verdict {
	switch {
	case d.Low > 0 == moreIsBetter && (d.Low > 0 || d.High < 0):
		return Better
	case d.Low > 0 || d.High < 0:
		return Worse
	}
	return NoneSeen
}
