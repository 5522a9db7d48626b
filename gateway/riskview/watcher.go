package riskview

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rs/zerolog"

	"github.com/foregate/foregate/gateway"
	"github.com/foregate/foregate/gateway/display"
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
	Routes   func() []string                 // whose phases are logged at the start
	Logger   zerolog.Logger
	// Economics returns what the requests of a key are like; nil: unknown.
	Economics func(k risk.Key) Economics
	Now       func() time.Time // nil is time.Now
}

// Watcher keeps the state of the evidence in memory, and logs changes, while a replica runs.
type Watcher struct {
	book   *evidence.Store
	config func(route string) *plan.Config // live
	routes func() []string                 // whose phases are logged at the start
	log    zerolog.Logger
	now    func() time.Time

	economics func(k risk.Key) Economics // nil: unknown

	last    atomic.Pointer[[]evidence.KeyState]
	counted atomic.Pointer[Rates] // nil before the first request for views

	mu       sync.Mutex         // one measurement at a time
	counts   time.Time          // time of the last measurement
	logged   bool               // Run only: the initial phases were logged
	logViews []gateway.RiskView // Run only: the last logged views

	frontierMu  sync.Mutex             // one computation at a time
	frontiers   *gateway.RiskFrontiers // the last ones
	frontiersAt time.Time
}

// New makes a Watcher. The caller runs it.
func New(o Options) *Watcher {
	s := &Watcher{book: o.Evidence, config: o.Config, routes: o.Routes, log: o.Logger, now: o.Now, economics: o.Economics}
	if s.now == nil {
		s.now = time.Now
	}
	return s
}

// Run reads all states every ten seconds, until ctx ends, for readers that must not wait, and logs the phases
// of routes: on each replica. If states cannot be read, the last ones remain.
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

// logChanges logs the phases at the start, and later their changes.
func (s *Watcher) logChanges(known []evidence.KeyState) {
	views := s.viewer().Views(known)
	var lines []phaseLine
	if s.logged {
		lines = phaseChanges(s.logViews, views)
	} else {
		for _, route := range s.routes() {
			lines = append(lines, phaseAtStart(route, s.config(route), mainOf(route, known, views)))
		}
	}
	s.logged, s.logViews = true, views
	written := 0
	for _, l := range lines {
		if !s.config(l.route).Mode.Audited() {
			continue
		}
		if written++; written <= maxPhaseLines {
			l.write(s.log)
		}
	}
	if more := written - maxPhaseLines; more > 0 {
		s.log.Info().Int("kinds", more).Msg("more kinds of request changed their phase; foregate risk show tells of all")
	}
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

// phaseLine is one log line about a kind of request, or a route.
type phaseLine struct {
	route, trafficClass string
	was, phase          gateway.RiskState
	warn                bool
	text                string
}

func (l *phaseLine) write(log zerolog.Logger) {
	e := log.Info()
	if l.warn {
		e = log.Warn()
	}
	e = e.Str("route", l.route)
	if l.trafficClass != "" {
		e = e.Str("traffic_class", l.trafficClass)
	}
	if l.was != "" {
		e = e.Str("was", string(l.was))
	}
	e.Str("phase", string(l.phase)).Msg(l.text)
}

// phaseAtStart describes the phase of a route by its main kind of request, nil if no request was drafted yet.
func phaseAtStart(route string, c *plan.Config, main *gateway.RiskView) phaseLine {
	if main != nil {
		return lineOfPhase(main, "")
	}
	l := phaseLine{route: route, phase: gateway.RiskWarmup}
	switch {
	case c.Mode == plan.ModeShadow:
		l.text = "no request was drafted yet; mode shadow: drafts are made and audited, and none is served"
	case !c.Risk.Warmup:
		l.text = "no request was drafted yet; risk.warmup is shadow: no draft is served before a threshold is certified"
	default:
		l.text = fmt.Sprintf("no request was drafted yet; the warm-up begins with the first and lasts %s at most: drafts above a cautious threshold are served, "+
			"marked phase=warmup, before a threshold is certified", display.Duration(c.Risk.WarmupDuration.Seconds()))
	}
	return l
}

func lineOfPhase(v *gateway.RiskView, was gateway.RiskState) phaseLine {
	lost := was == gateway.RiskCertified
	l := phaseLine{route: v.Route, trafficClass: v.TrafficClass, was: was, phase: v.State, text: v.Summary}
	l.warn = lost || v.State == gateway.RiskStopped || v.State == gateway.RiskInfeasible
	if lost {
		l.text = "the certificate is lost: " + l.text
	}
	return l
}

// phaseChanges returns log lines about kinds of request whose phase has changed. Placing the thresholds is
// not reported.
func phaseChanges(was, is []gateway.RiskView) []phaseLine {
	before := make(map[risk.Key]gateway.RiskState, len(was))
	for i := range was {
		before[keyOfView(&was[i])] = was[i].State
	}
	var lines []phaseLine
	for i := range is {
		v := &is[i]
		old := before[keyOfView(v)]
		if old == v.State || waits(old) && waits(v.State) {
			continue
		}
		lines = append(lines, lineOfPhase(v, old))
	}
	return lines
}

// waits reports whether a kind in this phase serves nothing for lack of evidence, as a new one does.
func waits(phase gateway.RiskState) bool {
	return phase == "" || phase == gateway.RiskLearning || phase == gateway.RiskUncertified
}

func keyOfView(v *gateway.RiskView) risk.Key {
	return risk.Key{Route: v.Route, TrafficClass: v.TrafficClass}
}
