// Package audit limits which drafts are audited: how many at once, at which cost, and how many of whom. It also knows what
// the requests of each traffic class are like. Package tiers makes the audits, and asks [Auditor] whether it may.
package audit

import (
	"context"
	"crypto/rand"
	"sync"
	"time"

	"github.com/foregate/foregate/tiers/plan"
	"github.com/foregate/foregate/tiers/risk"
	"github.com/foregate/foregate/tiers/world"
)

// Evidence stores the outcomes of audits for all replicas. Package tiers/evidence implements it.
type Evidence interface {
	// View returns the certified thresholds of a key. It does not block.
	View(k risk.Key) risk.View
	// State returns the evidence behind a view. It does not block.
	State(k risk.Key) *risk.KeyState
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

// Options configure an [Auditor]. World is required.
type Options struct {
	World     world.World
	Evidence  Evidence      // nil: no route is audited
	Replicas  func() int    // replicas that share the evidence; nil: one
	NewTicket func() string // returns a unique id; nil: crypto/rand
	OnPanic   func()        // called when an audit has panicked; nil: nobody hears of it
}

const (
	// maxAudits bounds the audits and shadow drafts that run or wait. Further drafts are not audited. This is decided
	// before the draft starts, so that it does not depend on the draft's content.
	maxAudits = 64
	// Wait bounds the wait of an audit for capacity at the target, and then for its answer.
	Wait = time.Minute
)

// Auditor limits audits and runs them in the background. It is safe for concurrent use.
type Auditor struct {
	Options
	Classes Classes
	Tasks   *world.Tasks // that run audits and shadow drafts

	mu      sync.Mutex
	budgets map[string]budget // by route; routes come from the configuration
}

// New returns an Auditor.
func New(o Options) *Auditor {
	if o.Replicas == nil {
		o.Replicas = func() int { return 1 }
	}
	if o.NewTicket == nil {
		o.NewTicket = rand.Text
	}
	if o.OnPanic == nil {
		o.OnPanic = func() {}
	}
	tasks := world.NewTasks(world.TaskOptions{World: o.World, Max: maxAudits, Patience: Wait, OnPanic: o.OnPanic})
	return &Auditor{Options: o, Tasks: tasks, budgets: map[string]budget{}}
}

// Views counts a request of a traffic class, and returns what the evidence says of it.
func (a *Auditor) Views(k risk.Key, by MixKey) plan.Views {
	now, n := a.World.Now(), float64(max(a.Replicas(), 1))
	return plan.Views{Own: a.Classes.Limit(k, a.Evidence.View(k), by, a.Evidence.State), PerMinute: n * a.Classes.addRequest(k, now), Now: now}
}

// MayAudit reports whether the route may start another audit. spare says that the target has spare capacity; the audit
// is then not charged to the route's budget.
func (a *Auditor) MayAudit(route string, r *plan.Risk, spare bool) bool {
	if r.MaxConcurrentAudits <= 0 || !a.Tasks.Free() {
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

// AddBudget adds a share of the cost of a request to the audit budget of its route.
func (a *Auditor) AddBudget(route string, cost float64) {
	a.mu.Lock()
	defer a.mu.Unlock()
	b := a.budgets[route]
	b.earn(cost)
	a.budgets[route] = b
}

// Charge subtracts the cost of an audit from the route's budget; paid is what it cost at a target that is paid by the token.
func (a *Auditor) Charge(route string, r *plan.Risk, cost, paid float64) {
	now := a.World.Now()
	a.mu.Lock()
	defer a.mu.Unlock()
	b := a.budgets[route]
	b.spend(cost)
	if paid > 0 {
		b.dollars, b.at = b.dollarsLeft(a.perDay(r), now)-paid, now
	}
	a.budgets[route] = b
}
