package budgets

import (
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
)

// The results of a call to Redis, a closed set.
const (
	resultShared    = "shared"    // answered in time
	resultRefilling = "refilling" // Redis has lost data, and replicas fill it again
	resultLate      = "late"      // not within the budget of time
	resultError     = "error"     // refused, or the connection failed
	resultWrong     = "wrong"     // a key has another type, or the answer is invalid
	resultBusy      = "busy"      // too many calls in progress
	resultSkipped   = "skipped"   // Redis is unavailable, so it was not called
)

var results = []string{resultShared, resultRefilling, resultLate, resultError, resultWrong, resultBusy, resultSkipped}

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
	for _, r := range results {
		m.redis.WithLabelValues(r)
	}
	for _, r := range []string{refusedUSD, refusedTokens, refusedUncounted} {
		m.refused.WithLabelValues(r)
	}
	return m
}
