package evidence

import (
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"
)

// problem is a kind of error, a closed set.
type problem string

const (
	away     problem = "redis"   // no answer: refused, late or cut
	refused  problem = "refused" // an answer that is an error: wrong type, no memory, no permission
	foreign  problem = "fields"  // foreign fields
	troubled problem = "script"  // a script that succeeded with a warning
)

var says = map[problem]string{
	away:     "evidence: Redis does not answer; no audit can be booked, and views grow old",
	refused:  "evidence: Redis refuses what is asked of it; audits are not booked",
	foreign:  "evidence: what Redis holds is not what was written; nothing is believed of it",
	troubled: "evidence: something is wrong with a key in Redis; the rest goes on",
}

// period is the time between two reads of Redis.
const period = time.Second

// quiet is the least time between two log lines about one problem.
const quiet = time.Minute

// health counts each problem, and logs it at most once a minute.
type health struct {
	log    zerolog.Logger
	now    func() time.Time
	errors *prometheus.CounterVec

	mu   sync.Mutex
	last map[problem]time.Time // when each was logged
}

func (h *health) note(what problem, err error) {
	h.errors.WithLabelValues(string(what)).Inc()
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.last == nil {
		h.last = make(map[problem]time.Time)
	}
	if at, ok := h.last[what]; !ok || h.now().Sub(at) >= quiet {
		h.last[what] = h.now()
		h.log.Warn().Err(err).Msg(says[what])
	}
}
