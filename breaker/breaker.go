// Package breaker keeps one circuit breaker per backend. A backend that fails gets no requests for a while, and is then
// tested before all requests return to it. Start at [New] and [Set.Allow]. The rules (gate.go) are the same with other
// replicas, without them, and in the lab; gobreaker judges this replica's own calls. Only a [Fault] or an [Unreachable]
// opens a breaker. Replicas tell each other short texts, outside every request's path ([Set.Tell], [Set.Take]). A backend
// is open for the fleet if at least half of the calls that all replicas finished within ten seconds were faults. If only
// one replica sees faults, only its own breaker opens: its own network is the likely cause. An open backend is tested by
// probes of the replica that owns it, never by a request. Only while Run does not run a breaker closes when its open time is
// over. Report an outcome at the first byte of the response. A fault after that is a sample of its own: Allow, then Report
// with the error at once.
package breaker

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
	"github.com/rs/zerolog"

	"github.com/foregate/foregate/tiers/world"
)

// ErrOpen matches every refusal of a breaker.
var ErrOpen = errors.New("breaker open")

// Options configures a Set. What may be nil says so.
type Options struct {
	Config   func() Config       // live
	Classify func(error) Outcome // of calls and of probes

	// Probe tests a backend without a user's request, within the context's 2 s, while Run runs.
	Probe func(ctx context.Context, pool, backend string) error
	// Mine says whether this replica owns a name, a backend or one with a suffix: it tests it for all.
	Mine    func(pool, name string) bool
	Wake    func() // asks for an exchange of texts now
	Replica string // the field of this replica's text, unlike every other's

	Logger     zerolog.Logger
	Registerer prometheus.Registerer // nil registers nothing; one Set per Registerer

	World world.World
	Draw  func() float64                        // random in [0, 1), for open times
	Local func(cfg Config, now time.Time) Local // nil is gobreaker, which needs time.Now
}

// Set holds the breakers of all backends of all pools. It is safe for concurrent use.
//
// mu is its only lock. It is never held during calls of the log and the caller's functions except Local and Draw: these
// may block or take other locks.
type Set struct {
	o           Options
	transitions *prometheus.CounterVec
	probes      atomic.Bool // Run runs

	mu      sync.Mutex                     // guards what follows, and the entries
	entries atomic.Pointer[map[Key]*entry] // the map is replaced, never changed, so that Open needs no lock
	sizes   map[string]int                 // number of backends by pool, if known
}

// Key names a breaker.
type Key struct{ Pool, Backend string }

// New returns an empty Set; breakers are made when their backends are first used.
func New(o Options) *Set {
	if o.Local == nil {
		o.Local = newGobreak
	}
	s := &Set{o: o, sizes: map[string]int{}}
	s.entries.Store(&map[Key]*entry{})
	s.transitions = promauto.With(o.Registerer).NewCounterVec(prometheus.CounterOpts{
		Name: "foregate_breaker_transitions_total",
		Help: "Transitions of the backend's breaker as this replica saw them, by the state that it came to.",
	}, []string{"pool", "backend", "to"})
	if o.Registerer != nil {
		o.Registerer.MustRegister(collector{s})
	}
	return s
}

// Permit allows one call to a backend.
type Permit struct {
	set      *Set
	entry    *entry
	tenant   string
	period   int // of the breaker when the call began
	reported atomic.Bool
}

// Allow asks whether a request of a tenant may go to the backend. If so, call the permit's Report, best in a defer. If
// not, the error is an [ErrOpen]. Faults that one tenant alone provokes do not count ([blame.Blame]); "" is no tenant.
func (s *Set) Allow(pool, backend, tenant string) (*Permit, error) {
	e, cfg, now := s.entry(Key{pool, backend}), s.o.Config(), s.o.World.Now()
	p := &Permit{set: s, entry: e, tenant: tenant}
	v := s.change(e, now, func() {
		if p.period = e.period; !e.open && cfg != e.cfg {
			e.cfg, e.local = cfg, s.o.Local(cfg, now)
		}
	})
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
	s, e := p.set, p.entry
	o, now := s.o.Classify(err), s.o.World.Now()
	s.change(e, now, func() { e.ended(p, o, now) })
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
	was := e.view.Load()
	if e.probed = s.probes.Load(); e.open && !e.probed && !now.Before(e.until) {
		e.open, e.turn = false, 0 // it closes untested; the ramp bounds what the backend then gets
		e.settle(now)
	}
	do()
	if v = e.settle(now); was.state != v.state || was.ejected != v.ejected {
		s.eject(e.Pool, now)
	}
	return v, was.state
}

// eject decides which of a pool's breakers may keep requests out because of bad answers: the first half of the pool that
// opened, rounded down. So neither a prompt that breaks every backend nor a wrong classification of answers can close a
// pool. A pool of one backend always keeps it. A permission stays until the breaker has closed. Backends that cannot be
// reached need none. If the pool's size is not known, all may. The caller holds mu.
func (s *Set) eject(pool string, now time.Time) {
	size, known := s.sizes[pool]
	if !known {
		return
	}
	var candidates []*entry
	for _, e := range s.inOrder() {
		if e.Pool == pool && e.view.Load().ejected {
			candidates = append(candidates, e)
		} else if e.Pool == pool {
			e.mayEject = false
		}
	}
	slices.SortStableFunc(candidates, func(a, b *entry) int { return a.left.Compare(b.left) })
	for i, e := range slices.Backward(candidates) { // those that lose the permission first, so that never too many have it
		e.mayEject = i < size/2
		e.settle(now)
	}
}

