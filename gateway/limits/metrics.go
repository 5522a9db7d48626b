package limits

import (
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"

	"github.com/foregate/foregate/internal/redis/lookup"
)

type metrics struct {
	limited  *prometheus.CounterVec
	redis    *prometheus.CounterVec
	attempts *prometheus.CounterVec
	demoted  prometheus.Counter
	dropped  prometheus.Counter

	first, retry prometheus.Counter
}

func newMetrics(reg prometheus.Registerer) *metrics {
	f := promauto.With(reg)
	m := &metrics{
		limited: f.NewCounterVec(prometheus.CounterOpts{
			Name: "foregate_rate_limited_total", Help: "Requests refused with 429 because of a tenant limit, by limit.",
		}, []string{"limit"}),
		redis: f.NewCounterVec(prometheus.CounterOpts{
			Name: "foregate_limit_redis_total",
			Help: "Requests of tenants with a limit per minute, by how they were counted: shared means in Redis and in time; every other result means by this replica alone.",
		}, []string{"result"}),
		attempts: f.NewCounterVec(prometheus.CounterOpts{
			Name: "foregate_client_attempts_total",
			Help: "Requests whose body was read: first attempts, and attempts that an SDK marked as retries. (first + retry) / first is the retry amplification.",
		}, []string{"kind"}),
		demoted: f.NewCounter(prometheus.CounterOpts{
			Name: "foregate_limit_demoted_total", Help: "Requests of priority high that were served as normal because the tenant's limit.high_priority_share was used up.",
		}),
		dropped: f.NewCounter(prometheus.CounterOpts{
			Name: "foregate_limit_corrections_dropped_total", Help: "Corrections of estimated token charges that could not be sent to Redis.",
		}),
	}
	for _, k := range []Kind{Requests, Tokens, Concurrency} {
		m.limited.WithLabelValues(string(k))
	}
	for _, r := range lookup.Results {
		m.redis.WithLabelValues(r)
	}
	m.first, m.retry = m.attempts.WithLabelValues("first"), m.attempts.WithLabelValues("retry")
	return m
}
