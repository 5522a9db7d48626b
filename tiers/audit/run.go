package audit

import (
	"context"
	"time"
)

// Begin lets audits run until ctx ends. [Auditor.Rest] is to be called then.
func (a *Auditor) Begin(ctx context.Context) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.ctx, a.idle = ctx, nil
}

// Wait waits for the end of all audits: no other is begun, and Begin's context has cancelled those that run.
func (a *Auditor) Wait() {
	idle := a.World.NewSignal()
	a.mu.Lock()
	a.ctx = nil
	running := a.tasks > 0
	if running && a.idle == nil {
		a.idle = idle
	}
	idle = a.idle
	a.mu.Unlock()
	if running {
		_ = idle.Wait(context.Background()) // which does not end
	}
}

// start runs a task in the background, for as long as the request that it is about may take and never less
// than auditTime; it reports whether there was a place for it.
func (a *Auditor) start(limit time.Duration, task func(context.Context)) bool {
	a.mu.Lock()
	parent := a.ctx
	may := parent != nil && parent.Err() == nil && a.tasks < maxAudits
	if may {
		a.tasks++
	}
	a.mu.Unlock()
	if !may {
		return false
	}
	ctx, cancel := a.World.WithTimeout(parent, max(limit, auditTime))
	a.World.Go(func() {
		defer a.ended()
		defer cancel()
		defer func() {
			if recover() != nil {
				a.Metrics.CountAuditPanic() // a fault of an audit is nobody's but its own
			}
		}()
		task(ctx)
	})
	return true
}

// ended notes that a task has.
func (a *Auditor) ended() {
	a.mu.Lock()
	a.tasks--
	idle := a.idle
	if a.tasks > 0 {
		idle = nil
	}
	a.mu.Unlock()
	if idle != nil {
		idle.Set()
	}
}

// enter waits for one of so many places at the pools, no longer than auditWait.
func (a *Auditor) enter(ctx context.Context, places int) bool {
	for deadline := a.World.Now().Add(auditWait); !a.place(places); {
		if a.World.Sleep(ctx, auditPause) != nil || a.World.Now().After(deadline) {
			return false
		}
	}
	return true
}

// place takes a place, where one is free.
func (a *Auditor) place(places int) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.working >= places {
		return false
	}
	a.working++
	return true
}

// leave gives the place back.
func (a *Auditor) leave() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.working--
}
