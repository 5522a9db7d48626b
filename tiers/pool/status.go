package pool

import (
	"cmp"
	"time"

	"github.com/foregate/foregate/tiers/dialect"
	"github.com/foregate/foregate/tiers/pressure"
)

// State is what requests may expect of a backend.
type State string

// The states. If several hold, the last of them counts.
const (
	StateUp      State = "up"
	StateSuspect State = "suspect" // it seems to hang, and gets requests only if no other is left
	StateDrained State = "drained" // it gets no new requests
	StateDown    State = "down"
)

// Backend is one backend as operators and other components see it. As JSON it is one of GET /admin/status.
type Backend struct {
	Pool     string       `json:"-"`
	ID       string       `json:"id"`
	URL      string       `json:"url"`
	Engine   dialect.Kind `json:"engine,omitempty"` // the kind of its engine; "": not known
	State    State        `json:"state"`
	Why      string       `json:"why,omitempty"`       // why it is not up, or what is wrong with it
	KVUsage  *float64     `json:"kv_usage"`            // of the last reading, 0 … 1; null: no reading, or the engine does not tell it
	InFlight int          `json:"in_flight"`           // this replica's requests there
	Age      *float64     `json:"reading_age_seconds"` // null: no reading

	Reading pressure.Reading `json:"-"` // the last one, however old
	Probed  bool             `json:"-"` // it may be asked what it can do: it gets requests, and its engine's kind was asked for
	Life    uint64           `json:"-"` // changes with each restart
}

// Snapshot returns every backend in the order of the set. It renews the forecasts of their memory, as a pick does.
func (p *Pool) Snapshot() []Backend {
	var r round
	r.begin(p, &Demand{}, *p.set.Load())
	out, now := make([]Backend, len(r.set)), r.now
	for i := range r.set {
		out[i].Probed = !r.cands[i].broken
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.fill(&r)
	for i, b := range r.set {
		s := &out[i]
		s.Pool, s.ID, s.URL = p.o.Name, b.id, b.url
		s.Engine, s.State, s.InFlight, s.Reading, s.Life = b.identity.kind, p.stateOf(b), b.account.all.requests, b.reading, b.life
		s.Probed = s.Probed && !p.out(b) && !b.identity.isUnasked()
		s.Why = p.why(b, now)
		if r := &s.Reading; !r.At.IsZero() {
			s.Age = new(now.Sub(r.At).Seconds())
			if !r.NoUsage {
				s.KVUsage = &r.KVUsage
			}
		}
	}
	return out
}

// stateOf returns the state of a backend. The caller holds mu.
func (p *Pool) stateOf(b *backend) State {
	switch {
	case b.down != nil:
		return StateDown
	case p.drained(b) != "":
		return StateDrained
	case b.health.isSuspect():
		return StateSuspect
	}
	return StateUp
}

// why returns why b gets no requests, or what is wrong with it; "" if neither. The caller holds mu.
func (p *Pool) why(b *backend, now time.Time) string {
	condition, drain := b.health.condition(), p.drained(b)
	misfit := cmp.Or(p.refusal(b), b.modelProblem(), p.engineProblem(b))
	switch {
	case drain != "" && b.down == nil:
		return drain
	case misfit != "":
		return misfit
	case b.down != nil:
		return b.down.Error()
	case condition != conditionWell:
		return string(condition)
	case now.Before(b.pausedUntil):
		return "wants no requests for " + b.pausedUntil.Sub(now).Round(time.Millisecond).String() + ", by its limit of rates"
	case !b.isReachable(now):
		return b.problem()
	}
	return b.identity.hint()
}

// Readiness says whether a pool can take requests, as far as this replica knows.
type Readiness int

// The values.
const (
	Down    Readiness = iota // every backend is down, drained or has an open breaker, or there is none
	Unknown                  // no usable backend has answered lately
	Ready                    // a usable backend has answered
)

// Readiness returns whether the pool can take a request. A reading counts as an answer, also one from another replica,
// and so does any HTTP answer. Without a new answer a backend counts for another [pressure.UnknownAfter].
func (p *Pool) Readiness() Readiness { return p.readiness(p.o.Open, false) }

// OptionalReadiness is Readiness for requests with [Demand].Optional, such as drafts.
func (p *Pool) OptionalReadiness() Readiness { return p.readiness(p.o.Shut, true) }

func (p *Pool) readiness(broken func(backend string) bool, optional bool) Readiness {
	now := p.o.Now()
	best := Down
	for _, b := range *p.set.Load() {
		if broken(b.id) {
			continue
		}
		var out, reached bool
		p.locked(func() {
			out, reached = p.out(b) || optional && b.health.isSuspect(), b.isReachable(now)
		})
		switch {
		case out:
		case reached:
			return Ready
		default:
			best = Unknown
		}
	}
	return best
}

// queueShare is the share of waiting to running requests that is normal when all seats are taken: with answers of some
// seconds the last of them gets a seat in about half a second.
const queueShare = 0.1

// Room says how much of a pool is taken: means over the backends that are up, as far as known. Of hosted backends all is,
// because nothing is to spare where each token is paid.
type Room struct {
	Usage            float64 // of KV memory, 0 … 1
	Running, Waiting float64 // requests
}

// Queues reports whether requests queue for seats: more than queueShare of the running ones. A new request would wait behind
// them.
func (r Room) Queues() bool { return r.Waiting > 1+queueShare*r.Running }

// Room returns how much of the pool is taken.
func (p *Pool) Room() Room {
	if p.o.External {
		return Room{Usage: 1}
	}
	now := p.o.Now()
	p.mu.Lock()
	defer p.mu.Unlock()
	m := meanOf(*p.set.Load(), now)
	return Room{Usage: m.usage, Running: m.running, Waiting: m.waiting}
}

// Load returns the mean KV usage of the backends that are up, as far as known, or 1 if requests queue for seats.
func (p *Pool) Load() float64 {
	if r := p.Room(); !r.Queues() {
		return r.Usage
	}
	return 1
}
