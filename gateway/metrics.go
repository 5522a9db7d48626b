package gateway

import (
	"errors"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"

	"github.com/foregate/foregate/tiers"
)

// metrics of the HTTP surface. Label values come from the configuration and from closed sets.
type metrics struct {
	requests  *prometheus.CounterVec
	duration  *prometheus.HistogramVec
	firstByte *prometheus.HistogramVec
	shed      *prometheus.CounterVec
	diverted  *prometheus.CounterVec
	inFlight  prometheus.Gauge
	conns     prometheus.Gauge
	panics    prometheus.Counter
}

// tierCache is the label tier of answers that were not generated for their request.
const tierCache = "cache"

// latencyBuckets cover cached answers to long generations, in seconds.
var latencyBuckets = []float64{.005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 20, 40, 80, 160, 320, 640}

func newMetrics(reg prometheus.Registerer) *metrics {
	f := promauto.With(reg)
	return &metrics{
		requests: f.NewCounterVec(prometheus.CounterOpts{
			Name: "foregate_requests_total", Help: "Requests by route, the tier that answered, status and priority. 504 with tier cache is a request that only the cache might answer (only-if-cached).",
		}, []string{"route", "tier", "code", "priority"}),
		duration: f.NewHistogramVec(prometheus.HistogramOpts{
			Name: "llm_request_duration_seconds", Help: "Seconds from the request to the end of its answer, of streams and of whole answers.", Buckets: latencyBuckets,
		}, []string{"cache_hit", "model", "stream"}),
		firstByte: f.NewHistogramVec(prometheus.HistogramOpts{
			Name: "foregate_time_to_first_token_seconds", Help: "Seconds from the request to the first byte of its stream. Whole answers are in llm_request_duration_seconds.", Buckets: latencyBuckets,
		}, []string{"route", "tier"}),
		shed: f.NewCounterVec(prometheus.CounterOpts{
			Name: "foregate_shed_total", Help: "Requests shed with 503 because a pool had no capacity, by reason.",
		}, []string{"priority", "pool", "reason"}),
		diverted: f.NewCounterVec(prometheus.CounterOpts{
			Name: "foregate_canary_diverted_total", Help: "Requests of routes with several targets that the first of them answered, because the pool of their conversation took none.",
		}, []string{"route", "pool"}),
		inFlight: f.NewGauge(prometheus.GaugeOpts{
			Name: "foregate_requests_in_flight", Help: "Requests in flight.",
		}),
		conns: f.NewGauge(prometheus.GaugeOpts{
			Name: "foregate_connections", Help: "Open connections of the public listener.",
		}),
		panics: f.NewCounter(prometheus.CounterOpts{
			Name: "foregate_panics_total", Help: "Panics that were recovered.",
		}),
	}
}

// request counts a finished request. Requests without a known route share the empty label.
func (m *metrics) request(l *accessRecord, took time.Duration) {
	tier, first, stream := "", time.Duration(0), l.out != nil && l.out.stream
	switch rc := l.Receipt; {
	case l.Entry != nil:
		tier = tierCache
		if l.out != nil {
			first = l.out.first.Sub(l.Began)
		}
	case rc != nil:
		tier, first = string(rc.Tier), rc.First
	case errors.Is(l.err, tiers.ErrNotCached): // tells this 504 from a time-out
		tier = tierCache
	}
	if first > 0 && stream {
		m.firstByte.WithLabelValues(l.route, tier).Observe(first.Seconds())
	}
	m.requests.WithLabelValues(l.route, tier, strconv.Itoa(l.code), l.Caller.Priority.String()).Inc()
	if l.route != "" {
		m.duration.WithLabelValues(strconv.FormatBool(l.Entry != nil), l.route, strconv.FormatBool(stream)).Observe(took.Seconds())
	}
}

// readiness registers the gauges of /readyz.
func (m *metrics) readiness(reg prometheus.Registerer, g *Gateway) {
	if reg == nil {
		return
	}
	reg.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "foregate_ready", Help: "1 while /readyz reports that this replica can serve.",
	}, func() float64 { return oneIf(g.unready(g.opts.Replica.Health()) == "") }), routeStates{g.opts.Replica.Health, prometheus.NewDesc("foregate_route_ready",
		"1 while the route can be served; the state says how it stands, in the words of /readyz.", []string{"route", "state"}, nil)})
}

// routeStates is a gauge of the routes' states.
type routeStates struct {
	health func() Health
	desc   *prometheus.Desc
}

// Describe implements prometheus.Collector.
func (s routeStates) Describe(to chan<- *prometheus.Desc) { to <- s.desc }

// Collect emits one series per route, with its state.
func (s routeStates) Collect(to chan<- prometheus.Metric) {
	for _, r := range s.health().Routes {
		to <- prometheus.MustNewConstMetric(s.desc, prometheus.GaugeValue, oneIf(r.Ready), r.Route, r.State)
	}
}

func oneIf(is bool) float64 {
	if is {
		return 1
	}
	return 0
}
