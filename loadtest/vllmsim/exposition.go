package vllmsim

import (
	"bytes"
	"math"
	"slices"
	"strconv"
	"strings"

	dto "github.com/prometheus/client_model/go"
)

// expose writes a registry as Python's prometheus_client does, which is what a gateway meets in front of vLLM: labels in
// alphabetical order, every value a float ("3.0"), large ones as 1.234567e+06, and beside each counter, histogram and
// summary a gauge of when it was made.
func (m *metrics) expose() ([]byte, error) {
	families, err := m.reg.Gather()
	if err != nil {
		return nil, err
	}
	var b bytes.Buffer
	for _, f := range families {
		writeHead(&b, f.GetName(), f.GetHelp(), strings.ToLower(f.GetType().String()))
		for _, one := range f.GetMetric() {
			writeMetric(&b, f.GetName(), one)
		}
		writeCreated(&b, f)
	}
	return b.Bytes(), nil
}

func writeHead(b *bytes.Buffer, name, help, kind string) {
	b.WriteString("# HELP " + name + " " + help + "\n# TYPE " + name + " " + kind + "\n")
}

// writeCreated writes the gauges of a family's birth.
func writeCreated(b *bytes.Buffer, f *dto.MetricFamily) {
	name := f.GetName() + "_created"
	if f.GetType() == dto.MetricType_COUNTER {
		name = strings.TrimSuffix(f.GetName(), "_total") + "_created"
	}
	for i, one := range f.GetMetric() {
		at := one.GetCounter().GetCreatedTimestamp()
		if at == nil {
			at = one.GetHistogram().GetCreatedTimestamp()
		}
		if at == nil {
			at = one.GetSummary().GetCreatedTimestamp()
		}
		if at == nil {
			return
		}
		if i == 0 {
			writeHead(b, name, f.GetHelp(), "gauge")
		}
		writeSample(b, name, one.GetLabel(), "", float64(at.AsTime().UnixNano())/1e9)
	}
}

func writeMetric(b *bytes.Buffer, name string, m *dto.Metric) {
	switch {
	case m.GetGauge() != nil:
		writeSample(b, name, m.GetLabel(), "", m.GetGauge().GetValue())
	case m.GetCounter() != nil:
		writeSample(b, name, m.GetLabel(), "", m.GetCounter().GetValue())
	case m.GetSummary() != nil: // Python's have no quantiles
		writeSample(b, name+"_count", m.GetLabel(), "", float64(m.GetSummary().GetSampleCount()))
		writeSample(b, name+"_sum", m.GetLabel(), "", m.GetSummary().GetSampleSum())
	case m.GetHistogram() != nil:
		h := m.GetHistogram()
		for _, k := range h.GetBucket() {
			writeSample(b, name+"_bucket", m.GetLabel(), pyFloat(k.GetUpperBound()), float64(k.GetCumulativeCount()))
		}
		writeSample(b, name+"_bucket", m.GetLabel(), "+Inf", float64(h.GetSampleCount()))
		writeSample(b, name+"_count", m.GetLabel(), "", float64(h.GetSampleCount()))
		writeSample(b, name+"_sum", m.GetLabel(), "", h.GetSampleSum())
	}
}

func writeSample(b *bytes.Buffer, name string, labels []*dto.LabelPair, le string, v float64) {
	b.WriteString(name)
	pairs := make([]string, 0, len(labels)+1)
	for _, l := range labels {
		pairs = append(pairs, l.GetName()+"="+string(appendQuoted(nil, l.GetValue())))
	}
	if le != "" {
		pairs = append(pairs, `le="`+le+`"`)
	}
	slices.Sort(pairs)
	if len(pairs) > 0 {
		b.WriteString("{" + strings.Join(pairs, ",") + "}")
	}
	b.WriteString(" " + pyFloat(v) + "\n")
}

// pyFloat writes v as prometheus_client's floatToGoString.
func pyFloat(v float64) string {
	switch {
	case math.IsInf(v, 1):
		return "+Inf"
	case math.IsInf(v, -1):
		return "-Inf"
	case math.IsNaN(v):
		return "NaN"
	}
	s := string(appendFloat(nil, v))
	dot := strings.IndexByte(s, '.')
	if v <= 0 || dot <= 6 || strings.ContainsRune(s, 'e') {
		return s
	}
	mantissa := strings.TrimRight(s[:1]+"."+s[1:dot]+s[dot+1:], "0.")
	return mantissa + "e+0" + strconv.Itoa(dot-1)
}
