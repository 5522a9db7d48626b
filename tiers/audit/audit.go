// Package audit checks a sample of drafts with the target, so that a threshold can be certified (package risk). An
// audited draft is read to its end by a [Draft] of its own, even if the client's draft is given up. In the background
// the target labels it good or bad, and the label is stored as evidence.
//
// Start at [Auditor], which limits and runs audits. An audit never changes the answer to its request.
package audit

import (
	"context"
	"crypto/rand"
	"sync"
	"time"

	"github.com/foregate/foregate/tiers/inflight"
	"github.com/foregate/foregate/tiers/plan"
	"github.com/foregate/foregate/tiers/risk"
	"github.com/foregate/foregate/tiers/world"
)

// Evidence stores the outcomes of audits for all replicas. Package tiers/evidence implements it.
type Evidence interface {
	// View returns the certified thresholds of a key. It does not block.
	View(k risk.Key) risk.View
	// Open stores an audit as bad until its outcome is known.
	Open(ctx context.Context, b risk.Audit) (risk.OpenResult, error)
	// OpenWarmup stores the audit of a draft that was served during the warm-up of a key, as bad until its outcome is known.
	OpenWarmup(ctx context.Context, k risk.Key, ticket string) (risk.OpenResult, error)
	// Drafted counts a request during the warm-up: the drafts that were made for it, and those that were served. The first call
	// starts the warm-up. It does not block.
	Drafted(k risk.Key, made, served int)
	// Close stores the outcome of an open audit.
	Close(ctx context.Context, k risk.Key, ticket string, bad bool) error
}

// Metrics counts audits. All labels have a bounded set of values.
type Metrics interface {
	// CountAudit adds the cost of one audit in USD; 0 if prices are unknown.
	CountAudit(route string, usd float64)
	// CountDroppedAudit counts an audit that ended without an outcome. After a panic its route is not known.
	CountDroppedAudit(route, why string)
	// CountServedCheck counts a check of a served draft by its result: passed, failed or skipped.
	CountServedCheck(route, result string)
}

// Options configure an [Auditor]. World and Metrics are required.
type Options struct {
	World     world.World
	Evidence  Evidence // nil: no route is audited
	Metrics   Metrics
	Replicas  func() int    // replicas that share the evidence; nil: one
	NewTicket func() string // returns a unique id; nil: crypto/rand
}

const (
	// maxAudits bounds the audits and shadow drafts that run or wait. Further drafts are not audited. This is decided
	// before the draft starts, so that it does not depend on the draft's content.
	maxAudits = 64
	// auditWait bounds the wait of an audit for capacity at the target, and then for its answer. auditTime is the least total time limit of an
	// audit with all its tries.
	auditWait, auditTime = time.Minute, 10 * time.Minute
	// auditPause is the pause between two tries.
	auditPause = 500 * time.Millisecond
	// auditTries bounds the tries to get the target's label once an audit is open.
	auditTries = 3
)

// Auditor limits audits and runs them in the background. It is safe for concurrent use.
type Auditor struct {
	Options
	Classes Classes

	tasks *world.Tasks

	mu      sync.Mutex
	budgets map[string]budget // by route; routes come from the configuration
}

// New returns an Auditor. It audits nothing before [Auditor.Begin].
func New(o Options) *Auditor {
	if o.Replicas == nil {
		o.Replicas = func() int { return 1 }
	}
	if o.NewTicket == nil {
		o.NewTicket = rand.Text
	}
	tasks := world.NewTasks(world.TaskOptions{World: o.World, Max: maxAudits, Patience: auditWait, OnPanic: func() { o.Metrics.CountDroppedAudit("", "panic") }})
	return &Auditor{Options: o, tasks: tasks, budgets: map[string]budget{}}
}

// Views counts a request and returns what the evidence says of its traffic class.
func (a *Auditor) Views(k risk.Key) plan.Views {
	now, n := a.World.Now(), float64(max(a.Replicas(), 1))
	return plan.Views{Own: a.Evidence.View(k), PerMinute: n * a.Classes.addRequest(k, now), Now: now}
}

// MayAudit reports whether the route may start another audit. spare says that the target has spare capacity; the audit
// is then not charged to the route's budget.
func (a *Auditor) MayAudit(route string, r *plan.Risk, spare bool) bool {
	if r.MaxConcurrentAudits <= 0 || !a.tasks.Free() {
		return false
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	b := a.budgets[route]
	if r.AuditUSDPerDay > 0 && b.dollarsLeft(a.perDay(r), a.World.Now()) < 0 {
		return false
	}
	return spare || r.AuditBudget == 0 || b.balance >= 0
}

// perDay is this replica's share of what audits of a route may cost in a day.
func (a *Auditor) perDay(r *plan.Risk) float64 {
	return r.AuditUSDPerDay / float64(max(a.Replicas(), 1))
}

// Begin allows audits until ctx ends. Call [Auditor.Wait] afterwards.
func (a *Auditor) Begin(ctx context.Context) { a.tasks.Begin(ctx) }

// Wait waits for the end of all audits. No new one starts, and the end of Begin's context has cancelled the running ones.
func (a *Auditor) Wait() { a.tasks.Wait() }

// AddBudget adds a share of the cost of target tokens for a request to the audit budget of its route.
func (a *Auditor) AddBudget(r *inflight.Request, t inflight.Tally) {
	cost, _ := targetCost(t, r.TokenPrices())
	a.mu.Lock()
	defer a.mu.Unlock()
	b := a.budgets[r.Route]
	b.earn(r.Config.Risk.AuditBudget * cost)
	a.budgets[r.Route] = b
}

// charge subtracts the cost of an audit from the route's budget; paid is what it cost at a target that is paid by the token.
func (a *Auditor) charge(r *inflight.Request, cost, paid float64) {
	now := a.World.Now()
	a.mu.Lock()
	defer a.mu.Unlock()
	b := a.budgets[r.Route]
	b.spend(cost)
	if paid > 0 {
		b.dollars, b.at = b.dollarsLeft(a.perDay(&r.Config.Risk), now)-paid, now
	}
	a.budgets[r.Route] = b
}
