package compare

// Verdict is what a row's interval says of the candidate.
type Verdict string

// The verdicts.
const (
	Worse    Verdict = "worse"
	Better   Verdict = "better"
	NoneSeen Verdict = "no_difference_found"
	TooFew   Verdict = "too_few"
	Unjudged Verdict = "not_judged" // both sides were not measured in the same way
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
}

// NewReport compares the sums of the incumbent and of the candidate.
func NewReport(p Pair, incumbent, candidate *Totals) Report {
	a, b := incumbent, candidate
	rows := []Row{rateRow("acceptance", a.Drafts, b.Drafts, true), rateRow("agreement", a.Opinions, b.Opinions, true)}
	if p.Kind == Mirror {
		rows = append(rows, mirroredTotal(a, b))
	} else {
		rows = append(rows, canaryRows(a, b)...)
	}
	return Report{
		Pair:     p,
		Rows:     append(rows, meanRow("usd_per_answer", a.USD, b.USD)),
		Thousand: [2]float64{thousand(a), thousand(b)},
	}
}

// canaryRows compares what clients got of both sides.
func canaryRows(a, b *Totals) []Row {
	var rows []Row
	for why, name := range unansweredNames {
		rows = append(rows, rateRow(name, a.share(Unanswered(why)), b.share(Unanswered(why)), false))
	}
	total := meanRow("total", a.Total, b.Total)
	for v, s := range map[*Value]*Totals{&total.Incumbent: a, &total.Candidate: b} {
		v.P50, v.P95 = s.Latency.Quantile(0.5), s.Latency.Quantile(0.95)
	}
	return append(rows, meanRow("first_token", a.FirstToken, b.FirstToken), total, meanRow("per_token", a.PerToken, b.PerToken))
}

// mirroredTotal tells the times of a mirror beside those of the incumbent. There is no verdict: clients and queues have a
// part in most of the incumbent's, and in none of the mirror's.
func mirroredTotal(a, b *Totals) Row {
	own := Moments{a.Total.N + a.MirroredTotal.N, a.Total.Sum + a.MirroredTotal.Sum, a.Total.Squares + a.MirroredTotal.Squares}
	return Row{Name: "mirrored_total", Incumbent: meanValue(own), Candidate: meanValue(b.MirroredTotal), Verdict: Unjudged}
}

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
