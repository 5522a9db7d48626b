package evidence

import (
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"
)

// problem is a kind of it, a closed set.
type problem string

const (
	away     problem = "redis"   // no answer: refused, late or cut
	refused  problem = "refused" // an answer that is an error: wrong type, no memory, no permission
	foreign  problem = "fields"  // fields that are not ours
	troubled problem = "script"  // a script that did its work but for something
)

var says = map[problem]string{
	away:     "evidence: Redis does not answer; no audit can be booked, and views grow old",
	refused:  "evidence: Redis refuses what is asked of it; audits are not booked",
	foreign:  "evidence: what Redis holds is not what was written; nothing is believed of it",
	troubled: "evidence: something is wrong with a key in Redis; the rest goes on",
}

// period is between two readings of Redis.
const period = time.Second

// quiet is how long a trouble must not come again to be over, and calm for how long Redis must
// have answered.
const quiet, calm = time.Minute, 2 * period

// health logs each trouble once when it comes and once when it is over, and counts it always.
type health struct {
	log    zerolog.Logger
	now    func() time.Time
	errors *prometheus.CounterVec

	mu   sync.Mutex
	last map[problem]time.Time // of what is not over
}

func (h *health) note(what problem, err error) {
	h.errors.WithLabelValues(string(what)).Inc()
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.last == nil {
		h.last = make(map[problem]time.Time)
	}
	if _, ok := h.last[what]; !ok {
		h.log.Warn().Err(err).Msg(says[what])
	}
	h.last[what] = h.now()
}

// well says that Redis answers.
func (h *health) well() {
	h.mu.Lock()
	defer h.mu.Unlock()
	for what, at := range h.last {
		switch over := h.now().Sub(at); {
		case what == away && over >= calm:
			h.log.Info().Msg("evidence: Redis answers again")
		case over > quiet:
			h.log.Info().Str("what", string(what)).Msg("evidence: well again for a minute")
		default:
			continue
		}
		delete(h.last, what)
	}
}
