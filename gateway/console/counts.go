package console

import (
	"cmp"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	dto "github.com/prometheus/client_model/go"
)

// maxBackends bounds the series of a chart.
const maxBackends = 200

// levels are the degradation levels of Redis, the best first.
var levels = []string{"shared", "local"}

// count sums the values of the metrics. Values that are not finite are left out.
func count(families []*dto.MetricFamily, at time.Time) counts {
	c := counts{at: at, requests: map[string]float64{}, shed: map[string]float64{}, kv: map[string]float64{}, rents: map[string]float64{}, breakers: map[string]float64{}, shedding: []string{}, classes: map[[2]string]*classCount{}}
	for _, f := range families {
		read := readers[f.GetName()]
		if read == nil {
			continue
		}
		for _, m := range f.GetMetric() {
			v := m.GetCounter().GetValue() + m.GetGauge().GetValue() // it has one of them, or a histogram
			if !math.IsNaN(v) && !math.IsInf(v, 0) {
				read(&c, labels(m.GetLabel()), v, m)
			}
		}
	}
	slices.Sort(c.shedding)
	c.shedding = slices.Compact(c.shedding)
	c.trim()
	return c
}

// readers say what each metric adds.
var readers = map[string]func(c *counts, l labels, v float64, m *dto.Metric){
	"foregate_requests_total": func(c *counts, l labels, v float64, _ *dto.Metric) {
		if what := outcome(l); what != "" {
			c.requests[what] += v
		}
	},
	"foregate_shed_total": func(c *counts, l labels, v float64, _ *dto.Metric) { c.shed[l.get("priority")] += v },
	"foregate_requests_in_flight": func(c *counts, _ labels, v float64, _ *dto.Metric) {
		c.inFlight += v
		c.covered++ // each replica has one
	},
	"foregate_cost_usd_total":            func(c *counts, _ labels, v float64, _ *dto.Metric) { c.spent += v },
	"foregate_unpriced_requests_total":   func(c *counts, _ labels, v float64, _ *dto.Metric) { c.unpriced += v },
	"foregate_backend_rent_usd_per_hour": func(c *counts, l labels, v float64, _ *dto.Metric) { c.rents[l.backend()] = v },
	"foregate_saved_usd":                 func(c *counts, _ labels, v float64, _ *dto.Metric) { c.saved += v },
	"foregate_cache_saved_usd_total":     func(c *counts, _ labels, v float64, _ *dto.Metric) { c.saved += v },
	"foregate_acceptance_total": func(c *counts, l labels, v float64, _ *dto.Metric) {
		switch l.get("verdict") {
		case "accepted":
			c.accepted += v
			c.judged += v
		case "rejected":
			c.judged += v
		}
	},
	"llm_cache_requests_total": func(c *counts, l labels, v float64, _ *dto.Metric) {
		switch l.get("result") {
		case "bypass":
			return
		case "hit", "local", "coalesced": // no generation was needed
			c.hits += v
		}
		c.lookups += v
	},
	"foregate_time_to_first_token_seconds": func(c *counts, _ labels, _ float64, m *dto.Metric) { c.ttft.add(m.GetHistogram()) },
	"llm_request_duration_seconds": func(c *counts, l labels, _ float64, m *dto.Metric) {
		if l.get("stream") == "false" {
			c.latency.add(m.GetHistogram())
		}
	},
	"foregate_backend_kv_usage": func(c *counts, l labels, v float64, _ *dto.Metric) {
		c.kv[l.backend()] = max(c.kv[l.backend()], v)
	},
	"foregate_breaker_state": func(c *counts, l labels, v float64, _ *dto.Metric) {
		if v > 0 {
			c.breakers[l.backend()] = max(c.breakers[l.backend()], v)
		}
	},
	"foregate_shedding": func(c *counts, l labels, v float64, _ *dto.Metric) {
		if v > 0 {
			c.shedding = append(c.shedding, l.get("pool")+"/"+l.get("priority"))
		}
	},
	"foregate_redis_mode": func(c *counts, l labels, v float64, _ *dto.Metric) {
		if mode := l.get("mode"); v > 0 && slices.Index(levels, mode) >= slices.Index(levels, c.redisLevel) {
			c.redisLevel = mode
		}
	},
	"foregate_risk_phase": func(c *counts, l labels, _ float64, _ *dto.Metric) {
		if l.get("phase") == "certified" {
			c.countClass(l).certified = true
		}
	},
	"foregate_risk_upper_bound":      func(c *counts, l labels, v float64, _ *dto.Metric) { c.countClass(l).bound = v },
	"foregate_risk_max_disagreement": func(c *counts, l labels, v float64, _ *dto.Metric) { c.countClass(l).maxDisagreement = v },
}

// outcome is the source of a request's answer, in one word; "" for requests without a reader: a probe, a
// client that left.
func outcome(l labels) string {
	switch code := l.get("code"); {
	case code == "499":
		return "" // the client left
	case code == "501", code == "503", code == "504" && l.get("tier") == "cache", strings.HasPrefix(code, "4"):
		return "refused"
	case !strings.HasPrefix(code, "2"):
		return "failed"
	}
	if l.get("route") == "" {
		return ""
	}
	return cmp.Or(l.get("tier"), "other") // forwarded
}

// countClass returns the counts of one traffic class.
func (c *counts) countClass(l labels) *classCount {
	name := [2]string{l.get("route"), l.get("traffic_class")}
	k := c.classes[name]
	if k == nil {
		k = &classCount{}
		c.classes[name] = k
	}
	return k
}

// worst returns the traffic class that is closest to the limit of its promise, of those with certified
// drafts; nil if there is none.
func (c *counts) worst() *classCount {
	var worst *classCount
	for _, k := range c.classes {
		if k.certified && k.maxDisagreement > 0 && (worst == nil || k.bound/k.maxDisagreement > worst.bound/worst.maxDisagreement) {
			worst = k
		}
	}
	return worst
}

// trim keeps as many backends, by name, as a page can draw.
func (c *counts) trim() {
	names := slices.Sorted(maps.Keys(c.kv))
	for _, name := range names[min(maxBackends, len(names)):] {
		delete(c.kv, name)
		c.leftOut++
	}
}

// labels of a metric.
type labels []*dto.LabelPair

func (l labels) get(name string) string {
	for _, p := range l {
		if p.GetName() == name {
			return p.GetValue()
		}
	}
	return ""
}

func (l labels) backend() string { return l.get("pool") + "/" + l.get("backend") }

// add adds a histogram. All of a metric have the same buckets.
func (h *histogram) add(m *dto.Histogram) {
	buckets := m.GetBucket()
	if h.ends == nil {
		for _, b := range buckets {
			h.ends = append(h.ends, b.GetUpperBound())
		}
		h.ends, h.below = append(h.ends, math.Inf(1)), make([]float64, len(buckets)+1)
	}
	for i, b := range buckets {
		h.below[i] += float64(b.GetCumulativeCount())
	}
	h.below[len(buckets)] += float64(m.GetSampleCount())
}
