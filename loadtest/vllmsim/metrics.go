package vllmsim

import (
	"errors"
	"math"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// Bucket bounds of vLLM (vllm/v1/metrics/loggers.py).
var (
	bucketsTTFT  = []float64{0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75, 1, 2.5, 5, 7.5, 10, 20, 40, 80, 160, 640, 2560}
	bucketsITL   = []float64{0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.75, 1, 2.5, 5, 7.5, 10, 20, 40, 80}
	bucketsE2E   = []float64{0.3, 0.5, 0.8, 1, 1.5, 2, 2.5, 5, 10, 15, 20, 30, 40, 50, 60, 120, 240, 480, 960, 1920, 7680}
	bucketsIter  = []float64{1, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192, 16384}
	bucketsN     = []float64{1, 2, 5, 10, 20}
	finishOrder  = []string{finishStop, finishLength, finishAbort, "error", "repetition"}
	sleepStates  = []string{"awake", "weights_offloaded", "discard_all"}
	engineLabels = []string{"model_name", "engine"}
)

// metrics are what one server shows at /metrics, in the names of vLLM's V1 engine. Times are seconds of the wall
// clock: at a time scale of 20 the server looks like one on a GPU twenty times as fast.
type metrics struct {
	reg    *prometheus.Registry
	labels []string
	values []string
	rank   int

	running, waiting, kv                          prometheus.Gauge
	byCapacity, byDeferred                        prometheus.Gauge
	queries, hits, preemptions                    prometheus.Counter
	promptTokens, genTokens                       prometheus.Counter
	computedTokens, cachedTokens, cachedTotal     prometheus.Counter
	loras                                         prometheus.Gauge
	success                                       map[string]prometheus.Counter
	iteration, ttft, itl, tpot, e2e               prometheus.Observer
	queue, prefill, decode, inference             prometheus.Observer
	kvComputed, prompts, gens, maxGens, n, maxTok prometheus.Observer
	seen                                          Counts // totals already added to counters
}

// newMetrics makes the page of a server with the series of its first engine.
func newMetrics(o *Options, p *Profile) *metrics {
	m := rankMetrics(prometheus.NewRegistry(), o, p, 0)
	m.process()
	return m
}

// next adds the series of one more engine to m's page.
func (m *metrics) next(o *Options, p *Profile, rank int) *metrics {
	n := rankMetrics(m.reg, o, p, rank)
	n.loras = m.loras
	return n
}

func rankMetrics(reg *prometheus.Registry, o *Options, p *Profile, rank int) *metrics {
	m := &metrics{reg: reg, rank: rank,
		labels: engineLabels, values: []string{o.Model, strconv.Itoa(rank)}, success: map[string]prometheus.Counter{}}
	m.running = m.gauge("num_requests_running", "Number of requests in model execution batches.")
	m.waiting = m.gauge("num_requests_waiting", "Number of requests waiting to be processed.")
	m.preemptions = m.counter("num_preemptions_total", "Cumulative number of preemptions from the engine.")
	m.promptTokens = m.counter("prompt_tokens_total", "Number of prefill tokens processed.")
	m.genTokens = m.counter("generation_tokens_total", "Number of generation tokens processed.")
	reasons := m.counterVec("request_success_total", "Count of successfully processed requests.", "finished_reason")
	for _, r := range finishOrder {
		m.success[r] = reasons.WithLabelValues(append(m.values[:len(m.values):len(m.values)], r)...)
	}
	m.newHistograms(bucketsTokens(o.MaxModelLen))
	m.newV1()
	m.cacheConfig(o, p)
	return m
}

// register adds a family to the page, or finds the one that another engine has added.
func register[C prometheus.Collector](m *metrics, c C) C {
	err := m.reg.Register(c)
	if dup, ok := errors.AsType[prometheus.AlreadyRegisteredError](err); ok {
		return dup.ExistingCollector.(C)
	}
	if err != nil {
		panic(err) // a family that contradicts itself
	}
	return c
}

func (m *metrics) newHistograms(tokens []float64) {
	ttft, itl, e2e := bucketsTTFT, bucketsITL, bucketsE2E
	m.iteration = m.histogram("iteration_tokens_total", "Histogram of number of tokens per engine_step.", bucketsIter)
	m.ttft = m.histogram("time_to_first_token_seconds", "Histogram of time to first token in seconds.", ttft)
	m.itl = m.histogram("inter_token_latency_seconds", "Histogram of inter-token latency in seconds.", itl)
	m.e2e = m.histogram("e2e_request_latency_seconds", "Histogram of e2e request latency in seconds.", e2e)
	m.queue = m.histogram("request_queue_time_seconds", "Histogram of time spent in WAITING phase for request.", e2e)
	m.prefill = m.histogram("request_prefill_time_seconds", "Histogram of time spent in PREFILL phase for request.", e2e)
	m.decode = m.histogram("request_decode_time_seconds", "Histogram of time spent in DECODE phase for request.", e2e)
	m.inference = m.histogram("request_inference_time_seconds", "Histogram of time spent in RUNNING phase for request.", e2e)
	m.prompts = m.histogram("request_prompt_tokens", "Number of prefill tokens processed.", tokens)
	m.gens = m.histogram("request_generation_tokens", "Number of generation tokens processed.", tokens)
	m.maxGens = m.histogram("request_max_num_generation_tokens", "Histogram of maximum number of requested generation tokens.", tokens)
	m.n = m.histogram("request_params_n", "Histogram of the n request parameter.", bucketsN)
	m.maxTok = m.histogram("request_params_max_tokens", "Histogram of the max_tokens request parameter.", tokens)
	m.tpot = m.histogram("request_time_per_output_token_seconds", "Histogram of time_per_output_token_seconds per request.", itl)
	m.kvComputed = m.histogram("request_prefill_kv_computed_tokens", "Histogram of new KV tokens computed during prefill.", tokens)
}

// with appends a label value to the common ones.
func (m *metrics) with(v string) []string { return append(m.values[:len(m.values):len(m.values)], v) }

func (m *metrics) gaugeVec(name, help string, extra ...string) *prometheus.GaugeVec {
	v := prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: "vllm:" + name, Help: help},
		append(m.labels[:len(m.labels):len(m.labels)], extra...))
	return register(m, v)
}

