// Package breaker keeps one circuit breaker per backend. A backend that fails gets no requests for a while, and is then
// tested before all requests return to it. Start at [New] and [Set.Allow]. The rules are pure (gate.go) and the same with
// other replicas, without them, and in the lab; gobreaker judges this replica's own calls. Only a [Fault] or an
// [Unreachable] opens a breaker.
//
// Replicas tell each other short texts, outside every request's path ([Set.Tell], [Set.Take]). A backend is open for the
// fleet if at least half of the calls that all replicas finished within ten seconds were faults. If only one replica sees
// faults, only its own breaker opens, because its own network is the likely cause. An open backend is tested by probes of
// the replica that owns it, never by a request. Only without a probe, or while Run does not run, exactly one request tests
// a breaker whose open time is over.
//
// Report an outcome at the first byte of the response. A fault after that is a sample of its own: Allow, then Report with
// the error at once. A request that forgets to report cannot block a breaker for ever.
package breaker

import (
	"cmp"
	"context"
	crand "crypto/rand"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"

	"github.com/foregate/foregate/tiers/world"
)

// ErrOpen matches every refusal of a breaker.
var ErrOpen = errors.New("breaker open")

// Options configures a Set. The zero value works.
type Options struct {
	Config   func() Config       // live; nil is DefaultConfig
	Classify func(error) Outcome // of calls and of probes; nil is Classify

	// Probe tests a backend without a user's request, within the context's 2 s, while Run runs. nil: one
	// request tests a breaker whose open time is over, and nothing is shared.
	Probe func(ctx context.Context, pool, backend string) error
	// Mine says whether this replica owns a name, a backend or one with a suffix: it tests it for all. nil: always.
	Mine    func(pool, name string) bool
	Wake    func() // asks for an exchange of texts now; nil: it comes in its time
	Replica string // the field of this replica's text, unlike every other's; "" is random

	Logger     zerolog.Logger
	Registerer prometheus.Registerer // nil registers nothing; one Set per Registerer

	// For the lab, which has its own clock.
	World world.World                           // nil is the operating system's
	Local func(cfg Config, now time.Time) Local // nil is gobreaker, which needs time.Now
	Draw  func() float64                        // in [0, 1), for open times; nil is random
}

// Set holds the breakers of all backends of all pools. It is safe for concurrent use.
//
// mu is its only lock. It is never held during calls of metrics, the log and the caller's functions except
// Local and Draw: these may block or take other locks.
type Set struct {
	o           Options
	transitions *prometheus.CounterVec
	base        time.Time   // zero of the entries' atomic times
	probes      atomic.Bool // Run runs, with a probe

	mu      sync.Mutex                     // guards what follows, and the entries
	entries atomic.Pointer[map[Key]*entry] // the map is replaced, never changed, so that Open needs no lock
	sizes   map[string]int                 // number of backends by pool, if known
}

// Key names a breaker.
type Key struct{ Pool, Backend string }

// New returns an empty Set; breakers are made when their backends are first used.
func New(o Options) *Set {
	if o.Config == nil {
		o.Config = DefaultConfig
	}
	if o.Classify == nil {
		o.Classify = Classify
	}
	if o.Wake == nil {
		o.Wake = func() {}
	}
	if o.World == nil {
		o.World = world.System{}
	}
	if o.Local == nil {
		o.Local = newGobreak
	}
	if o.Draw == nil {
		o.Draw = rand.Float64
	}
	o.Replica = cmp.Or(o.Replica, crand.Text())
	s := &Set{o: o, base: o.World.Now(), sizes: map[string]int{}, transitions: newTransitions(o.Registerer)}
	s.entries.Store(&map[Key]*entry{})
	if o.Registerer != nil {
		o.Registerer.MustRegister(collector{s})
	}
	return s
}

// Permit allows one call to a backend.
type Permit struct {
	entry    *entry
	tenant   string
	period   int // of the breaker when the call began; -1: its outcome does not count
	reported atomic.Bool
}

