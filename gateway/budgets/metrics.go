package budgets

import (
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"

	"github.com/foregate/foregate/internal/redis/lookup"
)

// resultRefilling is a result of a call to Redis besides those of [lookup.Results]: Redis has lost data, and replicas fill it
// again.
const resultRefilling = "refilling"

// Why a request was refused, a closed set.
const (
	refusedUSD       = "usd"
	refusedTokens    = "tokens"
	refusedUncounted = "uncounted" // Redis does not answer, and on_redis_loss is deny
)

type metrics struct {
	refused *prometheus.CounterVec
	redis   *prometheus.CounterVec
}

func newMetrics(reg prometheus.Registerer) *metrics {
	f := promauto.With(reg)
	m := &metrics{
		refused: f.NewCounterVec(prometheus.CounterOpts{
			Name: "foregate_budget_refused_total",
			Help: "Requests refused because of a tenant's budget: usd and tokens are exhausted budgets (429), uncounted is Redis away with on_redis_loss: deny (503).",
		}, []string{"reason"}),
		redis: f.NewCounterVec(prometheus.CounterOpts{
			Name: "foregate_budget_redis_total",
			Help: "Requests of tenants with a budget, by how they were counted: shared means in Redis and in time; every other result means by this replica alone.",
		}, []string{"result"}),
	}
	for _, r := range append([]string{resultRefilling}, lookup.Results...) {
		m.redis.WithLabelValues(r)
	}
	for _, r := range []string{refusedUSD, refusedTokens, refusedUncounted} {
		m.refused.WithLabelValues(r)
	}
	return m
}
