package virtual

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"time"

	"github.com/foregate/foregate/tiers/audit"
	store "github.com/foregate/foregate/tiers/evidence"
	"github.com/foregate/foregate/tiers/plan"
	"github.com/foregate/foregate/tiers/risk"
)

// viewEvery is how old a view may be that a replica goes by.
const viewEvery = time.Second

// evidence is what audits have shown of every kind of request: what the gateway's replicas keep
// in Redis, without the way there.
type evidence struct {
	lab     *lab
	states  map[risk.Key]*risk.State
	changes []change
	first   map[risk.Key]time.Duration // when a kind first had a certificate

	booked, closed int
	log            auditLog
	unsynced       []func()  // counts of warm-ups that Redis was not told of
	since          time.Time // of the oldest of these
}

// change is a threshold that came into force.
type change struct {
	at        time.Duration
	bucket    string // of the plain score
	version   int    // of the score
	threshold float64
	serves    bool
}

func newEvidence(l *lab) *evidence {
	return &evidence{lab: l, states: map[risk.Key]*risk.State{}, first: map[risk.Key]time.Duration{}}
}

func (e *evidence) rule() risk.Rule { return e.lab.values.Tiers.Risk.Rule }

func (e *evidence) state(k risk.Key) *risk.State {
	s := e.states[k]
	if s == nil {
		s = &risk.State{}
		e.states[k] = s
	}
	return s
}

// note takes down which threshold is in force. Of a score that does not judge drafts none is.
func (e *evidence) note(k risk.Key) {
	cfg := &e.lab.values.Tiers
	version := cfg.Risk.ScoreVersion
	if !cfg.Mode.Audited() || k != plan.ScoredBy(k, version) {
		return
	}
	v, now := e.state(k).View(e.rule()), e.lab.clock.Elapsed()
	k = plan.ScoredBy(k, 0)
	if _, ok := e.first[k]; v.Serves() && !ok {
		e.first[k] = now
	}
	e.add(change{now, k.TrafficClass, version, v.Threshold, v.Serves()})
}

// noteSettings takes down the thresholds of settings that come into force.
func (e *evidence) noteSettings() {
	cfg := &e.lab.values.Tiers
	if cfg.Mode.Audited() {
		for _, k := range slices.SortedFunc(maps.Keys(e.states), func(a, b risk.Key) int { return cmp.Compare(a.String(), b.String()) }) {
			e.note(k)
		}
		return
	}
	if e.lab.sample == nil {
		return
	}
	for _, bucket := range e.lab.sample.buckets() {
		e.add(change{e.lab.clock.Elapsed(), bucket, 0, float64(cfg.Accept.Threshold), cfg.Mode == plan.ModeConfidence})
	}
}

// add adds a change, unless it is none.
func (e *evidence) add(next change) {
	for i := len(e.changes) - 1; i >= 0; i-- {
		if c := &e.changes[i]; c.bucket == next.bucket {
			if c.serves == next.serves && c.threshold == next.threshold && c.version == next.version {
				return
			}
			break
		}
	}
	e.changes = append(e.changes, next)
}

// evidenceView are the evidence as a replica saw it last. It implements [audit.Evidence].
type evidenceView struct {
	*evidence
	seen map[risk.Key]risk.View
}

var _ audit.Evidence = evidenceView{}

// View implements [audit.Evidence].
func (s evidenceView) View(k risk.Key) risk.View {
	v, ok := s.seen[k]
	age := s.lab.clock.Now().Sub(v.Seen)
	switch {
	case s.lab.redis.Away():
		return s.old(k, v.Seen)
	case ok && age < viewEvery:
		return v
	}
	return s.look(k)
}

// old is a view that cannot be refreshed, of what Redis had at a time; zero: it was never read.
func (s evidenceView) old(k risk.Key, seen time.Time) (v risk.View) {
	r := &s.lab.values.Tiers.Risk
	now := s.lab.clock.Now()
	switch state := s.state(k); { // nobody changes it meanwhile
	case seen.IsZero():
		v = new(risk.State).View(r.Rule)
	case now.Sub(seen) > r.MaxStaleness:
		v = state.StaleView(r.Rule)
	default:
		v = state.View(r.Rule)
	}
	if v.Seen = seen; len(s.unsynced) > 0 && now.Sub(s.since) > store.MaxUnsynced {
		v.Seen = time.Time{}
	}
	return v
}

// look takes the view of this moment.
func (s evidenceView) look(k risk.Key) risk.View {
	v := s.state(k).View(s.rule())
	v.Seen = s.lab.clock.Now()
	s.seen[k] = v
	return v
}

// Open implements [audit.Evidence].
func (s evidenceView) Open(_ context.Context, b risk.Audit) (risk.OpenResult, error) {
	if s.lab.redis.Away() {
		return "", store.ErrAway
	}
	fate := s.state(b.Key).Open(s.rule(), b.Decision, b.Score, b.Ticket, s.lab.clock.Now())
	s.note(b.Key)
	s.look(b.Key)
	if fate == risk.Opened {
		s.log.opened(b, s.lab.clock.Now())
	}
	return s.counted(fate), nil
}

// OpenWarmup implements [audit.Evidence].
func (s evidenceView) OpenWarmup(_ context.Context, k risk.Key, ticket string) (risk.OpenResult, error) {
	if s.lab.redis.Away() {
		return "", store.ErrAway
	}
	fate := s.state(k).OpenWarmup(s.rule(), ticket, s.lab.clock.Now())
	s.look(k)
	return s.counted(fate), nil
}

func (s evidenceView) counted(fate risk.OpenResult) risk.OpenResult {
	if fate == risk.Opened {
		s.booked++
	}
	return fate
}

// Drafted implements [audit.Evidence].
func (s evidenceView) Drafted(k risk.Key, made, served int) {
	count := func() { s.state(k).Drafted(s.rule(), made, served, s.lab.clock.Now()) }
	if !s.lab.redis.Away() {
		count()
		return
	}
	if len(s.unsynced) == 0 {
		s.since = s.lab.clock.Now()
	}
	s.unsynced = append(s.unsynced, count)
}

// tellDrafted tells Redis of the counts that it was not told of.
func (e *evidence) tellDrafted() {
	if e.lab.redis.Away() {
		return
	}
	for _, count := range e.unsynced {
		count()
	}
	e.unsynced = nil
}

// Close implements [audit.Evidence].
func (s evidenceView) Close(_ context.Context, k risk.Key, ticket string, bad bool) error {
	if s.lab.redis.Away() {
		return store.ErrAway
	}
	if s.state(k).Close(s.rule(), ticket, bad) {
		s.closed++
		s.log.closed(ticket, bad)
	}
	s.note(k)
	s.look(k)
	return nil
}