// Open reports whether the backend takes no request now: its breaker is open, or half-open and being tried.
// It takes no lock and creates no breaker, so it may be called for every backend on every pick.
func (s *Set) Open(pool, backend string) bool {
	e := (*s.entries.Load())[Key{pool, backend}]
	return e != nil && e.view.Load().refused && s.o.World.Now().Before(e.view.Load().until)
}

// Shut is Open without max ejection ([Set.Retain]), for a request that can use another pool: it avoids a
// backend whose breaker lets requests pass only because too many of its pool's are open. It is as cheap.
func (s *Set) Shut(pool, backend string) bool {
	e := (*s.entries.Load())[Key{pool, backend}]
	return e != nil && s.o.World.Now().Before(e.view.Load().until)
}

// Ramp is the share of its turns that the backend may take: it grows from 0.1 to 1 in the 10 s after its breaker has
// closed (as in Traefik). It is one atomic read.
func (s *Set) Ramp(pool, backend string) float64 {
	e := (*s.entries.Load())[Key{pool, backend}]
	if e == nil || e.view.Load().closed.IsZero() {
		return 1
	}
	return min(max(0.1+0.9*s.o.World.Now().Sub(e.view.Load().closed).Seconds()/10, 0.1), 1)
}

// Restarted says that another process answers at a backend: if its breaker is open, it is tested now. The faults of the
// process that ended say little of this one, and in a rolling restart the next backend ends before the open time is over.
func (s *Set) Restarted(pool, backend string) {
	e := s.entry(Key{pool, backend})
	s.change(e, s.o.World.Now(), func() { e.restarted = e.open })
}

// Retain sets the backends of a pool. Breakers of others are deleted with their series; of the named ones texts are
// taken from then on. It is cheap if nothing has changed, and should be called often.
func (s *Set) Retain(pool string, backends []string) {
	for _, b := range backends {
		s.entry(Key{pool, b})
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	var gone []Key
	for k := range *s.entries.Load() {
		if k.Pool == pool && !slices.Contains(backends, k.Backend) {
			gone = append(gone, k)
		}
	}
	if size, known := s.sizes[pool]; known && size == len(backends) && len(gone) == 0 {
		return
	}
	kept := maps.Clone(*s.entries.Load())
	for _, k := range gone {
		delete(kept, k) // a call in progress then increments a counter that is not collected
		s.transitions.DeletePartialMatch(prometheus.Labels{"pool": pool, "backend": k.Backend})
	}
	s.sizes[pool] = len(backends)
	s.entries.Store(&kept)
	s.eject(pool, s.o.World.Now())
}

// entry returns the breaker of k, a new one if there is none.
func (s *Set) entry(k Key) *entry {
	if e := (*s.entries.Load())[k]; e != nil {
		return e
	}
	cfg, now := s.o.Config(), s.o.World.Now()
	s.mu.Lock()
	defer s.mu.Unlock()
	grown := maps.Clone(*s.entries.Load())
	if grown[k] == nil {
		_, known := s.sizes[k.Pool]
		grown[k] = &entry{Key: k, o: &s.o, gate: gate{mayEject: !known}, cfg: cfg, local: s.o.Local(cfg, now)}
		grown[k].view.Store(&verdict{})
		s.entries.Store(&grown)
	}
	return grown[k]
}

// Status is one breaker as a status page shows it.
type Status struct {
	Key
	State     State
	Remaining time.Duration // of its open time
	Alone     bool          // not closed here, but closed for the fleet
}

// States returns all breakers by pool and backend.
func (s *Set) States() (out []Status) {
	for _, e := range s.inOrder() {
		v := s.change(e, s.o.World.Now(), func() {})
		out = append(out, Status{e.Key, v.state, v.remaining, v.alone})
	}
	return out
}

// inOrder returns all breakers by pool and backend: random open times are then drawn in the same order in each run of the lab.
func (s *Set) inOrder() []*entry {
	return slices.SortedFunc(maps.Values(*s.entries.Load()), func(a, b *entry) int {
		return cmp.Or(cmp.Compare(a.Pool, b.Pool), cmp.Compare(a.Backend, b.Backend))
	})
}

var (
	stateDesc = prometheus.NewDesc("foregate_breaker_state", "State of the backend's breaker: 0 closed, 1 half-open, 2 open.", []string{"pool", "backend"}, nil)
	aloneDesc = prometheus.NewDesc("foregate_breaker_open_here_only",
		"1 where the breaker is open on this replica and closed for the fleet: it is the replica's own network that is sick.", []string{"pool", "backend"}, nil)
)

// collector reads the states at each scrape, because an open breaker becomes due by time alone.
type collector struct{ *Set }

// Describe implements prometheus.Collector.
func (collector) Describe(out chan<- *prometheus.Desc) { out <- stateDesc; out <- aloneDesc }

// Collect implements prometheus.Collector.
func (c collector) Collect(out chan<- prometheus.Metric) {
	for _, s := range c.States() {
		out <- prometheus.MustNewConstMetric(stateDesc, prometheus.GaugeValue, float64(s.State), s.Pool, s.Backend)
		out <- prometheus.MustNewConstMetric(aloneDesc, prometheus.GaugeValue, map[bool]float64{true: 1}[s.Alone], s.Pool, s.Backend)
	}
}
