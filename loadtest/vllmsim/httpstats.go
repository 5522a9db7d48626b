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
	highr    prometheus.Histogram
	in, out  *prometheus.SummaryVec
}

// bucketsHighr are the instrumentation's fine buckets.
var bucketsHighr = []float64{0.01, 0.025, 0.05, 0.075, 0.1, 0.25, 0.5, 0.75, 1, 1.5, 2, 2.5, 3, 3.5, 4, 4.5, 5, 7.5, 10, 30, 60}

func newHTTPStats(reg prometheus.Registerer) *httpStats {
	h := &httpStats{
		requests: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "http_requests_total",
			Help: "Total number of requests by method, status and handler."}, []string{"handler", "method", "status"}),
		duration: prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: "http_request_duration_seconds",
			Help: "Latency with only few buckets by handler.", Buckets: []float64{0.1, 0.5, 1}}, []string{"handler", "method"}),
		highr: prometheus.NewHistogram(prometheus.HistogramOpts{Name: "http_request_duration_highr_seconds",
			Help: "Latency with many buckets but no API specific labels.", Buckets: bucketsHighr}),
		in: prometheus.NewSummaryVec(prometheus.SummaryOpts{Name: "http_request_size_bytes",
			Help: "Content length of incoming requests by handler."}, []string{"handler"}),
		out: prometheus.NewSummaryVec(prometheus.SummaryOpts{Name: "http_response_size_bytes",
			Help: "Content length of outgoing responses by handler."}, []string{"handler"}),
	}
	reg.MustRegister(h.requests, h.duration, h.highr, h.in, h.out)
	return h
}

// observe counts one answer. Streams have no length, and count as empty, as they do there.
func (h *httpStats) observe(r *http.Request, w *statusWriter, d time.Duration) {
	h.requests.WithLabelValues(r.URL.Path, r.Method, strconv.Itoa(w.status/100)+"xx").Inc()
	h.duration.WithLabelValues(r.URL.Path, r.Method).Observe(d.Seconds())
	h.highr.Observe(d.Seconds())
	h.in.WithLabelValues(r.URL.Path).Observe(float64(max(r.ContentLength, 0)))
	length := 0
	if w.Header().Get("Content-Type") == "application/json" {
		length = w.n
	}
	h.out.WithLabelValues(r.URL.Path).Observe(float64(length))
}

// statusWriter remembers the status and counts the bytes.
type statusWriter struct {
	http.ResponseWriter
	status, n int
}

// WriteHeader implements http.ResponseWriter.
func (w *statusWriter) WriteHeader(status int) {
	w.status = status
	w.ResponseWriter.WriteHeader(status)
}

// Write implements http.ResponseWriter.
func (w *statusWriter) Write(p []byte) (int, error) {
	n, err := w.ResponseWriter.Write(p)
	w.n += n
	return n, err
}

// Unwrap lets http.ResponseController through.
func (w *statusWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }
