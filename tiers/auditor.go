package tiers

import (
	"context"
	"math"
	"sync"
	"time"

	"github.com/foregate/foregate/tiers/plan"
	"github.com/foregate/foregate/tiers/risk"
)

// Evidence is what audits have shown, for all replicas together.
type Evidence interface {
	// View is what requests of a key go by. It does not wait.
	View(k risk.Key) risk.View
	// Open books an audit as bad before anybody knows its outcome.
	Open(ctx context.Context, a Audit) (risk.Fate, error)
	// OpenWarmup books the audit of a draft that the warm-up of a key served.
	OpenWarmup(ctx context.Context, k risk.Key, ticket string) (risk.Fate, error)
	// Drafted notes a request in the time of the warm-up: how many drafts were made for it, and how many of them were the answer. The
	// first begins the warm-up. It does not wait.
	Drafted(k risk.Key, made, served int)
	// Close ends one that was booked.
	Close(ctx context.Context, k risk.Key, ticket string, bad bool) error
}

// Audit is one draft that the target is about to be asked about.
type Audit struct {
	risk.Decision
	Ticket   string // names it: 1 … 64 of [A-Za-z0-9-]
	Score    float64
	Features []float64 // that a calibrated score is fitted to
	Tokens   int       // of the draft
	Map      int       // version of the calibrated score; 0 is none
}

// noEvidence knows nothing, and nothing can be known.
type noEvidence struct{}

func (noEvidence) View(risk.Key) risk.View                        { return risk.View{} }
func (noEvidence) Open(context.Context, Audit) (risk.Fate, error) { return risk.Stale, nil }
func (noEvidence) OpenWarmup(context.Context, risk.Key, string) (risk.Fate, error) {
	return risk.Stale, nil
}
func (noEvidence) Drafted(risk.Key, int, int)                          {}
func (noEvidence) Close(context.Context, risk.Key, string, bool) error { return nil }

const (
	// mostAudits bounds the audits, and drafts in the shadow, that are under way or wait for
	// their turn. What is beyond is not audited, which is decided before the draft is begun.
	mostAudits = 64
	// mostKinds bounds the kinds of request whose rate is known.
	mostKinds = 1024
	// auditWait is how long an audit waits for room at the target, and auditTime how long it
	// may take with all its tries where its request may not take longer.
	auditWait, auditTime = time.Minute, 10 * time.Minute
	// auditPause is the pause before it is tried again.
	auditPause = 500 * time.Millisecond
	// auditTries is how often the target is asked for its word once the audit is booked.
	auditTries = 3
	// purseAudits is for how many audits like the last a route may save up.
	purseAudits = 50
)

// auditor runs audits in the background and says how many there may be.
type auditor struct {
	mu      sync.Mutex
	ctx     context.Context // of Run; nil while nothing runs
	under   int             // tasks
	working int             // of these, at the pools
	rates   map[risk.Key]*perMinute
	purses  map[string]*purse // by route
	all     sync.WaitGroup

	panicked func() // told of a task that did; nil is nobody
}

// perMinute counts events of about the last minute.
type perMinute struct {
	count float64
	at    time.Time
}

// add counts one, and tells how many there were in a minute: each counts e^(−age/1 min).
func (p *perMinute) add(now time.Time) float64 {
	p.count = p.count*math.Exp(-now.Sub(p.at).Minutes()) + 1
	p.at = now
	return p.count
}

// purse is what a route's audits may still cost, in the price of tokens.
type purse struct{ balance, last float64 }

// begin lets tasks run until ctx ends.
func (a *auditor) begin(ctx context.Context) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.ctx = ctx
}

// rest ends all tasks: nothing new is begun, and what runs has been cancelled.
func (a *auditor) rest() {
	a.mu.Lock()
	a.ctx = nil
	a.mu.Unlock()
	a.all.Wait()
}

// rate counts a request of a kind and tells how many there are in a minute.
func (a *auditor) rate(k risk.Key, now time.Time) float64 {
	a.mu.Lock()
	defer a.mu.Unlock()
	p := a.rates[k]
	if p == nil {
		if len(a.rates) >= mostKinds {
			clear(a.rates) // they are known again in a minute
		}
		if a.rates == nil {
			a.rates = make(map[risk.Key]*perMinute)
		}
		p = &perMinute{at: now}
		a.rates[k] = p
	}
	return p.add(now)
}

// may reports whether another audit of the route may be decided on. An audit that the target has capacity to spare for is no matter of the
// route's budget.
func (a *auditor) may(route string, r *plan.Risk, spare bool) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	p := a.purses[route]
	return r.AtOnce > 0 && a.ctx != nil && a.under < mostAudits && (spare || r.Spend == 0 || p == nil || p.balance >= 0)
}

// earn puts a share of what the target cost into the route's purse.
func (a *auditor) earn(route string, cost float64) {
	a.mu.Lock()
	defer a.mu.Unlock()
	p := a.purse(route)
	most := purseAudits * p.last
	if p.last == 0 {
		most = purseAudits * cost // until one audit has shown what they cost
	}
	p.balance = min(p.balance+cost, max(most, 0))
}

// spent takes what an audit cost out of the route's purse.
func (a *auditor) spent(route string, cost float64) {
	a.mu.Lock()
	defer a.mu.Unlock()
	p := a.purse(route)
	if p.balance -= cost; cost > 0 { // an audit that asked nobody says nothing of the next
		p.last = cost
	}
}

// purse is the route's. The caller holds mu; routes come from the configuration.
func (a *auditor) purse(route string) *purse {
	if a.purses == nil {
		a.purses = make(map[string]*purse)
	}
	p := a.purses[route]
	if p == nil {
		p = &purse{}
		a.purses[route] = p
	}
	return p
}

// start runs a task in the background, for as long as the request that it is about may take and never less
// than auditTime; it reports whether there was room for it.
func (a *auditor) start(most time.Duration, task func(context.Context)) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.ctx == nil || a.ctx.Err() != nil || a.under >= mostAudits {
		return false
	}
	a.under++
	ctx, cancel := context.WithTimeout(a.ctx, max(most, auditTime))
	a.all.Go(func() {
		defer func() {
			if recover() != nil && a.panicked != nil {
				a.panicked() // a fault of an audit is nobody's but its own
			}
			cancel()
			a.mu.Lock()
			a.under--
			a.mu.Unlock()
		}()
		task(ctx)
	})
	return true
}

// enter waits for one of most places at the pools, no longer than auditWait.
func (a *auditor) enter(ctx context.Context, most int) bool {
	for deadline := time.Now().Add(auditWait); ; {
		a.mu.Lock()
		free := a.working < most
		if free {
			a.working++
		}
		a.mu.Unlock()
		if free {
			return true
		}
		if !pause(ctx, auditPause) || time.Now().After(deadline) {
			return false
		}
	}
}

// leave gives the place back.
func (a *auditor) leave() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.working--
}

// pause waits, and reports whether ctx is still alive.
func pause(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-t.C:
		return true
	}
}
