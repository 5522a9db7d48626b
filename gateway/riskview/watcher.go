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
	// statesEvery is between two readings of all states for the metrics and the log.
	readInterval = 10 * time.Second
	// maxPhaseLines is how many changes of phases are logged at once.
	maxPhaseLines = 16
)

// Options are what a Watcher is made from.
type Options struct {
	Evidence *evidence.Store
	Config   func(route string) *plan.Config // live
	Routes   []string                        // whose phases are logged
	Logger   zerolog.Logger
	Now      func() time.Time // nil is time.Now
}

// Watcher keeps what is known of audits ready, and logs what changes, while a replica runs.
type Watcher struct {
	book   *evidence.Store
	config func(route string) *plan.Config // live
	routes []string                        // whose phases are logged
	log    zerolog.Logger
	now    func() time.Time

	last    atomic.Pointer[[]evidence.Known]
	counted atomic.Pointer[Rates] // nil before somebody asked for views

	mu       sync.Mutex         // of one count at a time
	counts   time.Time          // when they were made last
	logged   bool               // Run alone: the phases at the start
	logViews []gateway.RiskView // Run alone: as they were logged last
}

// New makes a Watcher. Its Run belongs to the caller.
func New(o Options) *Watcher {
	s := &Watcher{book: o.Evidence, config: o.Config, routes: o.Routes, log: o.Logger, now: o.Now}
	if s.now == nil {
		s.now = time.Now
	}
	return s
}

// Run reads all states every ten seconds, until ctx ends, for those who must not wait, and logs in which phase routes
// are: each replica does. While states cannot be read the last ones stay.
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

// logChanges logs the phases at the start, and what changed since.
func (s *Watcher) logChanges(known []evidence.Known) {
	views := s.viewer().Views(known)
	var lines []phaseLine
	if s.logged {
		lines = phaseChanges(s.logViews, views)
	} else {
		for _, route := range s.routes {
			lines = append(lines, phaseAtStart(route, s.config(route), mainOf(route, known, views)))
		}
	}
	s.logged, s.logViews = true, views
	told := 0
	for _, l := range lines {
		if !s.config(l.route).Mode.Audited() {
			continue
		}
		if told++; told <= maxPhaseLines {
			l.write(s.log)
		}
	}
	if more := told - maxPhaseLines; more > 0 {
		s.log.Info().Int("kinds", more).Msg("more kinds of request changed their phase; foregate risk show tells of all")
	}
}

// viewer is what this replica looks at states through.
func (s *Watcher) viewer() Viewer {
	l := Viewer{Config: s.config, Now: s.now()}
	if p := s.counted.Load(); p != nil {
		l.Rates = *p
	}
	return l
}

// States are all states as they were ten seconds ago at most (evidence.NewCollector).
func (s *Watcher) States() []evidence.Known {
	if known := s.last.Load(); known != nil {
		return *known
	}
	return nil
}

// Views are all states as they are (gateway.Options.Risk). How fast audits come is counted once a
// minute; it stays unknown where the log cannot be read.
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

// Promises are the states of ten seconds ago at most, a line for each route (gateway.Status).
func (s *Watcher) Promises() []gateway.RiskSummary {
	known := s.States()
	return promisesOf(known, s.viewer().Views(known))
}

// Inherited counts the kinds of request of each route that go by the threshold of the whole route
// (evidence.NewCollector).
func (s *Watcher) Inherited(known []evidence.Known) map[string]int {
	of := map[string]int{}
	for i := range known {
		of[known[i].Key.Route] += 0
	}
	for k := range inheriting(known, s.config) {
		of[k.Route]++
	}
	return of
}

// Phases are those of all states (evidence.NewCollector).
func (s *Watcher) Phases(known []evidence.Known) map[risk.Key]string {
	of, inherits, l := make(map[risk.Key]string, len(known)), inheriting(known, s.config), s.viewer()
	for i := range known {
		k := &known[i]
		of[k.Key] = string(l.phase(k, inherits[k.Key]))
	}
	return of
}

// phaseLine is one line of the log about a kind of request, or a route.
type phaseLine struct {
	route, trafficClass, cohort string
	was, phase                  gateway.RiskState
	warn                        bool
	text                        string
}

func (l *phaseLine) write(log zerolog.Logger) {
	e := log.Info()
	if l.warn {
		e = log.Warn()
	}
	e = e.Str("route", l.route)
	if l.trafficClass != "" {
		e = e.Str("traffic_class", l.trafficClass).Str("cohort", l.cohort)
	}
	if l.was != "" {
		e = e.Str("was", string(l.was))
	}
	e.Str("phase", string(l.phase)).Msg(l.text)
}

// phaseAtStart tells in which phase a route is by its main kind of request, nil where no request of it was drafted yet.
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
	lost := was == gateway.RiskCertified && v.State != gateway.RiskInherits
	l := phaseLine{route: v.Route, trafficClass: v.TrafficClass, cohort: v.Cohort, was: was, phase: v.State, text: v.Says}
	l.warn = lost || v.State == gateway.RiskStopped || v.State == gateway.RiskInfeasible
	if lost {
		l.text = "the certificate is lost: " + l.text
	}
	return l
}

// phaseChanges are the lines about kinds of request whose phase is another one than it was. That the thresholds of one were
// placed is none.
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

// waits reports whether a kind in this phase serves nothing because too little is known; a new one does.
func waits(phase gateway.RiskState) bool {
	return phase == "" || phase == gateway.RiskLearning || phase == gateway.RiskUncertified
}

func keyOfView(v *gateway.RiskView) risk.Key {
	return risk.Key{Route: v.Route, TrafficClass: v.TrafficClass, Cohort: v.Cohort}
}
