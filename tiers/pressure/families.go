package pressure

import (
	"fmt"
	"strconv"

	dto "github.com/prometheus/client_model/go"
)

// families are the metric families of an exposition, by name.
type families = map[string]*dto.MetricFamily

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
