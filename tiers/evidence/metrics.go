package evidence

import (
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
)

// labelAway is the label of an audit that Redis did not take. The results of package risk are labels, too, and those of the
// log: an audit is lost here if its outcome had no effect.
const labelAway = "away"

// problem is a kind of failure, and what the log says of it.
type problem struct{ kind, says string }

var (
	problemAway    = problem{"redis", "evidence: Redis does not answer; no audit can be booked, and views grow old"}
	problemRefused = problem{"refused", "evidence: Redis refuses what is asked of it; audits are not booked"}
	problemForeign = problem{"fields", "evidence: what Redis holds is not what was written; it is passed over"}
	problemLost    = problem{"lost", "evidence: Redis lost data; all certificates of a route end"}
)

// metrics counts audits and problems.
type metrics struct {
	*Options
	audits, errors *prometheus.CounterVec

	mu   sync.Mutex
	last map[problem]time.Time // when each was logged
}

func newMetrics(o *Options) *metrics {
	f := promauto.With(o.Registerer)
	m := &metrics{
		Options: o, last: map[problem]time.Time{},
		audits: f.NewCounterVec(prometheus.CounterOpts{
			Name: "foregate_audits_total",
			Help: "Audits of drafts, by what became of them: good or bad; lost, its outcome came too late, after an alarm, or never; stale, outside, full, not begun because the grid is another, the score is below the region, too many are under way; learned, its score helps to place the grid; away, Redis did not answer.",
		}, []string{"route", "label"}),
		errors: f.NewCounterVec(prometheus.CounterOpts{
			Name: "foregate_risk_errors_total",
			Help: "What went wrong with the evidence in Redis: redis, no answer; refused, an error as an answer; fields, not what was written; lost, the log of a route is not the one that was read before, so that its certificates ended.",
		}, []string{"kind"}),
	}
	for _, p := range []problem{problemAway, problemRefused, problemForeign, problemLost} {
		m.errors.WithLabelValues(p.kind)
	}
	return m
}

// note counts a problem, and logs it at most once a minute.
func (m *metrics) note(what problem, err error) {
	m.errors.WithLabelValues(what.kind).Inc()
	m.mu.Lock()
	defer m.mu.Unlock()
	if at, ok := m.last[what]; !ok || m.Now().Sub(at) >= time.Minute {
		m.last[what] = m.Now()
		m.Logger.Warn().Err(err).Msg(what.says)
	}
}