// Allow asks whether a request of a tenant may go to the backend. If so, call the permit's Report, best in a defer. If
// not, the error is an [ErrOpen]. Faults that one tenant alone provokes do not count ([blame.Blame]); "" is no tenant.
func (s *Set) Allow(pool, backend, tenant string) (*Permit, error) {
	e, cfg, now := s.entry(Key{pool, backend}), s.o.Config().OrDefaults(), s.o.World.Now()
	p := &Permit{entry: e, tenant: tenant}
	var v verdict
	s.change(e, now, func() { v = e.allow(p, cfg, now) })
	if v.refused {
		return nil, fmt.Errorf("%w: backend %s (pool %s), %s for another %s", ErrOpen, backend, pool, v.state, v.remaining.Round(time.Millisecond))
	}
	return p, nil
}

// Report reports the result of the call; nil is success. Only the first report counts.
func (p *Permit) Report(err error) {
	if p.reported.Swap(true) {
		return
	}
	e, s := p.entry, p.entry.set
	o, now := s.o.Classify(err), s.o.World.Now()
	s.change(e, now, func() {
		switch {
		case o == Success:
			e.blame.AnsweredWell(p.tenant, now)
		case o == Fault && !e.blame.Counts(p.tenant, now):
			o = Neutral
		}
		e.ended(p, o, now)
	})
}

// change changes a breaker, and updates everything that depends on it. A transition is counted and logged without the
// lock; one of this replica is told to the others at once.
func (s *Set) change(e *entry, now time.Time, do func()) verdict {
	v, from := s.locked(e, now, do)
	if from == v.state {
		return v
	}
	s.transitions.WithLabelValues(e.Pool, e.Backend, v.state.String()).Inc()
	event := s.o.Logger.Info()
	if v.state == Open {
		event = s.o.Logger.Warn().Dur("for", v.remaining)
	}
	event.Str("pool", e.Pool).Str("backend", e.Backend).
		Stringer("from", from).Stringer("to", v.state).Bool("fleet", v.fleet).Msg("breaker moved")
	if !v.fleet {
		s.o.Wake()
	}
	return v
}

// locked changes a breaker under the lock. from was its state.
func (s *Set) locked(e *entry, now time.Time, do func()) (v verdict, from State) {
	s.mu.Lock()
	defer s.mu.Unlock()
	e.probed = s.probes.Load()
	do()
	from, ejected := e.shown, e.ejects
	v = e.settle(now)
	if from != v.state || e.ejects != ejected {
		s.eject(e.Pool, now)
	}
	return v, from
}

// maxEjectionPercent is the share of a pool that may be kept out because of bad answers.
const maxEjectionPercent = 50

// eject decides which of a pool's breakers may keep requests out because of bad answers: the first half of the pool that
// opened, rounded down. So neither a prompt that breaks every backend nor a wrong classification of answers can close a
// pool. A pool of one backend always keeps it. A permission stays until the breaker has closed. Backends that cannot be
// reached need none. If the pool's size is not known, all may. The caller holds mu.
func (s *Set) eject(pool string, now time.Time) {
	size, known := s.sizes[pool]
	if !known {
		return
	}
	all := slices.DeleteFunc(slices.Collect(maps.Values(*s.entries.Load())), func(e *entry) bool { return e.Pool != pool })
	slices.SortFunc(all, func(a, b *entry) int {
		if a.ejects != b.ejects {
			return map[bool]int{true: -1, false: 1}[a.ejects]
		}
		return cmp.Or(a.left.Compare(b.left), cmp.Compare(a.Backend, b.Backend))
	})
	for i, e := range slices.Backward(all) { // who loses the permission comes first, so that there are never too many
		if may := e.ejects && i < size*maxEjectionPercent/100; may != e.mayEject {
			e.mayEject = may
			e.settle(now)
		}
	}
}

// Open reports whether the backend takes no request now: its breaker is open, or half-open and being tried.
// It changes nothing, takes no lock and creates no breaker, so it may be called for every backend on every
// pick.
func (s *Set) Open(pool, backend string) bool {
	e := (*s.entries.Load())[Key{pool, backend}]
	return e != nil && s.since(&e.shut) < 0
}

