package conversations

import (
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
)

// The calls, as metrics name them.
const (
	callPut    = "put"
	callRead   = "read"
	callDelete = "delete"
)

func newCalls(reg prometheus.Registerer) *prometheus.CounterVec {
	calls := promauto.With(reg).NewCounterVec(prometheus.CounterOpts{
		Name: "foregate_response_store_total",
		Help: "Calls to the store of responses of the Responses API, by what they did (put, read, delete) and how they ended. A put that is not ok is an answer that went out with store: false.",
	}, []string{"call", "result"})
	for _, call := range []string{callPut, callRead, callDelete} {
		for _, result := range []string{"ok", "away", "late", "error"} {
			calls.WithLabelValues(call, result)
		}
	}
	return calls
}
