package main

import (
	"context"
	"math"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/foregate/foregate/gateway"
	"github.com/foregate/foregate/tiers/evidence"
	"github.com/foregate/foregate/tiers/risk"
)

const (
	// paceOver is the time over which audits are counted to say how fast they come.
	paceOver = time.Hour
	// paceEvery is how long a replica goes by a count: it reads the whole log for it.
	paceEvery = time.Minute
	// statesEvery is between two readings of all states for the metrics.
	statesEvery = 10 * time.Second
	// wholePrefix begins the bucket of all requests to a route, and ownLot is the lot in which
	// others go by its threshold (tiers.KindOf).
	wholePrefix, ownLot = "all.", "conf"
)

// riskViews are states as operators see them, in their order. inherits says whether a route's kinds
// of request may go by the threshold of the whole route.
func riskViews(known []evidence.Known, inherits func(route string) bool, p paces) []gateway.RiskView {
	views := make([]gateway.RiskView, len(known))
	for i := range known {
		views[i] = riskView(&known[i], p)
	}
	for _, i := range heirs(known, inherits) {
		views[i].State, views[i].Seconds = gateway.RiskInherits, nil
	}
	return views
}

func riskView(k *evidence.Known, p paces) gateway.RiskView {
	s := k.State.Summarise(k.Rule)
	v := gateway.RiskView{
		Route: k.Key.Route, Bucket: k.Key.Bucket, Lot: k.Key.Lot, State: gateway.RiskUncertified,
		Eps: k.Rule.Eps, Delta: k.Rule.Delta, Op: s.Op, Acceptance: s.Acceptance,
		Audits: s.Audits, Bad: s.Bad, Pending: s.Pending, Estimate: s.Estimate, Low: s.Low, High: s.High, Bound: s.Bound,
		Drift: s.Drift, Warned: s.Warned, Alarms: k.State.Alarm,
	}
	if !math.IsInf(s.ToCertify, 0) {
		v.ToCertify = &s.ToCertify
	}
	if pace, ok := p[k.Key]; ok {
		v.PerMinute = &pace
	}
	switch {
	case s.Op > 0:
		v.State, v.Threshold = gateway.RiskCertified, &s.Threshold
		v.Bound = min(v.Bound, v.Eps) // a certificate stays a proof while audits go on
	case s.Infeasible:
		v.State = gateway.RiskInfeasible
	case k.State.Version == 0:
		v.State, v.Learned, v.Learning = gateway.RiskLearning, s.Learned, risk.GridScores
	case v.ToCertify != nil && v.PerMinute != nil:
		seconds := 60 * *v.ToCertify / *v.PerMinute
		v.Seconds = &seconds
	}
	return v
}

// heirs are the states without a certified threshold whose requests go by that of their whole
// route: the same models and rules, all lengths.
func heirs(known []evidence.Known, inherits func(route string) bool) []int {
	serving := map[risk.Key]bool{}
	for i := range known {
		k := &known[i]
		if strings.HasPrefix(k.Key.Bucket, wholePrefix) {
			serving[k.Key] = k.State.View(k.Rule).Serves()
		}
	}
	var found []int
	for i := range known {
		k := &known[i]
		_, rules, _ := strings.Cut(k.Key.Bucket, ".")
		whole := risk.Key{Route: k.Key.Route, Bucket: wholePrefix + rules, Lot: ownLot}
		if k.Key.Lot == ownLot && k.Key != whole && serving[whole] && inherits(k.Key.Route) && !k.State.View(k.Rule).Serves() {
			found = append(found, i)
		}
	}
	return found
}

// paces are how many audits a minute came of late that count for a key's next threshold, at all
// replicas. A key of which fewer than two came has none.
type paces map[risk.Key]float64

// pacesOf counts in the log.
func pacesOf(ctx context.Context, book *evidence.Book, known []evidence.Known, now time.Time) (paces, error) {
	type count struct {
		version int64
		next    float64 // threshold
		n       int
		first   time.Time
	}
	counts := map[risk.Key]*count{}
	for i := range known {
		k := &known[i]
		if k.State.Version != 0 {
			counts[k.Key] = &count{version: k.State.Version, next: k.State.Grid.At(k.State.View(k.Rule).Op + 1)}
		}
	}
	err := book.Log(ctx, func(e evidence.LogEntry) error {
		c := counts[e.Key]
		if c == nil || e.Version != c.version || e.Score < c.next || now.Sub(e.When) > paceOver {
			return nil
		}
		if c.n == 0 {
			c.first = e.When
		}
		c.n++
		return nil
	})
	if err != nil {
		return nil, err
	}
	p := paces{}
	for k, c := range counts {
		if c.n > 1 {
			p[k] = float64(c.n) / max(now.Sub(c.first).Minutes(), 1)
		}
	}
	return p, nil
}

// riskSource tells what is known of audits, for a replica that goes on running.
type riskSource struct {
	book     *evidence.Book
	inherits func(route string) bool // live
	now      func() time.Time

	last atomic.Pointer[[]evidence.Known]

	mu      sync.Mutex // of one count at a time
	counted time.Time
	paces   paces
}

// Run reads all states every ten seconds, until ctx ends, for those who must not wait. While they
// cannot be read the last ones stay.
func (s *riskSource) Run(ctx context.Context) error {
	t := time.NewTicker(statesEvery)
	defer t.Stop()
	for {
		if known, err := s.book.All(ctx); err == nil {
			s.last.Store(&known)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-t.C:
		}
	}
}

// states are all states as they were ten seconds ago at most (evidence.NewCollector).
func (s *riskSource) states() []evidence.Known {
	if known := s.last.Load(); known != nil {
		return *known
	}
	return nil
}

// views are all states as they are (gateway.Options.Risk). How fast audits come is counted once a
// minute; it stays unknown where the log cannot be read.
func (s *riskSource) views(ctx context.Context) ([]gateway.RiskView, error) {
	known, err := s.book.All(ctx)
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if now := s.now(); now.Sub(s.counted) >= paceEvery {
		if s.paces, err = pacesOf(ctx, s.book, known, now); err == nil {
			s.counted = now
		}
	}
	return riskViews(known, s.inherits, s.paces), nil
}

// promises are the states of ten seconds ago at most, a line for each route (gateway.Status).
func (s *riskSource) promises() []gateway.PromiseView {
	return gateway.Promises(riskViews(s.states(), s.inherits, nil))
}

// inherited counts the kinds of request of each route that go by the threshold of the whole route
// (evidence.NewCollector).
func (s *riskSource) inherited(known []evidence.Known) map[string]int {
	of := map[string]int{}
	for i := range known {
		of[known[i].Key.Route] += 0
	}
	for _, i := range heirs(known, s.inherits) {
		of[known[i].Key.Route]++
	}
	return of
}

// routesOf are the routes of states, sorted.
func routesOf(known []evidence.Known) []string {
	var routes []string
	for i := range known {
		routes = append(routes, known[i].Key.Route)
	}
	slices.Sort(routes)
	return slices.Compact(routes)
}
