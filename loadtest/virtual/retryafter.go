package virtual

import (
	"errors"
	"math"
	"slices"
	"time"

	"github.com/foregate/foregate/gateway/admission"
	"github.com/foregate/foregate/gateway/identity"
	"github.com/foregate/foregate/loadtest"
)

// maxRetryAfter is the longest Retry-After, in seconds.
const maxRetryAfter = 30

// retryAccuracy compares the Retry-After of refused requests with the time until the next request of their
// class was admitted at their pool. Both are whole seconds, at most maxRetryAfter. Refusals that no admission
// followed are left out.
type retryAccuracy struct {
	open                      map[queueClass][]refusal
	retryAfter, actual, ratio []float64 // of each refusal
}

// queueClass is one class of requests at one pool.
type queueClass struct {
	pool  string
	class identity.Priority
}

// refusal is one that no admission has followed yet.
type refusal struct {
	at         time.Duration
	retryAfter float64 // seconds
}

// hear takes in what a queue said to who came to it at a time.
func (a *retryAccuracy) hear(l *lab, k queueClass, err error, came time.Duration) {
	if came < l.scenario.Warmup {
		return
	}
	if shed, ok := errors.AsType[*admission.ShedError](err); ok {
		a.refuse(k, refusal{l.clock.Elapsed(), shed.RetryAfter.Seconds()})
	} else if err == nil {
		a.admit(k, came)
	}
}

func (a *retryAccuracy) refuse(k queueClass, r refusal) {
	if a.open == nil {
		a.open = map[queueClass][]refusal{}
	}
	a.open[k] = append(a.open[k], r)
}

// admit closes the refusals before one came that was let in.
func (a *retryAccuracy) admit(k queueClass, came time.Duration) {
	if len(a.open[k]) == 0 {
		return
	}
	a.open[k] = slices.DeleteFunc(a.open[k], func(r refusal) bool {
		if r.at > came {
			return false
		}
		actual := min(max(math.Ceil((came-r.at).Seconds()), 1), maxRetryAfter)
		a.retryAfter, a.actual, a.ratio = append(a.retryAfter, r.retryAfter), append(a.actual, actual), append(a.ratio, r.retryAfter/actual)
		return true
	})
}

func (a *retryAccuracy) retry() loadtest.Retry {
	return loadtest.Retry{RetryAfter: median(a.retryAfter), True: median(a.actual), Ratio: median(a.ratio)}
}

// median of what is there, 0 of nothing.
func median(v []float64) float64 {
	if len(v) == 0 {
		return 0
	}
	v = slices.Sorted(slices.Values(v))
	return v[len(v)/2]
}
