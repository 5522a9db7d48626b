package admission

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"

	"github.com/foregate/foregate/gateway/identity"
)

// What each scrape reads.
var (
	depth    = prometheus.NewDesc("foregate_queue_depth", "Requests waiting for capacity at a pool.", []string{"pool", "priority"}, nil)
	shedding = prometheus.NewDesc("foregate_shedding", "1 while the priority class is shed at the pool for at least one route.", []string{"pool", "priority"}, nil)
)

func newWaits(reg prometheus.Registerer) *prometheus.HistogramVec {
	return promauto.With(reg).NewHistogramVec(prometheus.HistogramOpts{
		Name: "foregate_queue_wait_seconds", Help: "Seconds that queued requests waited for capacity.",
		Buckets: []float64{.01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30},
	}, []string{"priority"})
}

// Describe implements [prometheus.Collector].
func (q *Queues) Describe(to chan<- *prometheus.Desc) {
	to <- depth
	to <- shedding
}

// Collect implements [prometheus.Collector].
func (q *Queues) Collect(to chan<- prometheus.Metric) {
	for name, l := range *q.byPool.Load() {
		var waiting, shed [identity.High + 1]float64
		l.mu.Lock()
		for c := range waiting {
			waiting[c] = float64(l.queue.ClassLen(identity.Priority(c)))
		}
		for _, class := range l.queue.shedClasses(time.Now()) {
			shed[class] = 1
		}
		l.unlock()
		for c := range waiting { // without the lock: who reads may be slow
			class := identity.Priority(c).String()
			to <- prometheus.MustNewConstMetric(depth, prometheus.GaugeValue, waiting[c], name, class)
			to <- prometheus.MustNewConstMetric(shedding, prometheus.GaugeValue, shed[c], name, class)
		}
	}
}
