package ledger

import (
	"cmp"
	"context"
	"math"
	"slices"
	"strconv"
	"time"
)

// Buckets of a histogram: 0 is what is 0, the i-th one what is up to its bound, and the last one what is above all bounds. There
// are four bounds in a factor of ten, over six of them.
const (
	perDecade  = 4
	numBounds  = 6*perDecade + 1
	numBuckets = numBounds + 2
)

// Units of the values that histograms count: the first bounds.
const (
	UnitTokens  = 1.0
	UnitSeconds = 0.001
	UnitUSD     = 1e-6
)

// Histogram counts values by bucket, without zeros at the end.
type Histogram []int64

// bucketOf is the bucket of a value.
func bucketOf(unit, value float64) int {
	if !(value > 0) {
		return 0
	}
	const rounding = 1e-9
	return max(1, min(numBuckets-1, 1+int(math.Ceil(perDecade*math.Log10(value/unit)-rounding))))
}

// Quantile is the value that a share of the counted values is at most, within its bucket by the logarithm; 0 where none are counted.
func (h Histogram) Quantile(unit, share float64) float64 {
	total := int64(0)
	for _, n := range h {
		total += n
	}
	rest := share * float64(total)
	for bucket, n := range h {
		if rest -= float64(n); rest <= 0 && n > 0 {
			if bucket == 0 {
				return 0
			}
			return unit * math.Pow(10, (float64(bucket)-1+rest/float64(n))/perDecade)
		}
	}
	return 0
}

// Hour is what engines did for a route in an hour: answers from the cache and refusals are in usage only.
type Hour struct {
	Begin      time.Time `json:"hour"`
	Route      string    `json:"route"`
	Answers    int64     `json:"answers"`
	Prompt     int64     `json:"prompt_tokens"`
	Completion int64     `json:"completion_tokens"`
	USD        Nanos     `json:"usd"`

	PromptTokens     Histogram `json:"prompt_histogram"`     // of each answer; unit: 1 token
	CompletionTokens Histogram `json:"completion_histogram"` // as above
	TTFT             Histogram `json:"ttft_histogram"`       // time to the first byte; unit: 1 ms
	E2E              Histogram `json:"e2e_histogram"`        // to the last; unit: 1 ms
	Dollars          Histogram `json:"usd_histogram"`        // unit: 1e-6 USD
}

// Merge adds what another hour or route has.
func (h *Hour) Merge(other *Hour) {
	h.Answers, h.Prompt, h.Completion, h.USD = h.Answers+other.Answers, h.Prompt+other.Prompt, h.Completion+other.Completion, h.USD+other.USD
	from := other.histograms()
	for i, to := range h.histograms() {
		for len(*to) < len(*from[i]) {
			*to = append(*to, 0)
		}
		for bucket, n := range *from[i] {
			(*to)[bucket] += n
		}
	}
}

// histograms are an hour's, in the order of Redis.
func (h *Hour) histograms() [5]*Histogram {
	return [...]*Histogram{&h.PromptTokens, &h.CompletionTokens, &h.TTFT, &h.E2E, &h.Dollars}
}

const (
	numTotals = 4
	hourSums  = numTotals + 5*numBuckets
)

// Hours are what routes did in some UTC days, as GET /admin/usage/hours shows it.
type Hours struct {
	Span
	Hours []Hour `json:"hours"` // by time and route; hours without answers are left out
}

// Use is what a request has used.
type Use struct {
	Began         time.Time // it belongs to that UTC day and hour
	Tenant, Route string
	Counts        Counts
	First, Took   time.Duration // to the answer's first byte and its end, where engines made it
}

// Add counts a request, or what its audits cost besides. It waits for nothing.
func (l *Ledger) Add(u *Use) {
	d, c := dayOf(u.Began), &u.Counts
	l.metrics.add(u.Route, c)
	l.book.add(page{pageUsage, d}, u.Tenant, u.Route, c.sums())
	if c.OK == 0 || c.Cached+c.Coalesced > 0 || c.Completion == 0 {
		return
	}
	n := make(sums, hourSums)
	copy(n, sums{1, c.Prompt, c.Completion, int64(c.USD())})
	for i, bucket := range [...]int{
		bucketOf(UnitTokens, float64(c.Prompt)), bucketOf(UnitTokens, float64(c.Completion)),
		bucketOf(UnitSeconds, u.First.Seconds()), bucketOf(UnitSeconds, u.Took.Seconds()), bucketOf(UnitUSD, c.USD().USD()),
	} {
		n[numTotals+i*numBuckets+bucket] = 1
	}
	l.book.add(page{pageHours, d}, strconv.Itoa(u.Began.UTC().Hour()), u.Route, n)
}

// ReadHours returns what routes did in the UTC days from … to. Errors are [ErrAway] and the context's.
func (l *Ledger) ReadHours(ctx context.Context, from, to time.Time) (_ *Hours, err error) {
	all := &Hours{Hours: []Hour{}}
	all.Span, err = l.read(ctx, pageHours, from, to, func(key rowKey, n sums) bool {
		hour, err := strconv.Atoi(key.name)
		if err != nil || hour < 0 || hour > 23 || len(n) < hourSums {
			return false
		}
		h := Hour{Begin: key.day.begin().Add(time.Duration(hour) * time.Hour), Route: key.route, Answers: n[0], Prompt: n[1], Completion: n[2], USD: Nanos(n[3])}
		for i, to := range h.histograms() {
			counts := slices.Clone(n[numTotals+i*numBuckets:][:numBuckets])
			for len(counts) > 0 && counts[len(counts)-1] == 0 {
				counts = counts[:len(counts)-1]
			}
			*to = Histogram(counts)
		}
		all.Hours = append(all.Hours, h)
		return true
	})
	if err != nil {
		return nil, err
	}
	slices.SortFunc(all.Hours, func(a, b Hour) int {
		return cmp.Or(a.Begin.Compare(b.Begin), cmp.Compare(a.Route, b.Route))
	})
	return all, nil
}
