// Package audit finds out what the target thinks of drafts that nobody asked it about, so that a threshold can be certified. An
// audited draft is read to its end by a [Draft] of its own, whatever becomes of the one that the client may get. In the
// background the target then labels it good or bad, and the outcome is booked as evidence.
//
// Start at [Auditor]: it says how many audits there may be, and runs them. An audit has no record and no client, and nothing
// that the request does goes by it.
package audit

import (
	"context"
	"crypto/rand"
	"fmt"
	"sync"
	"time"

	"github.com/foregate/foregate/tiers/economy"
	"github.com/foregate/foregate/tiers/plan"
	"github.com/foregate/foregate/tiers/receipt"
	"github.com/foregate/foregate/tiers/risk"
	"github.com/foregate/foregate/tiers/world"
)

// Evidence is what audits have shown, for all replicas together.
type Evidence interface {
	// View is what requests of a key go by. It does not wait.
	View(k risk.Key) risk.View
	// Open books an audit as bad before anybody knows its outcome.
	Open(ctx context.Context, b PendingAudit) (risk.OpenResult, error)
	// OpenWarmup books the audit of a draft that the warm-up of a key served.
	OpenWarmup(ctx context.Context, k risk.Key, ticket string) (risk.OpenResult, error)
	// Drafted notes a request in the time of the warm-up: how many drafts were made for it, and how many of them were the answer. The
	// first begins the warm-up. It does not wait.
	Drafted(k risk.Key, made, served int)
	// Close ends one that was booked.
	Close(ctx context.Context, k risk.Key, ticket string, bad bool) error
}

// PendingAudit is one draft that the target is about to be asked about.
type PendingAudit struct {
	risk.Decision
	Ticket   string // names it: 1 … 64 of [A-Za-z0-9-]
	Score    float64
	Features []float64 // that a calibrated score is fitted to
	Tokens   int       // of the draft
	Map      int       // version of the calibrated score; 0 is none
}

// NoEvidence knows nothing, and nothing can be known.
type NoEvidence struct{}

// View implements [Evidence].
func (NoEvidence) View(risk.Key) risk.View { return risk.View{} }

// Open implements [Evidence].
func (NoEvidence) Open(context.Context, PendingAudit) (risk.OpenResult, error) {
	return risk.Stale, nil
}

// OpenWarmup implements [Evidence].
func (NoEvidence) OpenWarmup(context.Context, risk.Key, string) (risk.OpenResult, error) {
	return risk.Stale, nil
}

// Drafted implements [Evidence].
func (NoEvidence) Drafted(risk.Key, int, int) {}

// Close implements [Evidence].
func (NoEvidence) Close(context.Context, risk.Key, string, bool) error { return nil }

// Metrics counts audits. Labels are of closed sets.
type Metrics interface {
	// CountAudit tells what the target computed for one, and in US dollars where prices are known, else 0.
	CountAudit(route string, tokens int, usd float64)
	// CountDroppedAudit tells of one that nothing came of, before its outcome was known.
	CountDroppedAudit(route, why string)
	// CountAuditPanic tells of one that did, which was caught.
	CountAuditPanic()
}

// Options wires an Auditor. World and Metrics are needed.
type Options struct {
	World     world.World
	Evidence  Evidence // nil is [NoEvidence]
	Metrics   Metrics
	Prices    func(route string) economy.Prices // of a token at its pools, as far as known; nil is unknown
	Replicas  func() int                        // gateways that share the evidence; nil is one
	NewTicket func() string                     // names an audit, as no other; nil is by crypto/rand
}

const (
	// maxAudits bounds the audits, and drafts in the shadow, that are under way or wait for
	// their turn. What is beyond is not audited, which is decided before the draft is begun.
	maxAudits = 64
	// auditWait is how long an audit waits for capacity at the target, and auditTime how long it
	// may take with all its tries where its request may not take longer.
	auditWait, auditTime = time.Minute, 10 * time.Minute
	// auditPause is the pause before it is tried again.
	auditPause = 500 * time.Millisecond
	// auditTries is how often the target is asked for its word once the audit is booked.
	auditTries = 3
)

// Auditor says how many audits there may be, and runs them in the background. It is safe for concurrent use.
type Auditor struct {
	Options

	mu      sync.Mutex
	ctx     context.Context // of Begin; nil while nothing runs
	tasks   int             // tasks
	working int             // of these, at the pools
	idle    world.Signal    // given when the last task has ended; nil while nobody waits for that
	rates   rates
	budgets map[string]*budget // by route; routes come from the configuration
}

// New wires an Auditor. Nothing is audited before [Auditor.Begin].
func New(o Options) (*Auditor, error) {
	if o.World == nil || o.Metrics == nil {
		return nil, fmt.Errorf("audit: no world or no metrics")
	}
	if o.Evidence == nil {
		o.Evidence = NoEvidence{}
	}
	if o.Prices == nil {
		o.Prices = func(string) economy.Prices { return economy.Prices{} }
	}
	if o.Replicas == nil {
		o.Replicas = func() int { return 1 }
	}
	if o.NewTicket == nil {
		o.NewTicket = rand.Text
	}
	return &Auditor{Options: o, rates: rates{}, budgets: map[string]*budget{}}, nil
}

// Views are what is known of a kind of request that comes now, and the kind at the threshold in force. The request counts among
// those of its kind.
func (a *Auditor) Views(cfg *plan.Config, k plan.EvidenceKeys) (plan.EvidenceKeys, plan.Views) {
	now, n := a.World.Now(), float64(max(a.Replicas(), 1))
	v := plan.Views{Own: a.Evidence.View(k.Own), PerMinute: n * a.rate(k.Own, now), Now: now}
	k = k.AtOperatingPoint(v.Own.Op)
	if cfg.HeadCheck != plan.HeadOff && v.Own.Serves() {
		v.Head = a.Evidence.View(k.Head)
	}
	if cfg.Risk.InheritFromRoute {
		v.Route, v.RoutePerMinute = a.Evidence.View(k.Route), n*a.rate(k.Route, now)
	}
	return k, v
}

// rate counts a request of a kind and tells how many there are in a minute.
func (a *Auditor) rate(k risk.Key, now time.Time) float64 {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.rates.add(k, now)
}

// MayAudit reports whether another audit of the route may be decided on. One that the target has capacity to spare for is no matter of the
// route's budget.
func (a *Auditor) MayAudit(route string, r *plan.Risk, spare bool) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	b := a.budgets[route]
	return r.MaxConcurrentAudits > 0 && a.ctx != nil && a.tasks < maxAudits && (spare || r.AuditBudget == 0 || b == nil || b.balance >= 0)
}

// AddBudget lets audits of the route cost a share of what a request had the target do.
func (a *Auditor) AddBudget(route string, r *plan.Risk, t receipt.Tally) {
	cost, _ := TargetCost(t, a.Prices(route))
	a.mu.Lock()
	defer a.mu.Unlock()
	a.budget(route).earn(r.AuditBudget * cost)
}

// charge takes what an audit cost out of the route's budget.
func (a *Auditor) charge(route string, cost float64) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.budget(route).spend(cost)
}

// budget is the route's. The caller holds mu.
func (a *Auditor) budget(route string) *budget {
	b := a.budgets[route]
	if b == nil {
		b = &budget{}
		a.budgets[route] = b
	}
	return b
}