func (m *metrics) gauge(name, help string) prometheus.Gauge {
	return m.gaugeVec(name, help).WithLabelValues(m.values...)
}

func (m *metrics) counterVec(name, help string, extra ...string) *prometheus.CounterVec {
	v := prometheus.NewCounterVec(prometheus.CounterOpts{Name: "vllm:" + name, Help: help},
		append(m.labels[:len(m.labels):len(m.labels)], extra...))
	return register(m, v)
}

func (m *metrics) counter(name, help string) prometheus.Counter {
	return m.counterVec(name, help).WithLabelValues(m.values...)
}

func (m *metrics) histogram(name, help string, buckets []float64) prometheus.Observer {
	v := prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: "vllm:" + name, Help: help, Buckets: buckets}, m.labels)
	return register(m, v).WithLabelValues(m.values...)
}

// bucketsTokens is the 1-2-5 series up to limit.
func bucketsTokens(limit int) []float64 {
	var out []float64
	for e := 0; ; e++ {
		for _, k := range []float64{1, 2, 5} {
			v := k * math.Pow10(e)
			if v > float64(limit) {
				return out
			}
			out = append(out, v)
		}
	}
}

// levels sets the gauges from the scheduler. It runs once per step, so an idle server keeps showing its last step.
func (m *metrics) levels(c Counts) {
	m.running.Set(float64(c.Running))
	m.waiting.Set(float64(c.Waiting))
	m.kv.Set(float64(c.BlocksUsed) / float64(c.BlocksTotal))
	m.preemptions.Add(float64(c.Preemptions - m.seen.Preemptions))
	m.loras.Set(float64(time.Now().UnixNano()) / 1e9)
	m.byCapacity.Set(float64(c.Waiting))
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
	m.computedTokens.Add(float64(len(q.Prompt) - q.Cached))
	m.cachedTokens.Add(float64(q.Cached))
	m.cachedTotal.Add(float64(q.Cached))
	m.kvComputed.Observe(float64(len(q.Prompt) - q.Cached))
}

// done counts a finished sequence.
func (m *metrics) done(j *job, finish string, e *engine) {
	q := j.seq
	m.success[finish].Inc()
	m.e2e.Observe(e.seconds(q.LastToken - q.Arrival))
	m.queue.Observe(e.seconds(q.Scheduled - q.Arrival))
	m.prefill.Observe(e.seconds(q.FirstToken - q.Scheduled))
	m.decode.Observe(e.seconds(q.LastToken - q.FirstToken))
	m.inference.Observe(e.seconds(q.LastToken - q.Scheduled))
	m.prompts.Observe(float64(len(q.Prompt)))
	m.gens.Observe(float64(q.Generated()))
	m.family(j.parent, q.Generated())
	m.maxTok.Observe(float64(j.gen.spec.maxTokens))
	// One token alone counts as 0.
	m.tpot.Observe(e.seconds(q.LastToken-q.FirstToken) / float64(max(q.Generated()-1, 1)))
}

// family counts what is counted once for all choices of a prompt, when the last of them ends.
func (m *metrics) family(p *parent, tokens int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.finished++
	p.maxOutput = max(p.maxOutput, tokens)
	if p.finished < p.n {
		return
	}
	m.maxGens.Observe(float64(p.maxOutput))
	m.n.Observe(float64(p.n))
}
