package riskview

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rs/zerolog"

	"github.com/foregate/foregate/gateway"
	"github.com/foregate/foregate/tiers/evidence"
	"github.com/foregate/foregate/tiers/plan"
	"github.com/foregate/foregate/tiers/risk"
)

const (
	// readInterval is the time between two reads of all states for the metrics and the log.
	readInterval = 10 * time.Second
	// maxPhaseLines bounds the changes of phases that are logged at once.
	maxPhaseLines = 16
)

// Options configure a Watcher.
type Options struct {
	Evidence *evidence.Store
	Config   func(route string) *plan.Config // live
	Logger   zerolog.Logger
	// Economics returns what the requests of a key are like; nil: unknown.
	Economics func(k risk.Key) Economics
	Now       func() time.Time // nil is time.Now
}

// Watcher keeps the state of the evidence in memory, and logs changes of phases, while a replica runs.
type Watcher struct {
	book   *evidence.Store
	config func(route string) *plan.Config // live
	log    zerolog.Logger
	now    func() time.Time

	economics func(k risk.Key) Economics // nil: unknown

	last    atomic.Pointer[[]evidence.KeyState]
	counted atomic.Pointer[Rates] // nil before the first request for views

	mu       sync.Mutex         // one measurement at a time
	counts   time.Time          // time of the last measurement
	logViews []gateway.RiskView // Run only: the last logged views

	frontierMu  sync.Mutex             // one computation at a time
	frontiers   *gateway.RiskFrontiers // the last ones
	frontiersAt time.Time
}

// New makes a Watcher. The caller runs it.
func New(o Options) *Watcher {
	s := &Watcher{book: o.Evidence, config: o.Config, log: o.Logger, now: o.Now, economics: o.Economics}
	if s.now == nil {
		s.now = time.Now
	}
	return s
}

// Run reads all states every ten seconds, until ctx ends, for readers that must not wait, and logs changes
// of phases: on each replica. If states cannot be read, the last ones remain.
func (s *Watcher) Run(ctx context.Context) error {
	t := time.NewTicker(readInterval)
	defer t.Stop()
	for {
		if known, err := s.book.All(ctx); err == nil {
			s.last.Store(&known)
			s.logChanges(known)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-t.C:
		}
	}
}

// logChanges logs the kinds of request whose phase has changed since the last call; the first call logs nothing.
func (s *Watcher) logChanges(known []evidence.KeyState) {
	views := s.viewer().Views(known)
	written := 0
	for _, c := range phaseChanges(s.logViews, views) {
		if !s.config(c.view.Route).Mode.Audited() {
			continue
		}
		if written++; written <= maxPhaseLines {
			c.write(s.log)
		}
	}
	if more := written - maxPhaseLines; more > 0 {
		s.log.Info().Int("kinds", more).Msg("more kinds of request changed their phase; foregate risk show tells of all")
	}
	s.logViews = views
}

// viewer returns this replica's viewer.
func (s *Watcher) viewer() Viewer {
	l := Viewer{Config: s.config, Now: s.now()}
	if p := s.counted.Load(); p != nil {
		l.Rates = *p
	}
	return l
}

// States returns all states, at most ten seconds old (evidence.NewCollector).
func (s *Watcher) States() []evidence.KeyState {
	if known := s.last.Load(); known != nil {
		return *known
	}
	return nil
}

// Views returns all current states (gateway.Options.Risk). The rate of audits is measured once a minute; it
// is unknown if the log cannot be read.
func (s *Watcher) Views(ctx context.Context) ([]gateway.RiskView, error) {
	known, err := s.book.All(ctx)
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if now := s.now(); now.Sub(s.counts) >= rateInterval {
		if p, err := RatesOf(ctx, s.book, known, now); err == nil {
			s.counts = now
			s.counted.Store(&p)
		}
	}
	return s.viewer().Views(known), nil
}

// Guarantees summarizes the states, at most ten seconds old, one line per route (gateway.Status).
func (s *Watcher) Guarantees() []gateway.RiskSummary {
	known := s.States()
	return guaranteesOf(known, s.viewer().Views(known))
}

// Phases returns the phases of all states (evidence.NewCollector).
func (s *Watcher) Phases(known []evidence.KeyState) map[risk.Key]string {
	of, l := make(map[risk.Key]string, len(known)), s.viewer()
	for i := range known {
		k := &known[i]
		of[k.Key] = string(l.phase(k))
	}
	return of
}

// phaseChange is a kind of request in a new phase.
type phaseChange struct {
	view *gateway.RiskView
	was  gateway.RiskState // "": it is new
}

// bad reports whether drafts that were served no longer are, or never will be.
func (c phaseChange) bad() bool {
	return c.was == gateway.RiskCertified || c.view.State == gateway.RiskStopped || c.view.State == gateway.RiskInfeasible
}

func (c phaseChange) write(log zerolog.Logger) {
	e, v := log.Info(), c.view
	if c.bad() {
		e = log.Warn()
	}
	e.Str("route", v.Route).Str("traffic_class", v.TrafficClass).Str("was", string(c.was)).Str("phase", string(v.State)).
		Int("audits", v.Audits).Int("bad", v.Bad).Msg("the guarantee of a kind of request has another phase")
}

// phaseChanges returns the kinds of request whose phase has changed. Placing the thresholds is not reported.
func phaseChanges(was, is []gateway.RiskView) []phaseChange {
	before := make(map[risk.Key]gateway.RiskState, len(was))
	for i := range was {
		before[keyOfView(&was[i])] = was[i].State
	}
	var changes []phaseChange
	for i := range is {
		v := &is[i]
		old := before[keyOfView(v)]
		if old == v.State || waits(old) && waits(v.State) {
			continue
		}
		changes = append(changes, phaseChange{v, old})
	}
	return changes
}

// waits reports whether a kind in this phase serves nothing for lack of evidence, as a new one does.
func waits(phase gateway.RiskState) bool {
	return phase == "" || phase == gateway.RiskLearning || phase == gateway.RiskUncertified
}

func keyOfView(v *gateway.RiskView) risk.Key {
	return risk.Key{Route: v.Route, TrafficClass: v.TrafficClass}
}
