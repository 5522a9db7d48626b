package cache

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// Metrics by route and by tenant.
var (
	descRequests = prometheus.NewDesc("llm_cache_requests_total",
		"Requests by what came of their lookup: hit, local and coalesced were served from the cache, bypass did not ask.", []string{"route", "result"}, nil)
	descRatio = prometheus.NewDesc("llm_cache_hit_ratio",
		"Share of the requests of the last five minutes that were served from the cache, of those that asked; 0 where none did.", []string{"route"}, nil)
	descTenants = prometheus.NewDesc("foregate_cache_tenant_requests_total",
		"Requests of the first hundred tenants by what came of their lookup; other is all that came after them.", []string{"tenant", "result"}, nil)
	descCoalesced = prometheus.NewDesc("foregate_cache_coalesced_total",
		"Requests that were served with the answer to an identical one under way.", []string{"route"}, nil)
	descTokens = prometheus.NewDesc("foregate_cache_saved_tokens_total",
		"Tokens of answers that were served without a generation.", []string{"route", "kind"}, nil)
	descUSD = prometheus.NewDesc("foregate_cache_saved_usd_total",
		"What the answers that were served without a generation had cost to make, in US dollars.", []string{"route"}, nil)
)

// collector exports the metrics by route and by tenant.
type collector struct {
	*metrics
	now func() time.Time
}

// Describe implements prometheus.Collector.
func (c collector) Describe(out chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{descRequests, descRatio, descTenants, descCoalesced, descTokens, descUSD} {
		out <- d
	}
}

// Collect implements prometheus.Collector.
func (c collector) Collect(out chan<- prometheus.Metric) {
	for _, m := range c.gather() {
		out <- m
	}
}

// gather makes the metrics under the lock, which the scraper must not hold.
func (c collector) gather() (all []prometheus.Metric) {
	counter := func(d *prometheus.Desc, v float64, labels ...string) {
		all = append(all, prometheus.MustNewConstMetric(d, prometheus.CounterValue, v, labels...))
	}
	now := c.now()
	c.mu.Lock()
	defer c.mu.Unlock()
	for name, r := range c.routes {
		for i, result := range results {
			counter(descRequests, float64(r.requests[i]), name, string(result))
			if result == ResultCoalesced {
				counter(descCoalesced, float64(r.requests[i]), name)
			}
		}
		ratio, _ := r.ratio.Value(now) // 0 without requests
		all = append(all, prometheus.MustNewConstMetric(descRatio, prometheus.GaugeValue, ratio, name))
		counter(descTokens, float64(r.prompt), name, "prompt")
		counter(descTokens, float64(r.completion), name, "completion")
		counter(descUSD, r.usd, name)
	}
	for name, t := range c.tenants {
		for i, result := range results {
			counter(descTenants, float64(t[i]), name, string(result))
		}
	}
	return all
}
