package audit

import (
	"math"
	"sync"
	"time"

	"github.com/foregate/foregate/tiers/risk"
)

const (
	// maxClasses and maxTenants bound the traffic classes, and the tenants of all of them that are told apart. With more,
	// all are learned anew: rates within a minute, the rest within an hour.
	maxClasses, maxTenants = 1024, 4096
	// freeAudits is how many audits a minute a tenant may have in a traffic class whatever the others have. Beyond that it
	// has half of the class' audits at most, so that neither hard nor easy traffic of one tenant decides for all.
	freeAudits = 2
	// apartFor is how long a tenant has evidence of its own after its drafts were refuted.
	apartFor = time.Hour
)

// class is what is known of one evidence key: its requests, its audits, and whose they are.
type class struct {
	requests, audits perMinute
	workload         workload
	mix, shadow      mix                // in mode risk, and in mode shadow
	tenants          map[string]*tenant // that had an audit, by id
}

// tenant is one tenant of a class.
type tenant struct {
	audits perMinute
	n, bad int       // audits with an outcome, of drafts that were served or are among the best third
	apart  time.Time // until when it has evidence of its own
}

// Classes is what this replica knows of traffic classes. The zero value is ready. It is safe for concurrent use.
type Classes struct {
	mu      sync.Mutex
	all     map[risk.Key]*class
	tenants int // of all
}

// of returns a class. The caller holds mu.
func (cs *Classes) of(k risk.Key) *class {
	c := cs.all[k]
	if c == nil {
		if cs.all == nil || len(cs.all) >= maxClasses || cs.tenants >= maxTenants {
			cs.all, cs.tenants = map[risk.Key]*class{}, 0
		}
		c = &class{tenants: map[string]*tenant{}}
		cs.all[k] = c
	}
	return c
}

// addRequest counts a request and returns the class's requests per minute.
func (cs *Classes) addRequest(k risk.Key, now time.Time) float64 {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	c := cs.of(k)
	c.requests = c.requests.add(now)
	return c.requests.count
}

// AddAnswer counts a whole answer, whoever gave it. judged says that a draft was judged.
func (cs *Classes) AddAnswer(k risk.Key, t Tally, judged bool, now time.Time) {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	cs.of(k).workload.add(t, judged, now)
}

// Workload returns what the requests of a class are like.
func (cs *Classes) Workload(k risk.Key, now time.Time) Workload {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	return cs.of(k).workload.view(now)
}

// MayAudit reports whether the tenant's share of the audits of its class leaves room for one more.
func (cs *Classes) MayAudit(k risk.Key, id string, now time.Time) bool {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	c := cs.of(k)
	t := c.tenants[id]
	return t == nil || len(c.tenants) == 1 || t.audits.at(now) < freeAudits+c.audits.at(now)/2
}

// AddAudit counts an audit that was drawn.
func (cs *Classes) AddAudit(k risk.Key, id string, now time.Time) {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	c := cs.of(k)
	t := c.tenants[id]
	if t == nil {
		if cs.tenants >= maxTenants {
			clear(cs.all)
			c = cs.of(k) // forgets the count of tenants, too
		}
		t = &tenant{}
		c.tenants[id] = t
		cs.tenants++
	}
	t.audits, c.audits = t.audits.add(now), c.audits.add(now)
}

// Settle counts an outcome. A tenant among others whose drafts are worse than ε beyond doubt gets evidence of its own:
// its traffic leaves the class, and what it has brought to the class' evidence stays there, as bad as it was.
func (cs *Classes) Settle(k risk.Key, id string, bad bool, r risk.Rule, now time.Time) {
	const certain = 100 // times as sure as the guarantee, because there are many tenants
	cs.mu.Lock()
	defer cs.mu.Unlock()
	c := cs.of(k)
	t := c.tenants[id]
	if t == nil {
		return
	}
	if t.n++; bad {
		t.bad++
	}
	if len(c.tenants) > 1 && risk.LogUpperE(t.n, t.bad, r.MaxDisagreement) >= math.Log(certain/r.ErrorProbability) {
		*t = tenant{apart: now.Add(apartFor), audits: t.audits}
	}
}

// IsApart reports whether a tenant has evidence of its own.
func (cs *Classes) IsApart(k risk.Key, id string, now time.Time) bool {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	t := cs.of(k).tenants[id]
	return t != nil && now.Before(t.apart)
}

// perMinute is an exponentially decaying count of events: each counts e^(−age/1 min).
type perMinute struct {
	count float64
	last  time.Time
}

// add counts one event.
func (p perMinute) add(now time.Time) perMinute {
	return perMinute{p.at(now) + 1, now}
}

// at is the count at a time.
func (p perMinute) at(now time.Time) float64 {
	if p.count == 0 {
		return 0
	}
	return p.count * math.Exp(-now.Sub(p.last).Minutes())
}
