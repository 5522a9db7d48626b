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
func (c *retryAccuracy) hear(l *lab, k queueClass, err error, came time.Duration) {
	if came < l.scenario.Warmup {
		return
	}
	if shed, ok := errors.AsType[*admission.ShedError](err); ok {
		c.refuse(k, refusal{l.clock.Elapsed(), shed.RetryAfter.Seconds()})
	} else if err == nil {
		c.admit(k, came)
	}
}

func (c *retryAccuracy) refuse(k queueClass, r refusal) {
	if c.open == nil {
		c.open = map[queueClass][]refusal{}
	}
	c.open[k] = append(c.open[k], r)
}

// admit closes the refusals before one came that was let in.
func (c *retryAccuracy) admit(k queueClass, came time.Duration) {
	if len(c.open[k]) == 0 {
		return
	}
	c.open[k] = slices.DeleteFunc(c.open[k], func(r refusal) bool {
		if r.at > came {
			return false
		}
		actual := min(max(math.Ceil((came-r.at).Seconds()), 1), maxRetryAfter)
		c.retryAfter, c.actual, c.ratio = append(c.retryAfter, r.retryAfter), append(c.actual, actual), append(c.ratio, r.retryAfter/actual)
		return true
	})
}

func (c *retryAccuracy) retry() loadtest.Retry {
	return loadtest.Retry{RetryAfter: median(c.retryAfter), True: median(c.actual), Ratio: median(c.ratio)}
}

// median of what is there, 0 of nothing.
func median(v []float64) float64 {
	if len(v) == 0 {
		return 0
	}
	v = slices.Sorted(slices.Values(v))
	return v[len(v)/2]
}
