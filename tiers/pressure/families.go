package pressure

import (
	"fmt"
	"slices"
	"strconv"

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

// gauge is the value of a gauge or of a series without a type.
func gauge(fam *dto.MetricFamily, m *dto.Metric) (float64, error) {
	switch {
	case m.Gauge != nil:
		return m.GetGauge().GetValue(), nil
	case m.Untyped != nil:
		return m.GetUntyped().GetValue(), nil
	default:
		return 0, fmt.Errorf("%s is a %s, not a gauge", fam.GetName(), fam.GetType())
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
