package pressure

import (
	"fmt"
	"strconv"

	dto "github.com/prometheus/client_model/go"
)

// families are what an exposition holds, by name.
type families = map[string]*dto.MetricFamily

// gauge is the value of a gauge or of a series whose type was not told.
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

// number is a label's value where it is a whole number within 1..limit, else 0.
func number(m *dto.Metric, name string, limit int) int {
	text, _ := label(m, name)
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 || n > limit {
		return 0
	}
	return n
}

// label is the value of a series' label and whether it has it.
func label(m *dto.Metric, name string) (string, bool) {
	for _, l := range m.GetLabel() {
		if l.GetName() == name {
			return l.GetValue(), true
		}
	}
	return "", false
}
