package refit

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"

	"github.com/foregate/foregate/tiers/accept"
	"github.com/foregate/foregate/tiers/risk"
)

const (
	// interval is the time between two rounds. Audits come a few a minute.
	interval = 30 * time.Second
	// roundTime bounds a round.
	roundTime = 45 * time.Second
)

// Book is what replicas share. *evidence.Store implements it.
type Book interface {
	Audits(ctx context.Context, route string) ([]risk.LogEntry, error)
	All(ctx context.Context) ([]risk.KeyState, error)
	Refit(route string) string // as All has read it
	WriteRefit(ctx context.Context, route, was, next string) (bool, error)
	Certify(ctx context.Context, k risk.Key, p risk.Import) (bool, error)
}

// Options configure a [Refitter]. Book and Rules are required.
type Options struct {
	Book       Book
	Rules      func() map[string]risk.Rule // of the routes where refits are on, and drafts are audited: live
	Logger     zerolog.Logger
	Registerer prometheus.Registerer         // nil registers nothing
	Mine       func(what, route string) bool // this replica works on a route; two that do are harmless: the older record wins; nil: on all
}

// Refitter refits the scores of routes in the background, one replica at a time. Its methods are safe for concurrent use.
type Refitter struct {
	Options
	counted *prometheus.CounterVec // refits, by outcome
	round   sync.Mutex             // one round at a time

	mu    sync.Mutex
	known map[string]Progress // by route, as this replica read it last
}

// New returns a refitter, which the caller runs.
func New(o Options) *Refitter {
	if o.Mine == nil {
		o.Mine = func(string, string) bool { return true }
	}
	return &Refitter{Options: o, counted: newRefits(o.Registerer)}
}

// Run refits until ctx ends.
func (r *Refitter) Run(ctx context.Context) error {
	t := time.NewTicker(interval)
	defer t.Stop()
	for {
		r.Round(ctx) // at once: it reads which score is in force
		select {
		case <-ctx.Done():
			return nil
		case <-t.C:
		}
	}
}

// Round makes one decision for each route, if no other replica does, before its deadline.
func (r *Refitter) Round(ctx context.Context) {
	r.round.Lock()
	defer r.round.Unlock()
	ctx, cancel := context.WithTimeout(ctx, roundTime)
	defer cancel()
	states, err := r.Book.All(ctx)
	if err != nil {
		return // the evidence counts it; what was known stays
	}
	known, records := map[string]Progress{}, map[string]string{}
	rules := r.Rules()
	for route := range rules {
		records[route] = r.Book.Refit(route)
		known[route], _ = Parse(records[route]) // an error is told below, by the replica that works on it
	}
	r.mu.Lock()
	r.known = known
	r.mu.Unlock()
	for route, record := range records {
		if r.Mine("refits", route) {
			p := r.work(ctx, route, record, Input{Rule: rules[route], States: slices.DeleteFunc(slices.Clone(states), func(k risk.KeyState) bool { return k.Key.Route != route })})
			r.mu.Lock()
			known[route] = p
			r.mu.Unlock()
		}
	}
}

// Progress returns what this replica knows of a route, at most half a minute old; nothing while refits are off.
func (r *Refitter) Progress(route string) Progress {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.known[route]
}

// Collects reports whether a candidate of the route collects evidence, so that its audits must have no floor.
func (r *Refitter) Collects(route string) bool { return r.Progress(route).Candidate.Version != 0 }

// Score returns the fitted score in force of a route, as this replica read it last, or nil: the plain score is in force, or
// refits are off. It is not changed.
func (r *Refitter) Score(route string) *accept.ScoreMap {
	p := r.Progress(route)
	if p.Live.Version == 0 {
		return nil // most routes have none, and each request asks
	}
	live := p.Live
	return &live
}

// work decides about one route, and returns its progress then.
func (r *Refitter) work(ctx context.Context, route, record string, in Input) Progress {
	p, err := Parse(record)
	if err != nil {
		r.note(route, outcomeForeign, err)
	}
	in.Progress = p
	if in.Log, err = r.Book.Audits(ctx, route); err != nil {
		return p
	}
	step := Next(in)
	next, outcome, err := r.carryOut(ctx, in.Rule, step)
	if encoded := next.Encode(); encoded != record {
		if done, err := r.Book.WriteRefit(ctx, route, record, encoded); err != nil || !done {
			return p // it is tried again
		}
	}
	if outcome != "" {
		r.note(route, outcome, err)
	}
	return next
}

// carryOut does what a step says. It returns the progress then, and the outcome if there is one to tell.
func (r *Refitter) carryOut(ctx context.Context, rule risk.Rule, s Step) (Progress, string, error) {
	switch s.Do {
	case Wait:
		return s.Progress, "", nil
	case Promote:
		return r.promote(ctx, rule, s)
	case DropDrift, DropUncertain:
		return s.Progress, string(s.Do), nil
	}
	f, err := FitScore(s.Samples)
	switch {
	case err != nil:
		return s.withFit(), outcomeFailed, err
	case !IsBetter(&f):
		return s.withFit(), outcomeNoGain, nil
	}
	return s.withCandidate(&f), outcomeFitted, nil
}

// errOtherEvidence means that the candidate's keys do not serve what was decided: something else was written there.
var errOtherEvidence = errors.New("refit: the evidence of the candidate is not what was decided by")

// promote opens the candidate's keys, and puts it in force once they are certified: replicas judge by it from the moment on
// at which they read the record. A replica that dies in between leaves keys that are open; the next one finds them so and
// goes on.
func (r *Refitter) promote(ctx context.Context, rule risk.Rule, s Step) (Progress, string, error) {
	p := s.Progress
	for _, o := range s.Openings {
		if _, err := r.Book.Certify(ctx, o.Key, o.Import); err != nil {
			return p, outcomeFailed, err
		}
	}
	states, err := r.Book.All(ctx)
	if err != nil {
		return p, outcomeFailed, err
	}
	for _, o := range s.Openings {
		i := slices.IndexFunc(states, func(k risk.KeyState) bool { return k.Key == o.Key })
		if i < 0 || !states[i].State.View(rule.For(o.Key.TrafficClass)).Serves() {
			return p.withoutCandidate(), outcomeFailed, errOtherEvidence
		}
	}
	return p.withPromotion(time.Now().UTC().Truncate(time.Second)), outcomePromoted, nil
}

// note counts and logs an outcome.
func (r *Refitter) note(route, outcome string, err error) {
	r.counted.WithLabelValues(route, outcome).Inc()
	e := r.Logger.Info()
	if err != nil {
		e = r.Logger.Warn().Err(err)
	}
	e.Str("route", route).Str("outcome", outcome).Int("candidate", r.Progress(route).Candidate.Version).Msg(says[outcome])
}
