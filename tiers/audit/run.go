package audit

import (
	"context"
	"time"
)

// Begin allows audits until ctx ends. Call [Auditor.Wait] afterwards.
func (a *Auditor) Begin(ctx context.Context) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.ctx, a.idle = ctx, nil
}

// Wait waits for the end of all audits. No new one starts, and the end of Begin's context has cancelled the running
// ones.
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
		_ = idle.Wait(context.Background()) // no deadline: the tasks were cancelled
	}
}

// start runs a task in the background with the time limit of its request, at least auditTime. It reports whether there
// was a slot.
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
				a.Metrics.CountAuditPanic() // a panic ends the audit only
			}
		}()
		task(ctx)
	})
	return true
}

// ended counts the end of a task.
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

// enter waits for one of so many pool slots, auditWait at most.
func (a *Auditor) enter(ctx context.Context, places int) bool {
	for deadline := a.World.Now().Add(auditWait); !a.place(places); {
		if a.World.Sleep(ctx, auditPause) != nil || a.World.Now().After(deadline) {
			return false
		}
	}
	return true
}

// place takes a pool slot if one is free.
func (a *Auditor) place(places int) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.working >= places {
		return false
	}
	a.working++
	return true
}

// leave frees the pool slot.
func (a *Auditor) leave() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.working--
}
