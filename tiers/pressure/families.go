package pressure

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"time"

	dto "github.com/prometheus/client_model/go"

	"github.com/foregate/foregate/tiers/dialect"
)

// families are the metric families of an exposition, by name.
type families = map[string]*dto.MetricFamily

// first returns the first of these families that is exposed; nil: none.
func first(fams families, names []string) *dto.MetricFamily {
	for _, name := range names {
		if fam := fams[name]; fam != nil {
			return fam
		}
	}
	return nil
}

// keepFirsts drops the series of all but the first part of each engine: several parts tell the same.
func keepFirsts(fams families, names *dialect.Metrics) {
	for _, part := range names.Parts {
		for _, fam := range fams {
			lowest := map[string]int{} // by the engine's label
			for _, m := range fam.Metric {
				engine := label(m, names.Rank)
				if n, numbered := partOf(m, part); numbered {
					if least, seen := lowest[engine]; !seen || n < least {
						lowest[engine] = n
					}
				}
			}
			fam.Metric = slices.DeleteFunc(fam.Metric, func(m *dto.Metric) bool {
				engine := label(m, names.Rank)
				n, numbered := partOf(m, part)
				return numbered && n > lowest[engine]
			})
		}
	}
}

// partOf returns the number in a label.
func partOf(m *dto.Metric, name string) (n int, numbered bool) {
	n, err := strconv.Atoi(label(m, name))
	return n, err == nil
}

// dropRanks drops the series of the engines that tell a value that is out of range, or an old one, and keeps the others.
// It is an error if the series does not tell its engine, or if no engine is left.
func dropRanks(fams families, e exposition) error {
	bad := map[string]error{}
	for _, k := range []struct {
		limit  float64
		counts bool
		names  [][]string
	}{
		{1, false, [][]string{e.names.Usage}},
		{maxRequests, false, [][]string{e.names.Running, e.names.Waiting}},
		{maxCounter, true, [][]string{
			e.names.PromptTokens, e.names.GenerationTokens, e.names.PrefixQueries, e.names.PrefixHits, e.names.Preemptions, e.names.Iterations,
		}},
	} {
		for _, names := range k.names {
			fam := first(fams, names)
			for _, m := range fam.GetMetric() {
				if !k.counts && counts(m) {
					return fmt.Errorf("%s is a %s, not a gauge", fam.GetName(), fam.GetType())
				}
				rank, err := label(m, e.names.Rank), checkSample(fam, m, k.limit, e.now)
				if err != nil && rank == "" {
					return err
				}
				if err != nil {
					bad[rank] = err
				}
			}
		}
	}
	return dropSeries(fams, e.names, bad)
}

// dropSeries drops the series of engines. If no engine with a KV usage is left, it returns why one of them went.
func dropSeries(fams families, names *dialect.Metrics, bad map[string]error) error {
	if len(bad) == 0 {
		return nil
	}
	for _, fam := range fams {
		fam.Metric = slices.DeleteFunc(fam.Metric, func(m *dto.Metric) bool { return bad[label(m, names.Rank)] != nil })
	}
	for _, err := range bad {
		if len(first(fams, names.Usage).GetMetric()) == 0 {
			return err
		}
	}
	return nil
}

// checkSample refuses a value outside of 0..limit, and one with an old explicit timestamp. vLLM sends no timestamps; a
// proxy that replays an exposition may. The condition is positive because every comparison with NaN is false.
func checkSample(fam *dto.MetricFamily, m *dto.Metric, limit float64, now time.Time) error {
	if v := value(m); !(v >= 0 && v <= limit) {
		return fmt.Errorf("%s is %v, not within 0..%g", fam.GetName(), v, limit)
	}
	if age := now.Sub(time.UnixMilli(m.GetTimestampMs())); m.TimestampMs != nil && age > maxOld {
		return fmt.Errorf("%s is %s old", fam.GetName(), age.Round(time.Second))
	}
	return nil
}

// sum sums a family over the engines.
func sum(fam *dto.MetricFamily) (total float64) {
	for _, m := range fam.GetMetric() {
		total += value(m)
	}
	return total
}

// counts reports whether a series is of another type than a gauge, or none.
func counts(m *dto.Metric) bool { return m.Gauge == nil && m.Untyped == nil }

// value is the value of a gauge or counter, or the number of events of a histogram.
func value(m *dto.Metric) float64 {
	switch {
	case m.Counter != nil:
		return m.GetCounter().GetValue()
	case m.Histogram != nil:
		return max(float64(m.GetHistogram().GetSampleCount()), m.GetHistogram().GetSampleCountFloat())
	case m.Gauge != nil:
		return m.GetGauge().GetValue()
	case m.Untyped != nil:
		return m.GetUntyped().GetValue()
	default:
		return math.NaN()
	}
}

// number is a label's value if it is an integer within 1..limit, else 0.
func number(m *dto.Metric, name string, limit int) int {
	n, err := strconv.Atoi(label(m, name))
	if err != nil || n < 1 || n > limit {
		return 0
	}
	return n
}

// label is the value of a series' label, "" without it.
func label(m *dto.Metric, name string) string {
	for _, l := range m.GetLabel() {
		if l.GetName() == name {
			return l.GetValue()
		}
	}
	return ""
}
