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

// The results of calls, as metrics name them: a closed set.
const (
	resultOK       = "ok"
	resultMissing  = "missing"  // there is no such response
	resultGone     = "gone"     // the response before it is not there any more
	resultLarge    = "large"    // beyond the bytes or the turns of a conversation, or the bytes of a tenant
	resultAway     = "away"     // Redis does not answer of late, or purges are not known
	resultLate     = "late"     // not within the time
	resultError    = "error"    // Redis refused, or the connection failed
	resultUnsealed = "unsealed" // a value that does not open
)

func newCalls(reg prometheus.Registerer) *prometheus.CounterVec {
	calls := promauto.With(reg).NewCounterVec(prometheus.CounterOpts{
		Name: "foregate_response_store_total",
		Help: "Calls to the store of responses of the Responses API, by what they did (put, read, delete) and how they ended. A put that is not ok is an answer that went out with store: false.",
	}, []string{"call", "result"})
	for _, call := range []string{callPut, callRead, callDelete} {
		for _, result := range []string{resultOK, resultAway, resultLate, resultError} {
			calls.WithLabelValues(call, result)
		}
	}
	return calls
}
