package audit

import (
	"math"
	"sync"
	"time"

	"github.com/foregate/foregate/tiers/risk"
)

const (
	// maxTenants bounds the tenants of all traffic classes that are told apart. With more, all are learned anew.
	maxTenants = 4096
	// freeAudits is how many audits a minute a tenant may have in a traffic class whatever the others have. Beyond that it
	// has half of the class' audits at most, so that neither hard nor easy traffic of one tenant decides for all.
	freeAudits = 2
	// apartFor is how long a tenant has evidence of its own after its drafts were refuted.
	apartFor = time.Hour
)

// Tenant is one tenant in one traffic class.
type Tenant struct {
	risk.Key
	ID string
}

// tenantAudits are the audits of one.
type tenantAudits struct {
	recent perMinute
	n, bad int       // with an outcome, of drafts that were served or are among the best third
	apart  time.Time // until when it has evidence of its own
}

// classAudits are the audits of a traffic class.
type classAudits struct {
	recent perMinute
	first  string // the tenant of the first one
	shared bool   // there are some of other tenants
}

// Tenants knows whose the audits of traffic classes are, at this replica. The zero value is ready. It is safe for
// concurrent use.
type Tenants struct {
	mu      sync.Mutex
	each    map[Tenant]*tenantAudits
	classes map[risk.Key]*classAudits
}

// MayAudit reports whether the tenant's share of the audits of its class leaves room for one more.
func (t *Tenants) MayAudit(k Tenant, now time.Time) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	e := t.each[k]
	if e == nil || !t.classes[k.Key].shared {
		return true
	}
	return e.recent.at(now) < freeAudits+t.classes[k.Key].recent.at(now)/2
}

// Add counts an audit that was drawn.
func (t *Tenants) Add(k Tenant, now time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	e := t.each[k]
	if e == nil {
		if t.each == nil || len(t.each) >= maxTenants {
			t.each, t.classes = map[Tenant]*tenantAudits{}, map[risk.Key]*classAudits{}
		}
		e = &tenantAudits{}
		t.each[k] = e
	}
	c := t.classes[k.Key]
	if c == nil {
		c = &classAudits{first: k.ID}
		t.classes[k.Key] = c
	}
	c.shared = c.shared || c.first != k.ID
	e.recent, c.recent = e.recent.add(now), c.recent.add(now)
}

// settle counts an outcome. A tenant among others whose drafts are worse than ε beyond doubt gets evidence of its own:
// its traffic leaves the class, and what it has brought to the class' evidence stays there, as bad as it was.
func (t *Tenants) settle(k Tenant, bad bool, r risk.Rule, now time.Time) {
	const certain = 100 // times as sure as the guarantee, because there are many tenants
	t.mu.Lock()
	defer t.mu.Unlock()
	e := t.each[k]
	if e == nil {
		return
	}
	if e.n++; bad {
		e.bad++
	}
	if t.classes[k.Key].shared && risk.LogUpperE(e.n, e.bad, r.MaxDisagreement) >= math.Log(certain/r.ErrorProbability) {
		*e = tenantAudits{apart: now.Add(apartFor), recent: e.recent}
	}
}

// IsApart reports whether a tenant has evidence of its own.
func (t *Tenants) IsApart(k Tenant, now time.Time) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	e := t.each[k]
	return e != nil && now.Before(e.apart)
}
