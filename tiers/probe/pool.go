package probe

import (
	"net/http"
	"time"

	"github.com/rs/zerolog"

	"github.com/foregate/foregate/tiers/credentials"
	"github.com/foregate/foregate/tiers/dialect"
	calls "github.com/foregate/foregate/tiers/engine"
)

// Pool is one to probe.
type Pool struct {
	Name, Model string
	// Backends are those that there are now. It is asked once a second.
	Backends func() []Backend
	// Transport sends the questions, with the pool's credentials; nil is Options.Transport.
	Transport   http.RoundTripper
	Credentials func() *credentials.Credentials // that it shows to its engines; nil: none
	// Ended is told how each question ended; nil: nobody is.
	Ended func(backend string, err error)
	// Priority is what its engines are told where they schedule by priority: a late one. nil:
	// they do not, and refuse a request that has one.
	Priority *int64
	// Scores reports whether its engines may be asked to score now: none has died of it a moment ago. nil: always.
	Scores func() bool
}

// probedAs reports whether what a probe tells of p holds for q, too.
func (p Pool) probedAs(q Pool) bool {
	same := p.Priority == nil && q.Priority == nil || p.Priority != nil && q.Priority != nil && *p.Priority == *q.Priority
	return p.Model == q.Model && same
}

// Backend is one of a pool's.
type Backend struct {
	ID, URL string
	Engine  dialect.Kind // "" is not known yet
	Up      bool
	Life    uint64 // another one than before: the engine was restarted
}

// isAs reports whether b's engine is in the life that c's is in, and of its kind.
func (b Backend) isAs(c Backend) bool {
	return b.ID == c.ID && b.Life == c.Life && dialect.Of(b.Engine) == dialect.Of(c.Engine)
}

// pace is how often is asked.
type pace struct {
	look, models       time.Duration // at the backends, at the model's card
	minRetry, maxRetry time.Duration // of a question that got no answer: doubling
	part, maxPart      time.Duration // of one whose answer may be better: doubling
	closed, maxClosed  time.Duration // scoring that ended the engine: doubling
	told               time.Duration // after which what is known is told again
}

// defaultPace is that of a Prober.
var defaultPace = pace{
	look: time.Second, models: 15 * time.Second, minRetry: time.Second, maxRetry: time.Minute,
	part: 10 * time.Second, maxPart: 15 * time.Minute, closed: 5 * time.Minute, maxClosed: time.Hour, told: 20 * time.Second,
}

// services is what all watches of a Prober use.
type services struct {
	upstream calls.Upstream
	timeout  time.Duration
	log      zerolog.Logger
	now      func() time.Time
	pace     pace
	mine     func(pool, backend string) bool // this replica asks it
	ready    func() bool                     // what others know was read
}