// Shut is Open without max ejection ([Set.Retain]), for a request that can use another pool: it avoids a
// backend whose breaker lets requests pass only because too many of its pool's are open. It is as cheap.
func (s *Set) Shut(pool, backend string) bool {
	e := (*s.entries.Load())[Key{pool, backend}]
	return e != nil && s.since(&e.broken) < 0
}

// Ramp is the share of its turns that the backend may take: it grows from 0.1 to 1 in the 10 s after its breaker has
// closed (as in Traefik). It is one atomic read.
func (s *Set) Ramp(pool, backend string) float64 {
	e := (*s.entries.Load())[Key{pool, backend}]
	if e == nil {
		return 1
	}
	return min(max(0.1+0.9*s.since(&e.closed).Seconds()/10, 0.1), 1)
}

// since is the time since a time of an entry: below 0 if that is to come, an hour if there is none.
func (s *Set) since(at *atomic.Int64) time.Duration {
	if t := at.Load(); t != 0 {
		return s.o.World.Now().Sub(s.base) - time.Duration(t)
	}
	return time.Hour
}

// Restarted says that another process answers at a backend: if its breaker is open, it is tested now. The faults of the
// process that ended say little of this one, and in a rolling restart the next backend ends before the open time is over.
func (s *Set) Restarted(pool, backend string) {
	e := s.entry(Key{pool, backend})
	s.change(e, s.o.World.Now(), func() { e.restarted = e.open && s.o.Probe != nil })
}

// Retain sets the backends of a pool. Breakers of others are deleted with their series; of the named ones texts are
// taken from then on. It is cheap if nothing has changed, and should be called often.
func (s *Set) Retain(pool string, backends []string) {
	for _, b := range backends {
		s.entry(Key{pool, b})
	}
	for _, k := range s.retain(pool, backends) { // a call in progress then increments a counter that is not collected
		s.transitions.DeletePartialMatch(prometheus.Labels{"pool": k.Pool, "backend": k.Backend})
	}
}

// retain returns the deleted breakers.
func (s *Set) retain(pool string, backends []string) (removed []Key) {
	s.mu.Lock()
	defer s.mu.Unlock()
	old := *s.entries.Load()
	for k := range old {
		if k.Pool == pool && !slices.Contains(backends, k.Backend) {
			removed = append(removed, k)
		}
	}
	if size, known := s.sizes[pool]; known && size == len(backends) && removed == nil {
		return nil
	}
	s.sizes[pool] = len(backends)
	kept := maps.Clone(old)
	maps.DeleteFunc(kept, func(k Key, _ *entry) bool { return slices.Contains(removed, k) })
	s.entries.Store(&kept)
	s.eject(pool, s.o.World.Now())
	return removed
}

// entry returns the breaker of k, a new one if there is none.
func (s *Set) entry(k Key) *entry {
	if e := (*s.entries.Load())[k]; e != nil {
		return e
	}
	cfg, now := s.o.Config().OrDefaults(), s.o.World.Now()
	s.mu.Lock()
	defer s.mu.Unlock()
	grown := maps.Clone(*s.entries.Load())
	if grown[k] == nil {
		_, known := s.sizes[k.Pool]
		grown[k] = &entry{Key: k, set: s, gate: gate{mayEject: !known}, cfg: cfg, local: s.o.Local(cfg, now)}
		s.entries.Store(&grown)
	}
	return grown[k]
}

// Status is one breaker as a status page shows it.
type Status struct {
	Pool      string
	Backend   string
	State     State
	Remaining time.Duration // remaining open time; of a half-open one, the remaining time of its trial
	Alone     bool          // not closed here, but closed for the fleet
}

// States returns all breakers by pool and backend.
func (s *Set) States() (out []Status) {
	now := s.o.World.Now()
	for k, e := range *s.entries.Load() {
		v := s.change(e, now, func() {})
		out = append(out, Status{k.Pool, k.Backend, v.state, v.remaining, v.alone})
	}
	slices.SortFunc(out, func(a, b Status) int {
		return cmp.Or(cmp.Compare(a.Pool, b.Pool), cmp.Compare(a.Backend, b.Backend))
	})
	return out
}
