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
	// Ended is told how each probe ended; nil: nobody is.
	Ended func(backend string, err error)
	// Priority is what its engines are told where they schedule by priority: a late one. nil:
	// they do not, and refuse a request that has one.
	Priority *int64
	// Optional reports whether its engines may be asked to score now: they have room, and none
	// has died of it a moment ago. nil: always.
	Optional func() bool
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

// pace is how often is asked.
type pace struct {
	look, models       time.Duration // at the backends, at the model's card
	again              time.Duration // a whole probe
	minRetry, maxRetry time.Duration // after one that failed: doubling
	part               time.Duration // after one that brought not all: doubling, to again at most
	closed, maxClosed  time.Duration // scoring that ended the engine: doubling
}

// defaultPace is that of a Prober.
var defaultPace = pace{
	look: time.Second, models: 15 * time.Second, again: 15 * time.Minute,
	minRetry: time.Second, maxRetry: time.Minute, part: 10 * time.Second, closed: 5 * time.Minute, maxClosed: time.Hour,
}

const (
	// maxProbeTime bounds one probe; a slow engine takes some 30 s.
	maxProbeTime = 3 * time.Minute
	// maxCardBytes bounds a look at the model's card.
	maxCardBytes = 2 * time.Second
)

// services is what all watches of a Prober use.
type services struct {
	upstream calls.Upstream
	timeout  time.Duration
	log      zerolog.Logger
	now      func() time.Time
	pace     pace
	slots    chan struct{} // one per probe under way
}
