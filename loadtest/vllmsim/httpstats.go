package vllmsim

import (
	"net/http"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// httpStats are the metrics of the web framework's instrumentation.
type httpStats struct {
	requests *prometheus.CounterVec
	duration *prometheus.HistogramVec
}

func newHTTPStats(reg prometheus.Registerer) *httpStats {
	h := &httpStats{
		requests: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "http_requests_total",
			Help: "Total number of requests by method, status and handler."}, []string{"handler", "method", "status"}),
		duration: prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: "http_request_duration_seconds",
			Help: "Latency with only few buckets by handler.", Buckets: []float64{0.1, 0.5, 1}}, []string{"handler", "method"}),
	}
	reg.MustRegister(h.requests, h.duration)
	return h
}

func (h *httpStats) observe(r *http.Request, status int, d time.Duration) {
	h.requests.WithLabelValues(r.URL.Path, r.Method, strconv.Itoa(status/100)+"xx").Inc()
	h.duration.WithLabelValues(r.URL.Path, r.Method).Observe(d.Seconds())
}

// statusWriter remembers the status.
type statusWriter struct {
	http.ResponseWriter
	status int
}

// WriteHeader implements http.ResponseWriter.
func (w *statusWriter) WriteHeader(status int) {
	w.status = status
	w.ResponseWriter.WriteHeader(status)
}

// Unwrap lets http.ResponseController through.
func (w *statusWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }
