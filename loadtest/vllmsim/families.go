package vllmsim

import (
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// This file holds the metric families of vLLM's V1 engine, and what is not about the engine.

func (m *metrics) newV1() {
	m.kv = m.gauge("kv_cache_usage_perc", "KV-cache usage. 1 means 100 percent usage.")
	by := m.gaugeVec("num_requests_waiting_by_reason", "Number of waiting requests by reason.", "reason")
	m.byCapacity, m.byDeferred = by.WithLabelValues(m.with("capacity")...), by.WithLabelValues(m.with("deferred")...)
	m.queries = m.counter("prefix_cache_queries_total", "Prefix cache queries, in terms of number of queried tokens.")
	m.hits = m.counter("prefix_cache_hits_total", "Prefix cache hits, in terms of number of cached tokens.")
	src := m.counterVec("prompt_tokens_by_source_total", "Number of prompt tokens by source.", "source")
	m.computedTokens, m.cachedTokens = src.WithLabelValues(m.with("local_compute")...), src.WithLabelValues(m.with("local_cache_hit")...)
	src.WithLabelValues(m.with("external_kv_transfer")...)
	m.cachedTotal = m.counter("prompt_tokens_cached_total", "Number of cached prompt tokens.")
	for name, help := range map[string]string{
		"external_prefix_cache_queries_total": "External prefix cache queries from KV connector cross-instance cache sharing, in terms of number of queried tokens.",
		"external_prefix_cache_hits_total":    "External prefix cache hits from KV connector cross-instance cache sharing, in terms of number of cached tokens.",
		"mm_cache_queries_total":              "Multi-modal cache queries, in terms of number of queried items.",
		"mm_cache_hits_total":                 "Multi-modal cache hits, in terms of number of cached items.",
		"estimated_flops_per_gpu_total":       "Estimated number of floating point operations per GPU.",
		"estimated_read_bytes_per_gpu_total":  "Estimated number of bytes read from memory per GPU.",
		"estimated_write_bytes_per_gpu_total": "Estimated number of bytes written to memory per GPU.",
	} {
		m.counter(name, help) // nothing here ever counts in them
	}
	sleep := m.gaugeVec("engine_sleep_state", "Engine sleep state.", "sleep_state")
	for i, s := range sleepStates {
		sleep.WithLabelValues(m.with(s)...).Set([]float64{1, 0, 0}[i])
	}
}

// process are the series of Python's own collectors; the start tells one life from the next.
func (m *metrics) process() {
	one := func(name, help string, v float64, labels prometheus.Labels) prometheus.Gauge {
		g := prometheus.NewGauge(prometheus.GaugeOpts{Name: name, Help: help, ConstLabels: labels})
		m.reg.MustRegister(g)
		g.Set(v)
		return g
	}
	one("python_info", "Python platform information", 1, prometheus.Labels{"implementation": "CPython", "major": "3",
		"minor": "12", "patchlevel": "11", "version": "3.12.11"})
	now := float64(time.Now().UnixNano()) / 1e9
	one("process_start_time_seconds", "Start time of the process since unix epoch in seconds.", now, nil)
	one("process_max_fds", "Maximum number of open file descriptors.", 65536, nil)
	m.loras = one("vllm:lora_requests_info", "Running stats on lora requests.", now, prometheus.Labels{"max_lora": "0",
		"running_lora_adapters": "", "waiting_lora_adapters": ""})
}

func (m *metrics) cacheConfig(o *Options, p *Profile) {
	labels := prometheus.Labels{"block_size": strconv.Itoa(BlockSize), "cache_dtype": "auto", "sliding_window": "None",
		"is_attention_free": "False", "num_gpu_blocks_override": "None", "enable_prefix_caching": "True", "gpu_memory_utilization": "0.92", "num_gpu_blocks": strconv.Itoa(p.Blocks)}
	labels["engine"], labels["prefix_caching_hash_algo"] = strconv.Itoa(m.rank), "sha256"
	tokens := (p.Blocks - 1) * BlockSize
	labels["kv_cache_size_tokens"] = strconv.Itoa(tokens)
	labels["kv_cache_max_concurrency"] = pyFloat(float64(tokens) / float64(o.MaxModelLen))
	g := prometheus.NewGauge(prometheus.GaugeOpts{Name: "vllm:cache_config_info",
		Help: "Information of the LLMEngine CacheConfig", ConstLabels: labels})
	m.reg.MustRegister(g)
	g.Set(1)
}
