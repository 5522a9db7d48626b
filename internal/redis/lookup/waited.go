package lookup

import (
	"context"
	"sync/atomic"
	"time"
)

// Waited is how long one request has waited for Redis so far. Each [Client] takes it off its own budget, so that all
// waits of the request together are no longer than the longest budget. The zero value has waited for nothing. It is safe
// for concurrent use.
type Waited struct{ total atomic.Int64 } // ns

type waitedKey struct{}

// WithWaited makes the calls of a context share one Waited.
func WithWaited(ctx context.Context, p *Waited) context.Context {
	return context.WithValue(ctx, waitedKey{}, p)
}

// waitedOf is a context's, or one of its own.
func waitedOf(ctx context.Context) *Waited {
	if p, ok := ctx.Value(waitedKey{}).(*Waited); ok {
		return p
	}
	return &Waited{}
}

// remaining is what it leaves of a budget.
func (p *Waited) remaining(budget time.Duration) time.Duration {
	return max(0, budget-time.Duration(p.total.Load()))
}

// add takes a wait off.
func (p *Waited) add(d time.Duration) { p.total.Add(int64(d)) }
