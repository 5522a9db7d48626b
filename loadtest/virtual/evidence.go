package virtual

import (
	"context"
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
	version := e.lab.values.Tiers.Risk.ScoreVersion
	if k != plan.ScoredBy(k, version) {
		return
	}
	v, now := e.state(k).View(e.rule()), e.lab.clock.Elapsed()
	k = plan.ScoredBy(k, 0)
	if _, ok := e.first[k]; v.Serves() && !ok {
		e.first[k] = now
	}
	for i := len(e.changes) - 1; i >= 0; i-- {
		if c := &e.changes[i]; c.bucket == k.TrafficClass {
			if c.serves == v.Serves() && c.threshold == v.Threshold && c.version == version {
				return
			}
			break
		}
	}
	e.changes = append(e.changes, change{now, k.TrafficClass, version, v.Threshold, v.Serves()})
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
	switch r := &s.lab.values.Tiers.Risk; {
	case s.lab.redisAway && (!ok || age > r.MaxStaleness && !r.ServeStale):
		return risk.View{}
	case s.lab.redisAway || ok && age < viewEvery:
		return v
	}
	return s.look(k)
}

// look takes the view of this moment.
func (s evidenceView) look(k risk.Key) risk.View {
	v := s.state(k).View(s.rule())
	v.Seen = s.lab.clock.Now()
	s.seen[k] = v
	return v
}

// Open implements [audit.Evidence].
func (s evidenceView) Open(_ context.Context, b audit.PendingAudit) (risk.OpenResult, error) {
	if s.lab.redisAway {
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
	if s.lab.redisAway {
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
	if s.lab.redisAway {
		return
	}
	s.state(k).Drafted(s.rule(), made, served, s.lab.clock.Now())
}

// Close implements [audit.Evidence].
func (s evidenceView) Close(_ context.Context, k risk.Key, ticket string, result risk.AuditResult) error {
	if s.lab.redisAway {
		return store.ErrAway
	}
	if s.state(k).Close(s.rule(), ticket, result.Bad) {
		s.closed++
		s.log.closed(ticket, result.Bad)
	}
	s.note(k)
	s.look(k)
	return nil
}
