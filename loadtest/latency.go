package loadtest

import (
	"math"
	"slices"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
)

const (
	exactly = 256                                     // so many values are kept as they are
	longest = int64(2 * time.Hour / time.Microsecond) // what takes longer counts as this long
)

// latency is a law of durations, in µs. Up to [exactly] of them are kept as they
// are; more go into a histogram, whose values are at most one in 10^digits too
// high.
type latency struct {
	digits int // of the histogram: 3 costs 190 kB, 2 costs 22 kB
	few    []int64
	many   *hdrhistogram.Histogram
}

// add counts one duration.
func (l *latency) add(d time.Duration) {
	v := min(max(int64(d/time.Microsecond), 1), longest)
	if l.many == nil && len(l.few) < exactly {
		l.few = append(l.few, v)
		return
	}
	l.spill()
	l.put(v, 1)
}

// spill moves the values kept as they are into the histogram.
func (l *latency) spill() {
	if l.many == nil {
		l.many = hdrhistogram.New(1, longest, max(l.digits, 1))
	}
	for _, v := range l.few {
		l.put(v, 1)
	}
	l.few = nil
}

func (l *latency) put(v, n int64) {
	// The value is in range, so it is taken.
	_ = l.many.RecordValues(v, n)
}

// count is how many durations there are.
func (l *latency) count() int {
	if l.many != nil {
		return int(l.many.TotalCount())
	}
	return len(l.few)
}

// at gives the quantiles in ms: of q the smallest value that a share q of all
// does not exceed. It is 0 when there are no values.
func (l *latency) at(qs ...float64) []float64 {
	out := make([]float64, len(qs))
	if l.count() == 0 {
		return out
	}
	n := float64(l.count())
	ranks := make([]float64, len(qs))
	for i, q := range qs {
		ranks[i] = min(max(math.Ceil(q*n-1e-9), 1), n)
	}
	if l.many == nil {
		sorted := slices.Sorted(slices.Values(l.few))
		for i, rank := range ranks {
			out[i] = float64(sorted[int(rank)-1]) / 1000
		}
		return out
	}
	percent := make([]float64, len(qs))
	for i, rank := range ranks {
		percent[i] = 100 * rank / n // the histogram rounds to the nearest rank: this is one
	}
	for i, v := range l.many.ValueAtPercentilesSlice(percent) {
		out[i] = float64(v) / 1000
	}
	return out
}
