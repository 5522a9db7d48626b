package fleet

import (
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
)

// The kinds of errors, a closed set.
const (
	errRedis    = "redis"    // a round trip failed: refused, late, cut, or without a reply to the heartbeat
	errReplicas = "replicas" // the set of replicas: wrong type, no memory
	errTopic    = "topic"    // the hash of topics, as above, or a text in it
	errPlaced   = "placed"   // a pool's stream of placements, as above, or an entry
	errDrain    = "drain"    // an invalid drain
	errReading  = "reading"  // an invalid reading
	errRun      = "run"      // the number that shows whether Redis has lost data
)

var kinds = []string{errRedis, errReplicas, errTopic, errPlaced, errDrain, errReading, errRun}

type metrics struct {
	replicas prometheus.Gauge
	mode     *prometheus.GaugeVec
	errors   *prometheus.CounterVec
	lostData prometheus.Counter
}

func newMetrics(reg prometheus.Registerer) *metrics {
	f := promauto.With(reg)
	m := &metrics{
		replicas: f.NewGauge(prometheus.GaugeOpts{
			Name: "foregate_fleet_replicas",
			Help: "Replicas that live, this one included, as far as this one knows.",
		}),
		mode: f.NewGaugeVec(prometheus.GaugeOpts{
			Name: "foregate_redis_mode",
			Help: "1 for the mode this replica is in: shared; local, without Redis for 1.5 s or more, alone.",
		}, []string{"mode"}),
		errors: f.NewCounterVec(prometheus.CounterOpts{
			Name: "foregate_fleet_errors_total",
			Help: "What went wrong between this replica and the fleet, by kind: redis is a failed round trip, others are a key or a value in it.",
		}, []string{"kind"}),
	}
	m.lostData = f.NewCounter(prometheus.CounterOpts{
		Name: "foregate_redis_lost_data_total",
		Help: "How often this replica found that Redis had lost data: it was emptied, or came back with older data.",
	})
	for _, kind := range kinds {
		m.errors.WithLabelValues(kind)
	}
	m.show(false, 1)
	return m
}

// show sets the gauges.
func (m *metrics) show(shared bool, replicas int) {
	for mode, is := range map[string]bool{"shared": shared, "local": !shared} {
		m.mode.WithLabelValues(mode).Set(map[bool]float64{true: 1}[is])
	}
	m.replicas.Set(float64(replicas))
}
