package audit

import (
	"math"
	"time"

	"github.com/foregate/foregate/tiers/risk"
)

const (
	// maxTenants bounds the tenants of all traffic classes that are told apart. With more, all are learned anew.
	maxTenants = 4096
	// freeAudits is how many audits a minute a tenant may have in a traffic class whatever the others have. Beyond that it has
	// half of the class' audits at most, so that neither hard nor easy traffic of one tenant decides for all.
	freeAudits = 2
	// apartFor is how long a tenant has evidence of its own after its drafts were refuted.
	apartFor = time.Hour
)

// tenantKey is one tenant in one traffic class.
type tenantKey struct {
	risk.Key
	tenant string
}

// tenantAudits are the audits of one.
type tenantAudits struct {
	recent perMinute
	n, bad int       // with an outcome, of drafts that were served or are among the best third
	apart  time.Time // until when it has evidence of its own
}

// tenants are the audits of tenants, at this replica.
type tenants struct {
	each  map[tenantKey]*tenantAudits
	all   map[risk.Key]perMinute // of a class
	first map[risk.Key]string    // the tenant that its first audit was of
	many  map[risk.Key]bool      // it has audits of several tenants
}

// newTenants returns an empty one.
func newTenants() tenants {
	return tenants{map[tenantKey]*tenantAudits{}, map[risk.Key]perMinute{}, map[risk.Key]string{}, map[risk.Key]bool{}}
}

// mayAudit reports whether the tenant's share of the audits leaves room for one more, and whether it has one.
func (t *tenants) mayAudit(k tenantKey, now time.Time) bool {
	e := t.each[k]
	if e == nil || !t.many[k.Key] {
		return true
	}
	return e.recent.at(now) < freeAudits+t.all[k.Key].at(now)/2
}

// add counts an audit that was drawn.
func (t *tenants) add(k tenantKey, now time.Time) {
	e := t.each[k]
	if e == nil {
		if len(t.each) >= maxTenants {
			*t = newTenants()
		}
		e = &tenantAudits{}
		t.each[k] = e
	}
	if first, known := t.first[k.Key]; !known {
		t.first[k.Key] = k.tenant
	} else if first != k.tenant {
		t.many[k.Key] = true
	}
	e.recent = e.recent.add(now)
	t.all[k.Key] = t.all[k.Key].add(now)
}

// settle counts an outcome. A tenant among others whose drafts are worse than ε beyond doubt gets evidence of its own:
// its traffic leaves the class, and what it has brought to the class' evidence stays there, as bad as it was.
func (t *tenants) settle(k tenantKey, bad bool, r risk.Rule, now time.Time) {
	const certain = 100 // times as sure as the guarantee, because there are many tenants
	e := t.each[k]
	if e == nil {
		return
	}
	if e.n++; bad {
		e.bad++
	}
	if t.many[k.Key] && risk.LogUpperE(e.n, e.bad, r.MaxWrongRate) >= math.Log(certain/r.ErrorProbability) {
		*e = tenantAudits{apart: now.Add(apartFor), recent: e.recent}
	}
}

// isApart reports whether a tenant has evidence of its own.
func (t *tenants) isApart(k tenantKey, now time.Time) bool {
	e := t.each[k]
	return e != nil && now.Before(e.apart)
}
