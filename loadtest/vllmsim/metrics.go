package vllmsim

import (
	"bytes"
	"strconv"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/common/expfmt"
)

// Bucket bounds of vLLM (vllm/v1/metrics/loggers.py).
var (
	bucketsTTFT = []float64{0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75, 1, 2.5, 5, 7.5, 10, 20, 40, 80, 160, 640, 2560}
	bucketsITL  = []float64{0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.75, 1, 2.5, 5, 7.5, 10, 20, 40, 80}
	bucketsIter = []float64{1, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192, 16384}
)

// metrics are what one server shows at /metrics, in the names of vLLM's V1 engine and as far as anybody reads it. Times are
// seconds of the wall clock: at a time scale of 20 the server looks like one on a GPU twenty times as fast.
type metrics struct {
	reg    *prometheus.Registry
	values []string // of engineLabels

	running, waiting, kv       prometheus.Gauge
	queries, hits, preemptions prometheus.Counter
	promptTokens, genTokens    prometheus.Counter
	iteration, ttft, itl       prometheus.Observer
	seen                       Counts // totals already added to counters
}

var engineLabels = []string{"model_name", "engine"}

// newMetrics is a page at its beginning.
func newMetrics(o *Options, p *Profile) *metrics {
	m := &metrics{reg: prometheus.NewRegistry(), values: []string{o.Model, "0"}}
	m.running = m.gauge("num_requests_running", "Number of requests in model execution batches.")
	m.waiting = m.gauge("num_requests_waiting", "Number of requests waiting to be processed.")
	m.kv = m.gauge("kv_cache_usage_perc", "KV-cache usage. 1 means 100 percent usage.")
	m.preemptions = m.counter("num_preemptions_total", "Cumulative number of preemptions from the engine.")
	m.promptTokens = m.counter("prompt_tokens_total", "Number of prefill tokens processed.")
	m.genTokens = m.counter("generation_tokens_total", "Number of generation tokens processed.")
	m.queries = m.counter("prefix_cache_queries_total", "Prefix cache queries, in terms of number of queried tokens.")
	m.hits = m.counter("prefix_cache_hits_total", "Prefix cache hits, in terms of number of cached tokens.")
	m.iteration = m.histogram("iteration_tokens_total", "Histogram of number of tokens per engine_step.", bucketsIter)
	m.ttft = m.histogram("time_to_first_token_seconds", "Histogram of time to first token in seconds.", bucketsTTFT)
	m.itl = m.histogram("inter_token_latency_seconds", "Histogram of inter-token latency in seconds.", bucketsITL)
	cache := prometheus.Labels{"engine": "0", "block_size": strconv.Itoa(BlockSize), "enable_prefix_caching": "True",
		"num_gpu_blocks": strconv.Itoa(p.Blocks)}
	config := prometheus.NewGauge(prometheus.GaugeOpts{Name: "vllm:cache_config_info", Help: "Information of the LLMEngine CacheConfig", ConstLabels: cache})
	register(m, config).Set(1)
	return m
}

// register adds a family to the page.
func register[C prometheus.Collector](m *metrics, c C) C {
	m.reg.MustRegister(c)
	return c
}

func (m *metrics) gauge(name, help string) prometheus.Gauge {
	return register(m, prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: "vllm:" + name, Help: help}, engineLabels)).WithLabelValues(m.values...)
}

func (m *metrics) counter(name, help string) prometheus.Counter {
	return register(m, prometheus.NewCounterVec(prometheus.CounterOpts{Name: "vllm:" + name, Help: help}, engineLabels)).WithLabelValues(m.values...)
}

func (m *metrics) histogram(name, help string, buckets []float64) prometheus.Observer {
	v := prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: "vllm:" + name, Help: help, Buckets: buckets}, engineLabels)
	return register(m, v).WithLabelValues(m.values...)
}

// expose is the page.
func (m *metrics) expose() ([]byte, error) {
	families, err := m.reg.Gather()
	var b bytes.Buffer
	for _, f := range families {
		if err == nil {
			_, err = expfmt.MetricFamilyToText(&b, f)
		}
	}
	return b.Bytes(), err
}

// levels sets the gauges from the scheduler. It runs once per step, so an idle server keeps showing its last step.
func (m *metrics) levels(c Counts) {
	m.running.Set(float64(c.Running))
	m.waiting.Set(float64(c.Waiting))
	m.kv.Set(float64(c.BlocksUsed) / float64(c.BlocksTotal))
	m.preemptions.Add(float64(c.Preemptions - m.seen.Preemptions))
	m.queries.Add(float64(c.PrefixQueries - m.seen.PrefixQueries))
	m.hits.Add(float64(c.PrefixHits - m.seen.PrefixHits))
	m.seen = c
}

func (m *metrics) step(b *Batch) { m.iteration.Observe(float64(b.Tokens)) }

// token counts one output.
func (m *metrics) token(it *Item, e *engine) {
	m.genTokens.Inc()
	q := it.Seq
	if !it.First {
		m.itl.Observe(e.seconds(q.LastToken - it.Previous))
		return
	}
	m.promptTokens.Add(float64(len(q.Prompt)))
	m.ttft.Observe(e.seconds(q.FirstToken - q.Arrival))
}
